package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"golang.org/x/term"

	"github.com/stint-tasks/stint"
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

// A painter colours states, or leaves them as they are.
type painter bool

// painter is one that colours on terminals, unless NO_COLOR is set (https://no-color.org).
func (p *program) painter() painter {
	return painter(os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" &&
		isTerminal(p.stdout))
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// state is the name of a state in its colour. All colours are written with the same number of
// bytes, also the default one of text that is no state, so that columns stay aligned.
func (coloured painter) state(text string) string {
	if !coloured {
		return text
	}
	const none, red, green, yellow, blue, grey = 39, 31, 32, 33, 34, 90
	colour := none
	switch stint.State(text) {
	case stint.StateReady:
		colour = yellow
	case stint.StateInProgress:
		colour = blue
	case stint.StateCompleted:
		colour = green
	case stint.StateAborted:
		colour = red
	case stint.StateBlocked, stint.StateScheduled:
		colour = grey
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", colour, text)
}

// severity is the name of a severity in its colour.
func (coloured painter) severity(s severity) string {
	if !coloured {
		return string(s)
	}
	const red, yellow, grey = 31, 33, 90
	colour := map[severity]int{severityError: red, severityWarning: yellow, severityNote: grey}[s]
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", colour, s)
}

// plain is text that terminals take for nothing else, and that stays on its line.
func plain(text string) string {
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return strconv.Quote(text)
		}
	}
	return text
}

// span is a duration for people: in its largest unit, or two of them where one says little.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = d.Abs(); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 10*time.Minute:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd", d/day)
	}
}

// relative says how far a time is from now.
func relative(t, now time.Time) string {
	if t.After(now) {
		return "in " + span(t.Sub(now))
	}
	return span(now.Sub(t)) + " ago"
}

// absolute is a time and how far it is from now.
func absolute(t, now time.Time) string {
	return t.UTC().Format("2006-01-02 15:04:05Z") + ", " + relative(t, now)
}

func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
