package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/stint-tasks/stint/internal/display"
)

func (p *program) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(p.stdout, format, args...)
	return err
}

// printJSON prints documents, each on a line of its own.
func (p *program) printJSON(documents ...any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	for _, document := range documents {
		if err := encoder.Encode(document); err != nil {
			return err
		}
	}
	_, err := p.stdout.Write(text.Bytes())
	return err
}

// printLines prints a JSON document for each element of a list, on a line of its own.
func printLines[T, D any](p *program, list []T, document func(*T) D) error {
	documents := make([]any, len(list))
	for i := range list {
		documents[i] = document(&list[i])
	}
	return p.printJSON(documents...)
}

// orEmpty makes a list that JSON shows as [] instead of null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// firstOf describes the first elements of a list, most of them at most. If there are others, the
// last text is more, with their number in the place of its verb.
func firstOf[T any](list []T, most int, more string, describe func(T) string) []string {
	var texts []string
	for _, element := range list[:min(most, len(list))] {
		texts = append(texts, describe(element))
	}
	if left := len(list) - most; left > 0 {
		texts = append(texts, fmt.Sprintf(more, display.Number(int64(left))))
	}
	return texts
}

// namedMax is how many of several tasks a text names at most.
const namedMax = 10

// printTable prints rows of cells in columns.
func (p *program) printTable(rows [][]string) error {
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if err := p.printf("%s\n", strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// printNone says that a list is empty, as far as the caller may see it.
func (p *program) printNone(ctx context.Context, db *database, text string) {
	if db.client != nil {
		if all, err := db.client.ReadsAll(ctx); err == nil && !all {
			text += " that you may see"
		}
	}
	fmt.Fprintln(p.stderr, text)
}
