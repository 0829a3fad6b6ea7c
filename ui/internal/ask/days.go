package ask

import (
	"context"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/charts"
	"github.com/stint-tasks/stint/verbs"
)

const (
	// daysMax is how many days are kept for those who ask for the same.
	daysMax = 16
	// changesLooked is how many changes are looked through for marks.
	changesLooked = 1000
)

// markVerbs are the changes that explain a curve.
var markVerbs = []string{ //nolint:gochecknoglobals // never changes
	"Pause", "Resume", "PauseKeys", "ResumeKeys", "SetLimits", "SetWeights",
}

// Day returns the last day of an action by the minute, or of all together if it is empty; nil where
// the store does not tell: the rest of the page is worth showing.
func (a *Store) Day(ctx context.Context, action string, now time.Time) *charts.Day {
	by, ok := a.Reader.(verbs.Recorder)
	if !ok {
		return nil
	}
	minutes, err := a.days.Get(ctx, action, func(ctx context.Context) ([]stint.Minute, error) {
		return by.Minutes(ctx, action)
	})
	if err != nil || len(minutes) == 0 {
		return nil
	}
	day := charts.NewDay(minutes, a.marks(ctx, action), now)
	return &day
}

// marks are what was changed of an action, or of any, as far as the last changes tell.
func (a *Store) marks(ctx context.Context, action string) (marks []charts.Mark) {
	if _, ok := a.Reader.(verbs.Auditor); !ok {
		return nil
	}
	filter := stint.ChangeFilter{Limit: changesLooked}
	if action != "" {
		filter.Actions = []string{action}
	}
	page, err := a.Changes(ctx, filter)
	if err != nil { // the page of changes says why
		return nil
	}
	for i := range page.Changes {
		c := &page.Changes[i]
		if !slices.Contains(markVerbs, c.Verb) {
			continue
		}
		text := display.Change(c)
		if c.By != "" {
			text += ", by " + display.Text(c.By)
		}
		marks = append(marks, charts.Mark{At: c.At, Text: text})
	}
	slices.Reverse(marks)
	return marks
}
