package programs

import (
	"strings"
	"unicode/utf8"
)

// A tail keeps the last bytes of what is written to it.
type tail struct {
	max  int
	kept []byte
	// cut says that earlier bytes were dropped.
	cut bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if spare := 2 * t.max; len(t.kept) > spare {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.max:]...)
		t.cut = true
	}
	return len(p), nil
}

// text returns the bytes that were kept as text of at most bytesMax bytes, cut at the front.
func (t *tail) text(bytesMax int) string {
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

// An endError is the error of a program that failed. Its text says how the program ended, and then
// has its log, within the limit of a status.
type endError struct {
	how error
	log *tail
}

func (e *endError) Error() string {
	how := e.how.Error()
	if log := e.log.text(statusBytesMax - len(how) - 1); log != "" {
		return how + "\n" + log
	}
	return how
}

func (e *endError) Unwrap() error { return e.how }
