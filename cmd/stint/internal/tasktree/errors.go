package tasktree

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// An Error is something wrong with a file.
type Error struct {
	// Line and Column, from 1, say where; 0 is unknown. Text behind a character beyond 16 bits that
	// is written as two escapes is at a greater column than Column says.
	Line, Column int
	// Problem says what.
	Problem string
}

func (e *Error) Error() string {
	switch {
	case e.Line == 0:
		return e.Problem
	case e.Column == 0:
		return fmt.Sprintf("line %d: %s", e.Line, e.Problem)
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Problem)
}

// syntaxError makes an Error of an error of the YAML reader.
func syntaxError(file []byte, err error) error {
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		return &Error{Problem: err.Error()}
	}
	if load.Mark.Line == 0 && load.Mark.Index < len(file) { // it is about a byte
		before := file[:load.Mark.Index]
		line := before[bytes.LastIndexByte(before, '\n')+1:]
		load.Mark.Line = bytes.Count(before, []byte("\n")) + 1
		load.Mark.Column = utf8.RuneCount(line) + 1
	}
	return &Error{Line: load.Mark.Line, Column: load.Mark.Column, Problem: load.Message}
}
