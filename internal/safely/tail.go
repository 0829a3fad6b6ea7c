package safely

import (
	"strings"
	"unicode/utf8"
)

// A Tail keeps the last bytes of what is written to it: at least as many as NewTail was given, at
// most twice as many.
type Tail struct {
	max  int
	kept []byte
	// cut says that earlier bytes were dropped.
	cut bool
}

// NewTail returns a tail of this many bytes.
func NewTail(bytesMax int) *Tail { return &Tail{max: bytesMax} }

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if spare := 2 * t.max; len(t.kept) > spare {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.max:]...)
		t.cut = true
	}
	return len(p), nil
}

// Text returns the bytes that were kept as text of at most bytesMax bytes, cut at the front, that
// is UTF-8 without NUL.
func (t *Tail) Text(bytesMax int) string {
	kept := t.kept
	for t.cut && len(kept) > 0 && !utf8.RuneStart(kept[0]) {
		kept = kept[1:]
	}
	text := strings.ToValidUTF8(string(kept), string(utf8.RuneError))
	text = strings.ReplaceAll(text, "\x00", string(utf8.RuneError))
	if len(text) <= bytesMax {
		return text
	}
	text = text[len(text)-bytesMax:]
	for text != "" && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text
}
