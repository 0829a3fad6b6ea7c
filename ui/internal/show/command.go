package show

import (
	"slices"
	"strings"

	"github.com/stint-tasks/stint/internal/display"
)

// Arguments are texts as the last arguments of a command, unless one holds what is not seen.
func Arguments(texts ...string) (line string, ok bool) {
	words := make([]string, len(texts))
	isFlag := false
	for i, text := range texts {
		if display.Text(text) != text {
			return "", false
		}
		words[i] = display.Word(text)
		isFlag = isFlag || strings.HasPrefix(text, "-")
	}
	if isFlag {
		words = slices.Insert(words, 0, "--")
	}
	return strings.Join(words, " "), true
}

// WithFlags is a command line with flags, such as those that say which store is meant, if its last
// command is one of stint. The demo has a store of its own.
func WithFlags(line, flags string) string {
	begin := 0
	words := wordsOf(line)
	for i, word := range words {
		if word.text == "|" {
			begin = i + 1
		}
	}
	words = words[begin:]
	if flags == "" || len(words) < 2 || words[0].text != "stint" || words[1].text == "demo" {
		return line
	}
	for _, word := range words {
		if word.text == "--" { // behind it they would be arguments
			return line[:word.at] + flags + " " + line[word.at:]
		}
	}
	return line + " " + flags
}

// A lineWord is a word of a command line, as it stands there, and where it begins.
type lineWord struct {
	text string
	at   int
}

// wordsOf splits a command line as a POSIX shell does, if quotes are single ones.
func wordsOf(line string) (words []lineWord) {
	begin, quoted, escaped := -1, false, false
	for i := range len(line) {
		c := line[i]
		if c == ' ' && !quoted && !escaped {
			if begin >= 0 {
				words = append(words, lineWord{line[begin:i], begin})
			}
			begin = -1
			continue
		}
		if begin < 0 {
			begin = i
		}
		if c == '\'' && !escaped {
			quoted = !quoted
		}
		escaped = c == '\\' && !quoted && !escaped
	}
	if begin >= 0 {
		words = append(words, lineWord{line[begin:], begin})
	}
	return words
}
