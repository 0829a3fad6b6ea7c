package ask

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/verbs"
)

// A Pause is of an action, of a key of it, or of a schedule.
type Pause struct {
	Action, Key, Schedule string
	Since                 time.Time
	By, Reason            string // of the note in the audit log; empty if there is none
	Ready                 int64  // how many tasks of the action are ready, if it is paused itself
}

// pauseNotes are who has paused what and why, as far as anybody has asked. A note never changes.
type pauseNotes struct {
	mutex sync.Mutex
	known map[Pause]stint.Change // zero: nobody has noted it
}

const (
	// pauseNotesMax is how many notes of pauses are kept.
	pauseNotesMax = 1000
	// notedWithin is how far the time of a pause and that of its note differ at most: they are of
	// one transaction.
	notedWithin = 5 * time.Second
	// notesMax is how many changes of an action are looked at for the note of its pause.
	notesMax = 1000
)

// Pauses are the actions, keys and schedules that are paused, as far as the store tells, those
// first that have been paused for longest.
func (a *Store) Pauses(ctx context.Context, stats stint.Stats) []Pause {
	var all []Pause
	if a.Limits != nil {
		limits, _ := a.Limits.Get(ctx) // their page says why there are none
		ready := map[string]int64{}
		for i := range stats.Actions {
			ready[stats.Actions[i].Action] = stats.Actions[i].Ready
		}
		for i := range limits {
			l := &limits[i]
			if !l.PausedSince.IsZero() {
				all = append(all, Pause{
					Action: l.Action, Since: l.PausedSince, Ready: ready[l.Action],
				})
			}
			for _, key := range slices.Sorted(maps.Keys(l.PausedKeys)) {
				all = append(all, Pause{
					Action: l.Action, Key: key, Since: l.PausedKeys[key],
				})
			}
		}
	}
	if a.Schedules != nil {
		schedules, _ := a.Schedules.Get(ctx)
		for i := range schedules {
			if since := schedules[i].PausedSince; !since.IsZero() {
				all = append(all, Pause{Schedule: schedules[i].Name, Since: since})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Pause) int { return a.Since.Compare(b.Since) })
	return all
}

// NotePause adds to a pause who has paused it and why, if somebody has noted that.
func (a *Store) NotePause(ctx context.Context, p *Pause) {
	if _, ok := a.Reader.(verbs.Auditor); !ok || a.ShardCounts != nil {
		return
	}
	of := *p
	of.Ready = 0
	a.pauses.mutex.Lock()
	note, known := a.pauses.known[of]
	a.pauses.mutex.Unlock()
	if !known {
		filter := stint.ChangeFilter{Limit: notesMax}
		if p.Schedule == "" {
			filter.Actions = []string{p.Action}
		}
		page, err := a.Changes(ctx, filter)
		if err != nil { // it is asked again
			return
		}
		note = noteOf(page.Changes, p)
		if note.Verb == "" && a.Clock.Now(ctx).Sub(p.Since) < time.Minute {
			return // the list may be older than the note
		}
		a.pauses.mutex.Lock()
		if a.pauses.known == nil || len(a.pauses.known) >= pauseNotesMax {
			a.pauses.known = map[Pause]stint.Change{}
		}
		a.pauses.known[of] = note
		a.pauses.mutex.Unlock()
	}
	p.By, p.Reason = note.By, note.Reason
}

// noteOf is the change by which something was paused; zero if there is none among these.
func noteOf(changes []stint.Change, p *Pause) stint.Change {
	verb, name := "Pause", ""
	switch {
	case p.Schedule != "":
		verb, name = "PauseSchedules", p.Schedule
	case p.Key != "":
		verb, name = "PauseKeys", p.Key
	}
	var nearest stint.Change
	away := notedWithin
	for i := range changes {
		c := &changes[i]
		isNamed := name == "" || c.Items > len(c.Names) || slices.Contains(c.Names, name)
		by := c.At.Sub(p.Since).Abs()
		if c.Verb == verb && c.Action == p.Action && isNamed && by < away {
			nearest, away = *c, by
		}
	}
	return nearest
}
