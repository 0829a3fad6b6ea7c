package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/stint-tasks/stint/internal/readable"
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

// A painter colours states and severities, or leaves them as they are.
type painter struct{ readable.Painter }

// painter is one that colours on terminals, unless NO_COLOR is set (https://no-color.org).
func (p *program) painter() painter {
	return painter{readable.Painter(os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" &&
		isTerminal(p.stdout))}
}

// prompt says what is to be typed, where it would seem that the command hangs.
func (p *program) prompt(what string) {
	if isTerminal(p.stdin) {
		fmt.Fprintf(p.stderr, "type %s, and Ctrl-D at the end\n", what)
	}
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func (paint painter) state(text string) string { return paint.State(text) }

// severity is the name of a severity in its colour.
func (paint painter) severity(s severity) string {
	if !paint.Painter {
		return string(s)
	}
	const red, yellow, grey = 31, 33, 90
	colour := map[severity]int{severityError: red, severityWarning: yellow, severityNote: grey}[s]
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", colour, s)
}

func plain(text string) string { return readable.Text(text) }

func span(d time.Duration) string { return readable.Span(d) }

func relative(t, now time.Time) string { return readable.Relative(t, now) }

func count(n int64, noun string) string { return readable.Count(n, noun) }
