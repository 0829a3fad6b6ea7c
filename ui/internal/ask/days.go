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
	// registeredTogether is how soon after each other the actors of a deploy register.
	registeredTogether = time.Minute
)

// markVerbs are the changes that explain a curve.
var markVerbs = []string{ //nolint:gochecknoglobals // never changes
	"Pause", "Resume", "PauseKeys", "ResumeKeys", "SetLimits", "SetWeights",
}

// Day returns the last day of an action by the minute, or of all together if it is empty; nil where
// the store does not tell: the rest of the page is worth showing.
func (a *Store) Day(ctx context.Context, action string, now time.Time) *charts.Day {
	minutes := a.minutes(ctx, action)
	if len(minutes) == 0 {
		return nil
	}
	marks := slices.Concat(a.changeMarks(ctx, action), a.actorMarks(ctx, action))
	slices.SortFunc(marks, func(a, b charts.Mark) int { return a.At.Compare(b.At) })
	day := charts.NewDay(minutes, marks, now)
	return &day
}

// minutes are those of the last day of an action; none where the store does not tell.
func (a *Store) minutes(ctx context.Context, action string) []stint.Minute {
	by, ok := a.Reader.(verbs.Recorder)
	if !ok {
		return nil
	}
	minutes, err := a.days.Get(ctx, action, func(ctx context.Context) ([]stint.Minute, error) {
		return by.Minutes(ctx, action)
	})
	if err != nil {
		return nil
	}
	return minutes
}

// actorMarks are the times at which actors that perform an action, or any, registered, as far as
// they are still there: a deploy ends the ones before it. Those that registered soon after each
// other share a mark.
func (a *Store) actorMarks(ctx context.Context, action string) (marks []charts.Mark) {
	all, err := a.Actors.Get(ctx)
	if err != nil { // the page of actors says why
		return nil
	}
	actors := slices.DeleteFunc(slices.Clone(all), func(actor stint.ActorInfo) bool {
		return action != "" && !slices.Contains(actor.Actions, action)
	})
	slices.SortFunc(actors, func(a, b stint.ActorInfo) int { return a.Since.Compare(b.Since) })
	for len(actors) > 0 {
		n := 1
		for n < len(actors) && actors[n].Since.Sub(actors[n-1].Since) < registeredTogether {
			n++
		}
		text := display.Count(int64(n), "actor") + " registered"
		if first, last := actors[0].Since, actors[n-1].Since; last.Sub(first) >= time.Second {
			text += " within " + display.Span(last.Sub(first))
		}
		marks, actors = append(marks, charts.Mark{At: actors[0].Since, Text: text}), actors[n:]
	}
	return marks
}

// changeMarks are what was changed of an action, or of any, as far as the last changes tell.
func (a *Store) changeMarks(ctx context.Context, action string) (marks []charts.Mark) {
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
	return marks
}
