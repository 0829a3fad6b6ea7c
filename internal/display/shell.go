package display

import (
	"regexp"
	"strings"
)

// IsPlainWord reports whether a word needs no quotes in any shell, and is no flag.
func IsPlainWord(word string) bool {
	return regexp.MustCompile(`^[\pL\pN_./:@+,%][\pL\pN_./:@+,%=-]*$`).MatchString(word)
}

// Quote is text as a word of a POSIX shell, in quotes.
func Quote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Word is text as a word of a POSIX shell, in quotes where it needs them.
func Word(text string) string {
	if IsPlainWord(text) {
		return text
	}
	return Quote(text)
}
