// Package display writes times, states and texts of tasks as the command shows them to people, so
// that no text does anything to a terminal.
package display

import (
	"fmt"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stint-tasks/stint"
)

// A Painter colours states, or leaves them as they are.
type Painter bool

// State is the name of a state in its colour. All colours are written with the same number of
// bytes, also the default one of text that is no state, so that columns stay aligned.
func (coloured Painter) State(text string) string {
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
	case stint.StateBlocked, stint.StateScheduled, stint.StateSkipped:
		colour = grey
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", colour, text)
}

// Text returns text in a form in which nothing is hidden, that a terminal takes for nothing but
// text, and that stays on its line.
func Text(text string) string {
	if !utf8.ValidString(text) {
		return strconv.Quote(text)
	}
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return strconv.Quote(text)
		}
	}
	return text
}

// Span is a duration for people: in its largest unit, or two of them where one says little.
func Span(d time.Duration) string {
	const day, year = 24 * time.Hour, 365 * 24 * time.Hour
	switch d = d.Abs(); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 10*time.Minute:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d < 2*year:
		return fmt.Sprintf("%dd", d/day)
	case d < 100*year:
		return fmt.Sprintf("%dy", d/year)
	default: // a Duration has 292 years at most, and times may be farther away
		return ">100y"
	}
}

// Relative says how far a time is from now.
func Relative(t, now time.Time) string {
	if t.After(now) {
		return "in " + Span(t.Sub(now))
	}
	return Span(now.Sub(t)) + " ago"
}

// Absolute is a time and how far it is from now.
func Absolute(t, now time.Time) string {
	return t.UTC().Format("2006-01-02 15:04:05Z") + ", " + Relative(t, now)
}

// Number is a number with commas between the thousands.
func Number(n int64) string {
	const group = 3
	digits := strconv.FormatInt(n, 10)
	first := 0
	if n < 0 {
		first = 1
	}
	for at := len(digits) - group; at > first; at -= group {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// Count is a number of things.
func Count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Number(n) + " " + noun + "s"
}
