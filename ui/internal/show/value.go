package show

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stint-tasks/stint"
)

const (
	// ValueMax is how many bytes of a body or result are read for a page.
	ValueMax = 64 << 10
	// hexMax is how many of these are shown as hexadecimal numbers.
	hexMax = 4 << 10
	// depthMax is how deep JSON may be nested that is indented: otherwise few bytes would become
	// many spaces.
	depthMax = 40
	// indentedMax is how many bytes are shown of what indented JSON has.
	indentedMax = 4 * ValueMax
)

// A Value is a body or a result as a page shows it.
type Value struct {
	Name  string // "body" or "result"
	Title string
	Form  string // "text", "json" or "hex"
	Text  string
	Forms []form // the others, too
	Bytes int
	Cut   bool // there is more
	Save  string
}

// A form is a way to show a value.
type form struct{ Name, Link string }

// The forms of values.
const (
	FormText = "text"
	FormJSON = "json"
	FormHex  = "hex"
)

// NewValue shows a value in a form, or in the best one for it.
func NewValue(name, title string, id stint.TaskID, value []byte, want string) Value {
	s := Value{
		Name: name, Title: title, Bytes: len(value),
		Save: Link("value", "id", string(id), "of", name),
	}
	value = value[:min(len(value), ValueMax)]
	fits := map[string]bool{
		FormJSON: isPlainJSON(value), FormText: isReadable(value), FormHex: true,
	}
	for _, name := range []string{FormJSON, FormText, FormHex} {
		if !fits[name] {
			continue
		}
		if s.Form == "" || want == name {
			s.Form = name
		}
		s.Forms = append(s.Forms, form{name, Link("task", "id", string(id), s.Name, name)})
	}
	switch s.Form {
	case FormJSON:
		var indented bytes.Buffer
		_ = json.Indent(&indented, value, "", "  ") // it is JSON
		s.Cut = indented.Len() > indentedMax
		s.Text = strings.ToValidUTF8(string(indented.Next(indentedMax)), "")
	case FormText:
		s.Text = string(value)
	case FormHex:
		s.Cut = len(value) > hexMax
		s.Text = hex.Dump(value[:min(len(value), hexMax)])
	}
	return s
}

// isPlainJSON reports whether a value is JSON that gets lines by indenting, but not too many.
func isPlainJSON(value []byte) bool {
	trimmed := bytes.TrimSpace(value)
	if len(trimmed) == 0 || trimmed[0] != '{' && trimmed[0] != '[' || !isReadable(value) ||
		!json.Valid(value) {
		return false
	}
	depth, quoted, escaped := 0, false, false
	for _, c := range value {
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			if depth++; depth > depthMax {
				return false
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return true
}

// isReadable reports whether a value is text in which nothing is hidden.
func isReadable(value []byte) bool {
	if !utf8.Valid(value) {
		return false
	}
	for _, r := range string(value) {
		if !unicode.IsPrint(r) && r != '\n' && r != '\t' && r != '\r' {
			return false
		}
	}
	return true
}
