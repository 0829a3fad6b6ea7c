package show

import (
	"strconv"
	"time"

	"github.com/stint-tasks/stint/internal/display"
)

// A Moment is a time as the pages show it: how far it is from now, and exactly.
type Moment struct {
	Exact string // as browsers read it; empty if there is no such time
	Title string
	Text  string
	Form  string // how the script goes on with it: "ago", "span", or "clock"
}

// NewMoment says how long ago a time was, or in how long it will be.
func NewMoment(t, now time.Time) Moment {
	if t.IsZero() {
		return Moment{}
	}
	return Moment{Exact(t), stamp(t), display.Relative(t, now), "ago"}
}

// NewAge says only how far a time is from now.
func NewAge(t, now time.Time) Moment {
	if t.IsZero() {
		return Moment{}
	}
	return Moment{Exact(t), stamp(t), display.Span(now.Sub(t)), "span"}
}

// NewClock says at what time of a day something was.
func NewClock(t time.Time) Moment {
	return Moment{Exact(t), stamp(t), t.UTC().Format("15:04 UTC"), "clock"}
}

// Exact is a time as browsers read it.
func Exact(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// Span is a length of time that is over.
func Span(d time.Duration) string {
	const short = 10 * time.Second
	switch {
	case d < 0:
		return "0 ms" // clocks of a server were set
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < short:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	return display.Span(d)
}

// Old is how long something has been waiting.
func Old(d time.Duration) string {
	if d < time.Second {
		return "<1s"
	}
	return display.Span(d)
}
