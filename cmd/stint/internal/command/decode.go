package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint"
)

// taskBytesMax has room for the largest body, even if JSON escapes every byte of it.
const taskBytesMax = 512 << 20

// A decoder reads tasks from JSON objects, each of which begins on a line of its own.
type decoder struct {
	json  *json.Decoder
	input *recorder

	// text is what was read of the task at hand, with the blanks before it. It begins at byte base
	// of the input, in the line of that number, behind that many letters.
	text          []byte
	base          int64
	line, letters int

	// tasks is how many tasks were read. lines has, for each task that is not on the line after the
	// task before it, on which line it is.
	tasks int
	lines []taskLine
	// named are the IDs given to tasks that had none.
	named []stint.TaskID
	// paused are the names of schedules that were paused when they were printed.
	paused []string
}

type taskLine struct{ task, line int }

func newDecoder(r io.Reader) *decoder {
	input := &recorder{from: bufio.NewReaderSize(r, 64<<10)}
	return &decoder{json: json.NewDecoder(input), input: input, line: 1}
}

// A recorder keeps what was read, for errors to be found in it.
type recorder struct {
	from io.Reader
	text []byte
	err  error // what reading failed with
}

var errLong = errors.New("too long")

func (r *recorder) Read(p []byte) (int, error) {
	if len(r.text) > taskBytesMax {
		return 0, errLong
	}
	n, err := r.from.Read(p)
	r.text = append(r.text, p[:n]...)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// next returns the next task, io.EOF after the last one, or an error that says what is wrong with
// the task and where.
func (d *decoder) next() (stint.Task, error) {
	task, err := d.decode()
	if err != nil {
		return stint.Task{}, err
	}
	line := d.line + newlines(d.text[:d.start()])
	if line != d.lineOf(d.tasks) {
		d.lines = append(d.lines, taskLine{d.tasks, line})
	}
	d.tasks++
	d.pass()
	if task.ID == "" {
		task.ID = stint.TaskID(uuid.NewString())
		d.named = append(d.named, task.ID)
	}
	return task, nil
}

// lineOf returns the number of the line that a task begins on.
func (d *decoder) lineOf(task int) int {
	at := sort.Search(len(d.lines), func(i int) bool { return d.lines[i].task > task })
	if at == 0 {
		return task + 1
	}
	before := d.lines[at-1]
	return before.line + task - before.task
}

const blanks = " \t\r\n"

// start is where the task in the text begins, behind blanks.
func (d *decoder) start() int { return len(d.text) - len(bytes.TrimLeft(d.text, blanks)) }

// pass goes on behind the text.
func (d *decoder) pass() {
	d.base += int64(len(d.text))
	d.input.text = d.input.text[len(d.text):]
	if last := bytes.LastIndexByte(d.text, '\n'); last >= 0 {
		d.line += newlines(d.text)
		d.letters = 0
		d.text = d.text[last+1:]
	}
	d.letters += utf8.RuneCount(d.text)
	d.text = nil
}

func newlines(text []byte) int { return bytes.Count(text, []byte{'\n'}) }

// wrong is an error at the byte of the text with that offset.
func (d *decoder) wrong(offset int, format string, args ...any) error {
	offset = min(offset, len(bytes.TrimRight(d.text, blanks)))
	line, letters := d.line, d.letters
	before := d.text[:offset]
	if last := bytes.LastIndexByte(before, '\n'); last >= 0 {
		line += newlines(before)
		before, letters = before[last+1:], 0
	}
	return fmt.Errorf("%w: line %d, column %d: %s", errInput, line,
		letters+utf8.RuneCount(before)+1, fmt.Sprintf(format, args...))
}

// decode reads the text of a task, and the task from it.
func (d *decoder) decode() (stint.Task, error) {
	if err := d.object("task"); err != nil {
		return stint.Task{}, err
	}
	return d.task(d.start(), len(d.text))
}

// object reads the text of the next object, each of which stands for what is named.
func (d *decoder) object(what string) error {
	var whole json.RawMessage
	err := d.json.Decode(&whole)
	d.text = d.input.text
	if err != nil {
		return d.syntaxError(err)
	}
	d.text = d.text[:d.json.InputOffset()-d.base]
	if at := invalidUTF8(d.text); at >= 0 {
		return d.wrong(at, "not UTF-8")
	}
	start := d.start()
	sameLine := d.tasks > 0 && newlines(d.text[:start]) == 0
	if d.text[start] != '{' || sameLine {
		return d.wrong(start, "expected an object for each %s, beginning on its own line", what)
	}
	return nil
}

// task reads a task from the object at this place of the text.
func (d *decoder) task(from, to int) (stint.Task, error) {
	var task stint.Task
	seen, err := d.members(from, to, func(name string, value json.RawMessage, _ int) error {
		return setField(&task, name, value)
	})
	switch {
	case err != nil:
		return task, err
	case seen["body"] && seen["body_base64"]:
		return task, d.wrong(from, "body and body_base64 exclude each other")
	case task.Action == "":
		return task, d.wrong(from, "action is missing")
	}
	return task, nil
}

// syntaxError says where the text is no JSON, or why it could not be read.
func (d *decoder) syntaxError(err error) error {
	var syntax *json.SyntaxError
	switch {
	case d.input.err != nil:
		return fmt.Errorf("read tasks: %w", d.input.err)
	case errors.Is(err, errLong):
		return d.wrong(d.start(), "longer than %d MiB", taskBytesMax>>20)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return d.wrong(len(d.text), "unexpected end of JSON input")
	case errors.As(err, &syntax):
		at := int(syntax.Offset-d.base) - 1 // it counts the byte that is wrong
		if invalid := invalidUTF8(d.text); invalid >= 0 && invalid < at {
			return d.wrong(invalid, "not UTF-8")
		}
		return d.wrong(at, "%v", syntax)
	}
	return err // io.EOF
}

// members passes the members of the object at this place of the text, which is known to be
// well-formed, to set, each with the place of its value. It returns their names.
func (d *decoder) members(
	from, to int, set func(name string, value json.RawMessage, at int) error,
) (map[string]bool, error) {
	text := d.text[from:to]
	object := json.NewDecoder(bytes.NewReader(text))
	if _, err := object.Token(); err != nil {
		return nil, d.wrong(from, "%v", err)
	}
	seen := map[string]bool{}
	for object.More() {
		end := int(object.InputOffset())
		at := from + end + bytes.IndexByte(text[end:], '"') // past the comma and spaces
		key, err := object.Token()
		if err != nil {
			return nil, d.wrong(at, "%v", err)
		}
		name, ok := key.(string)
		if !ok || seen[name] {
			return nil, d.wrong(at, "duplicate field %q", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := object.Decode(&value); err != nil {
			return nil, d.wrong(at, "%v", err)
		}
		err = set(name, value, from+int(object.InputOffset())-len(value))
		switch {
		case errors.Is(err, errInput): // it says where
			return nil, err
		case err != nil:
			return nil, d.wrong(at, "%v", err)
		}
	}
	return seen, nil
}

func read[T any](into *T, value json.RawMessage, name, want string) error {
	if err := json.Unmarshal(value, into); err != nil {
		return fmt.Errorf("%s: must be %s", name, want)
	}
	return nil
}

// readText reads a string that parse makes a value of. A null leaves the value as it is.
func readText[T any](
	into *T, value json.RawMessage, name, want string, parse func(text string) (T, error),
) error {
	var text *string
	if err := read(&text, value, name, want); err != nil || text == nil {
		return err
	}
	parsed, err := parse(*text)
	if err != nil {
		return fmt.Errorf("%s: must be %s", name, want)
	}
	*into = parsed
	return nil
}

// readName reads a string that may be left out, for what is said, but not be empty.
func readName[T ~string](into *T, value json.RawMessage, name, leftOut string) error {
	err := read(into, value, name, "a string")
	if err == nil && string(value) == `""` {
		err = fmt.Errorf("%s is empty; leave it out %s", name, leftOut)
	}
	return err
}

func readTime(into *time.Time, value json.RawMessage, name string) error {
	return read(into, value, name, `a time in RFC 3339, such as "2026-11-21T15:04:05Z"`)
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
