package views

import (
	"regexp"
	"strings"
)

var (
	quotes = regexp.MustCompile("\"[^\"]*\"|`[^`]*`")
	// single quotes begin before words: an apostrophe is within one.
	single = regexp.MustCompile(`(^|[^0-9A-Za-z])'[^']*'`)
	number = regexp.MustCompile(`[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|` +
		`(?:0x)?[0-9A-Fa-f]*[0-9][0-9A-Fa-f]*`)
)

// Shape is what errors that are alike have in common: the first 500 letters of the first line,
// without what is in quotes, and with all numbers alike, also hexadecimal ones. The statement
// list_errors groups by the same.
func Shape(said string) string {
	const longest = 500
	line, _, _ := strings.Cut(said, "\n")
	if runes := []rune(line); len(runes) > longest {
		line = string(runes[:longest])
	}
	line = strings.Map(func(r rune) rune {
		if r >= '1' && r <= '9' {
			return '0'
		}
		return r
	}, line)
	line = quotes.ReplaceAllString(line, `""`)
	line = single.ReplaceAllString(line, `${1}""`)
	return number.ReplaceAllString(line, "0")
}
