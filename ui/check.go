package ui

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/views"
	"github.com/stint-tasks/stint/ui/internal/kept"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/verbs"
)

// A Finding is something that a check of the store has found: its Severity ("error": a fault;
// "warning": it calls for action; "note": for information), its Topic, its Text, which says what is
// wrong and what to do about it, and the ID of the task that it is about, if there is one.
type Finding = views.Finding

// checks have the store checked, when somebody asks for it, and keep what was found last.
type checks struct {
	ask func(ctx context.Context) ([]views.Finding, error) // nil if the store cannot be checked

	mutex   sync.Mutex
	running time.Time // when the check under way began; zero if none is
	last    *checked  // nil if there was none
}

// checked is what a check has found. If it ended early, err is why.
type checked struct {
	findings []views.Finding
	err      error
	at       time.Time // when it ended
	took     time.Duration
}

// checkTimeout is how long a check may take.
const checkTimeout = 10 * time.Minute

// checkOf returns how a store is checked; nil if it cannot be.
func checkOf(store verbs.Reader) func(ctx context.Context) ([]views.Finding, error) {
	switch store := store.(type) {
	case interface {
		Check(ctx context.Context) ([]views.Finding, error)
	}:
		return store.Check
	case interface {
		Check(ctx context.Context) ([]stint.Inconsistency, error)
	}:
		return func(ctx context.Context) (findings []views.Finding, err error) {
			found, err := store.Check(ctx)
			for _, one := range found {
				findings = append(findings, views.Finding{
					Severity: views.Error, Topic: "consistency", Text: one.String(), ID: one.ID,
				})
			}
			return findings, err
		}
	}
	return nil
}

// begin begins a check, unless one is under way. Whoever asks for it may go.
func (c *checks) begin(ctx context.Context, clock *kept.Clock, logger *slog.Logger) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if !c.running.IsZero() {
		return
	}
	c.running = clock.Now(ctx)
	go c.run(context.WithoutCancel(ctx), clock, logger)
}

func (c *checks) run(ctx context.Context, clock *kept.Clock, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	begun := kept.Now()
	var found checked
	defer func() {
		if cause := recover(); cause != nil { // here it would end the process
			found.err = fmt.Errorf("the check panicked: %v", cause)
		}
		if found.err != nil {
			logger.LogAttrs(ctx, slog.LevelWarn, "a check by the web interface failed",
				slog.Any("error", found.err))
		}
		found.took, found.at = kept.Now().Sub(begun), clock.Now(ctx)
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.last, c.running = &found, time.Time{}
	}()
	found.findings, found.err = c.ask(ctx)
	slices.SortStableFunc(found.findings, func(a, b views.Finding) int {
		return cmp.Compare(severityRank(a.Severity), severityRank(b.Severity))
	})
}

// known returns since when a check has been under way, and what the last one found.
func (c *checks) known() (running time.Time, last *checked) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.running, c.last
}

// severityRank says which findings come first.
func severityRank(severity string) int {
	return slices.Index([]string{views.Error, views.Warning, views.Note}, severity)
}

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

// check shows what the last check has found, and offers another one.
func check(h *Handler, r *request) (view, error) {
	data := checkData{Now: r.now, Longest: "ten minutes"}
	running, last := h.asked.checks.known()
	data.Running = running
	if last != nil {
		data.Last = inWords(last)
		data.Findings = last.findings[:min(len(last.findings), findingsMax)]
		data.More = len(last.findings) - len(data.Findings)
	}
	if stats, err := h.asked.stats.Get(r.Context()); err == nil {
		for _, state := range show.Tallies(stats) {
			data.Tasks += state.Tasks
		}
	}
	return view{name: "check", data: data}, nil
}

// inWords says what was found.
func inWords(c *checked) *checkedData {
	data := &checkedData{At: c.at, Took: show.Span(c.took)}
	counts := map[string]int64{}
	for i := range c.findings {
		counts[c.findings[i].Severity]++
	}
	data.Bad = counts[views.Error]+counts[views.Warning] > 0 || c.err != nil
	switch {
	case counts[views.Error]+counts[views.Warning] > 0:
		data.Sentence = "It found " + display.Count(counts[views.Error], "error") + " and " +
			display.Count(counts[views.Warning], "warning") + "."
	case c.err != nil:
		data.Sentence = "It found nothing in what it has seen."
	default:
		data.Sentence = "Nothing is wrong."
	}
	if c.err != nil {
		data.Failure = "It did not get to the end. " + refuse.Of(c.err).Sentence
	}
	return data
}

// beginCheck begins a check for whoever has sent the form, and leads to the page that tells of it.
func beginCheck(h *Handler, w http.ResponseWriter, r *request) error {
	r.Body = http.MaxBytesReader(w, r.Body, formBytesMax)
	if err := r.ParseForm(); err != nil {
		return refuse.ErrBadForm
	}
	if err := (formFields{}).check(r.PostForm); err != nil {
		return err
	}
	h.asked.checks.begin(r.Context(), &h.asked.clock, h.options.Logger)
	w.Header().Set("Location", "./check")
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// checkNotice is what the overview says of checks; nil if there is nothing to say.
func (h *Handler) checkNotice(r *request) *checkSaid {
	if h.asked.checks.ask == nil || !r.may(Check) {
		return nil
	}
	running, last := h.asked.checks.known()
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
			"Checked ", show.NewMoment(last.at, r.now), ": "+lowerFirst(words.Sentence)),
	}
}

// A checkSaid is a line about checks.
type checkSaid struct {
	Bad      bool
	Sentence show.Sentence
}

// lowerFirst is a sentence within another one.
func lowerFirst(text string) string { return string(text[0]|0x20) + text[1:] }
