package stint

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-tasks/stint/internal/counts"
	"github.com/stint-tasks/stint/internal/pg"
)

// A Minute is what has happened within about a minute, and what waited at its end.
type Minute struct {
	// Since and Until say from when until when it was, on the database's clock. It is longer than a
	// minute if no store maintained.
	Since, Until time.Time

	// Tries is how many tasks were fetched, Retries how many of these were not first tries; -1 if
	// that is not known: in the first minute that was noted, and in the first one of an action that
	// had no room before.
	Tries, Retries int64
	// Completed is how many tasks have completed, Failed how many were aborted by their owners,
	// because their tries were exhausted, because their Deadline passed, or because they lost
	// several owners. Those that do not stay ([KeepNone]) are not counted.
	Completed, Failed int64
	// Median is how long the tasks that have completed took from their insertion to their end, so
	// that half of them took longer; P95, so that a twentieth did; 0 if none has.
	Median, P95 time.Duration
	// Estimated says that many tasks have ended, so that Completed, Failed, Median and P95 are
	// estimates.
	Estimated bool

	// Ready is how many tasks were ready at the end, and OldestReady how long ago the oldest of
	// them was inserted, as [ActionStats] says. Of all actions together, external tasks do not
	// count.
	Ready       int64
	OldestReady time.Duration
}

// Minutes returns what has happened in each minute of the last day with the tasks of an action, or
// of all actions together if it is empty, the oldest minute first; an action without notes has
// none. The stores that maintain note it, one for all, unless [Options.WithoutMinutes] says
// otherwise: each minute of all actions together, and of up to 100 actions, which are those of
// which most tasks are ready or have ended. Up to 20,000 rows of completed tasks, and as many of
// aborted ones, are counted in a minute, and of about 2,000 the action and the times are looked up;
// what is beyond that is estimated. Fetches are counted as [ActionStats] says. How long a task
// waited for its fetch, and how long it was performed, is not noted: what is kept of a finished
// task does not tell. An action that no task can have is refused with an [*ArgumentError].
func (s *Store) Minutes(ctx context.Context, action string) ([]Minute, error) {
	if action != "" {
		if err := checkText("action", action, actionBytesMax); err != nil {
			return nil, fmt.Errorf("minutes: %w", err)
		}
	}
	noted, err := counts.Minutes(ctx, s.db, action)
	if err != nil {
		return nil, fmt.Errorf("minutes: %w", err)
	}
	orUnknown := func(n *int64) int64 {
		if n == nil {
			return -1
		}
		return *n
	}
	var minutes []Minute
	for i := range noted {
		n := &noted[i]
		minutes = append(minutes, Minute{
			Since: n.Since, Until: n.Until, Tries: orUnknown(n.Tries),
			Retries: orUnknown(n.Retries), Completed: n.Completed, Failed: n.Failed,
			Median: pg.OrZero(n.Median), P95: pg.OrZero(n.P95), Estimated: n.Estimated,
			Ready: n.Ready, OldestReady: pg.OrZero(n.Oldest),
		})
	}
	return minutes, nil
}

// noteMinute notes what has happened in this minute.
func (s *Store) noteMinute(ctx context.Context) error {
	return s.counter.NoteMinute(ctx, s.db, External)
}
