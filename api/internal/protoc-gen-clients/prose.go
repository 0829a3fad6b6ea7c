package main

import (
	"regexp"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
)

// prose is a comment as text, in which each paragraph is a line.
func prose(comments protogen.CommentSet) string {
	var paragraphs []string
	for paragraph := range strings.SplitSeq(string(comments.Leading+comments.Trailing), "\n\n") {
		if text := strings.Join(strings.Fields(paragraph), " "); text != "" {
			paragraphs = append(paragraphs, text)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

var missing = regexp.MustCompile(`\b[Mm]issing (if|unless|where|in)\b`)

// withNothing says what a field has that is missing.
func withNothing(text, nothing string) string {
	return missing.ReplaceAllString(text, nothing+" $1")
}

const width = 100

// wrap breaks text into lines; paragraphs are apart. The lines have so much room less.
func wrap(text string, less int) []string {
	var lines []string
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i > 0 {
			lines = append(lines, "")
		}
		line := ""
		for _, word := range strings.Fields(paragraph) {
			if line != "" && len([]rune(line))+1+len([]rune(word)) > width-less {
				lines = append(lines, line)
				line = ""
			}
			line = strings.TrimLeft(line+" "+word, " ")
		}
		lines = append(lines, line)
	}
	return lines
}

// joined returns sentences as one text.
func joined(sentences ...string) string {
	return strings.TrimSpace(strings.Join(sentences, " "))
}
