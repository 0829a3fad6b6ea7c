package ui

import (
	"net/http"
	"time"

	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/views"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
)

type checkData struct {
	Running  time.Time // since when
	Last     *checkedData
	Tasks    int64 // how many it has to read, about; 0 if nobody knows
	Longest  string
	Findings []Finding
	More     int // findings
	Now      time.Time
}

// checkedData is what the last check found, in words.
type checkedData struct {
	At       time.Time
	Took     string
	Bad      bool
	Sentence string
	Failure  string // why it ended early
}

// findingsMax is how many findings are listed.
const findingsMax = 500

// checkPage shows what the last check has found, and offers another one.
func checkPage(h *Handler, r *request) (view, error) {
	data := checkData{Now: r.now, Longest: "ten minutes"}
	running, last := h.asked.Checks.Known()
	data.Running = running
	if last != nil {
		data.Last = inWords(last)
		data.Findings = last.Findings[:min(len(last.Findings), findingsMax)]
		data.More = len(last.Findings) - len(data.Findings)
	}
	if stats, err := h.asked.Counts.Get(r.Context()); err == nil {
		for _, state := range show.Tallies(stats) {
			data.Tasks += state.Tasks
		}
	}
	return view{name: "check", data: data}, nil
}

// inWords says what was found.
func inWords(c *ask.Checked) *checkedData {
	data := &checkedData{At: c.At, Took: show.Span(c.Took)}
	counts := map[string]int64{}
	for i := range c.Findings {
		counts[c.Findings[i].Severity]++
	}
	data.Bad = counts[views.Error]+counts[views.Warning] > 0 || c.Err != nil
	switch {
	case counts[views.Error]+counts[views.Warning] > 0:
		data.Sentence = "It found " + display.Count(counts[views.Error], "error") + " and " +
			display.Count(counts[views.Warning], "warning") + "."
	case c.Err != nil:
		data.Sentence = "It found nothing in what it has seen."
	default:
		data.Sentence = "Nothing is wrong."
	}
	if c.Err != nil {
		data.Failure = "It did not get to the end. " + refuse.Of(c.Err).Sentence
	}
	return data
}

// serveBeginCheck begins a check for whoever has sent the form, and leads to the page that tells of
// it.
func serveBeginCheck(h *Handler, w http.ResponseWriter, r *request) error {
	r.Body = http.MaxBytesReader(w, r.Body, formBytesMax)
	if err := r.ParseForm(); err != nil {
		return refuse.ErrBadForm
	}
	if err := (formFields{}).check(r.PostForm); err != nil {
		return err
	}
	h.asked.Checks.Begin(r.Context(), &h.asked.Clock, h.options.Logger)
	w.Header().Set("Location", "./check")
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// checkNotice is what the overview says of checks; nil if there is nothing to say.
func (h *Handler) checkNotice(r *request) *checkSaid {
	if h.asked.Checks.Ask == nil || !r.may(Check) {
		return nil
	}
	running, last := h.asked.Checks.Known()
	switch {
	case !running.IsZero():
		return &checkSaid{Sentence: show.Say("A check of the tables is under way.")}
	case last == nil:
		return &checkSaid{Sentence: show.Say("Nobody has checked the tables for faults yet.")}
	}
	words := inWords(last)
	return &checkSaid{
		Bad: words.Bad,
		Sentence: show.Say(
			"Checked ", show.NewMoment(last.At, r.now), ": "+lowerFirst(words.Sentence)),
	}
}

// A checkSaid is a line about checks.
type checkSaid struct {
	Bad      bool
	Sentence show.Sentence
}

// lowerFirst is a sentence within another one.
func lowerFirst(text string) string { return string(text[0]|0x20) + text[1:] }
