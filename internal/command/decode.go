package command

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/readable"
)

// lineBytesMax has room for the largest body, even if JSON escapes every byte of it.
const lineBytesMax = 512 << 20

// A decoder reads tasks from JSON lines.
type decoder struct {
	lines *bufio.Reader
	line  int // The number of the line read last.
	text  []byte

	// tasks is how many tasks were read; blanks has, for each blank line, the number of the task
	// after it.
	tasks  int
	blanks []int
	// named are the IDs given to tasks that had none.
	named []stint.TaskID
}

func newDecoder(r io.Reader) *decoder {
	return &decoder{lines: bufio.NewReaderSize(r, 64<<10)}
}

// next returns the next task, io.EOF after the last one, or an error that says what is wrong with
// the task and where.
func (d *decoder) next() (stint.Task, error) {
	for {
		err := d.readLine()
		if err != nil {
			return stint.Task{}, err
		}
		if len(bytes.TrimSpace(d.text)) > 0 {
			break
		}
		d.blanks = append(d.blanks, d.tasks)
	}
	task, err := d.decode()
	if err != nil {
		return task, err
	}
	d.tasks++
	if task.ID == "" {
		task.ID = stint.TaskID(uuid.NewString())
		d.named = append(d.named, task.ID)
	}
	return task, nil
}

// lineOf returns the number of the line that a task came from.
func (d *decoder) lineOf(task int) int {
	line := task + 1
	for _, before := range d.blanks {
		if before <= task {
			line++
		}
	}
	return line
}

func (d *decoder) readLine() error {
	d.text = d.text[:0]
	for {
		piece, err := d.lines.ReadSlice('\n')
		d.text = append(d.text, piece...)
		if len(d.text) > lineBytesMax {
			return fmt.Errorf("%w: line %d is longer than %d MiB", errInput, d.line+1,
				lineBytesMax>>20)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(d.text) > 0: // a last line that has no end
		case errors.Is(err, io.EOF):
			return io.EOF
		case err != nil:
			return fmt.Errorf("read tasks: %w", err)
		}
		d.line++
		return nil
	}
}

// wrong is an error at the byte of the line with that offset.
func (d *decoder) wrong(offset int, format string, args ...any) error {
	offset = min(offset, len(bytes.TrimRight(d.text, "\r\n")))
	column := utf8.RuneCount(d.text[:offset]) + 1
	return fmt.Errorf("%w: line %d, column %d: %s", errInput, d.line, column,
		fmt.Sprintf(format, args...))
}

func (d *decoder) decode() (stint.Task, error) {
	var task stint.Task
	if at := invalidUTF8(d.text); at >= 0 {
		return task, d.wrong(at, "not UTF-8")
	}
	var whole json.RawMessage
	var syntax *json.SyntaxError
	if err := json.Unmarshal(d.text, &whole); errors.As(err, &syntax) {
		at := int(syntax.Offset)
		if !strings.HasPrefix(syntax.Error(), "unexpected end") {
			at-- // it counts the byte that is wrong
		}
		return task, d.wrong(at, "%v", syntax)
	} else if err != nil {
		return task, d.wrong(0, "%v", err)
	}
	start := bytes.IndexByte(d.text, '{')
	if bytes.TrimSpace(d.text)[0] != '{' {
		return task, d.wrong(len(d.text)-len(bytes.TrimLeft(d.text, " \t\r")),
			"want an object for each task, on a line of its own")
	}
	if err := d.fields(&task); err != nil {
		return task, err
	}
	if task.Action == "" {
		return task, d.wrong(start, "action is missing")
	}
	return task, nil
}

// fields reads the members of the object, which is known to be well-formed.
func (d *decoder) fields(task *stint.Task) error {
	object := json.NewDecoder(bytes.NewReader(d.text))
	if _, err := object.Token(); err != nil {
		return d.wrong(0, "%v", err)
	}
	seen := map[string]bool{}
	for object.More() {
		end := int(object.InputOffset())
		at := end + bytes.IndexByte(d.text[end:], '"') // past the comma and spaces
		key, err := object.Token()
		if err != nil {
			return d.wrong(at, "%v", err)
		}
		name, ok := key.(string)
		if !ok || seen[name] {
			return d.wrong(at, "%q comes twice", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := object.Decode(&value); err != nil {
			return d.wrong(at, "%v", err)
		}
		if err := setField(task, name, value); err != nil {
			return d.wrong(at, "%v", err)
		}
	}
	if seen["body"] && seen["body_base64"] {
		return d.wrong(0, "body and body_base64 exclude each other")
	}
	return nil
}

// setField sets the field of that name. A null does the same as leaving the field out.
func setField(task *stint.Task, name string, value json.RawMessage) error {
	null := string(value) == "null"
	switch name {
	case "id":
		if err := read(&task.ID, value, name, "a string"); err != nil {
			return err
		}
		if !null && task.ID == "" {
			return errors.New("id is empty; leave it out to get a new one")
		}
		return nil
	case "action":
		return read(&task.Action, value, name, "a string")
	case "body":
		if null {
			return nil
		}
		task.Body = value
		if value[0] == '"' {
			text := ""
			err := read(&text, value, name, "a string")
			task.Body = []byte(text)
			return err
		}
		return nil
	case "body_base64":
		return readBase64(task, value)
	case "priority":
		return read(&task.Priority, value, name, "a whole number from -32768 to 32767")
	case "max_tries":
		return read(&task.MaxTries, value, name, "a whole number")
	case "not_before":
		return readTime(&task.NotBefore, value, name)
	case "deadline":
		return readTime(&task.Deadline, value, name)
	case "post_result":
		return read(&task.PostResult, value, name, "true or false")
	case "on_abort":
		return readOnAbort(&task.OnAbort, value)
	case "after":
		return read(&task.After, value, name, "a list of IDs")
	case "to_signal_after":
		return read(&task.ToSignalAfter, value, name, "a list of IDs")
	}
	return fmt.Errorf("unknown field %q (see: stint help insert)", name)
}

func read[T any](into *T, value json.RawMessage, name, want string) error {
	if err := json.Unmarshal(value, into); err != nil {
		return fmt.Errorf("%s: want %s", name, want)
	}
	return nil
}

func readBase64(task *stint.Task, value json.RawMessage) error {
	const want = "a string in base64, as of RFC 4648, with padding"
	var text *string
	if err := read(&text, value, "body_base64", want); err != nil || text == nil {
		return err
	}
	body, err := base64.StdEncoding.Strict().DecodeString(*text)
	if err != nil {
		return errors.New("body_base64: want " + want)
	}
	task.Body = body
	return nil
}

func readTime(into *time.Time, value json.RawMessage, name string) error {
	return read(into, value, name, `a time as of RFC 3339, such as "2026-11-21T15:04:05Z"`)
}

func readOnAbort(into *stint.OnAbort, value json.RawMessage) error {
	var text *string
	err := read(&text, value, "on_abort", "a string")
	switch {
	case err != nil || text == nil:
		return err
	case *text == readable.AbortToo:
		*into = stint.AbortToo
	case *text == readable.RunAnyway:
		*into = stint.RunAnyway
	default:
		return fmt.Errorf("on_abort: want %q or %q", readable.AbortToo, readable.RunAnyway)
	}
	return nil
}

// invalidUTF8 is the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(text []byte) int {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}
