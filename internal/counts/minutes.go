package counts

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

const (
	// endedMax is how many spans of completed tasks are counted of a minute, and how many of
	// aborted ones; of endedLooked of each the action is looked up, about. notedMax is how many
	// actions have rows of their own, and askedMost of how many the fetches are read.
	endedMax    = 20_000
	endedLooked = 2000
	notedMax    = 100
	askedMost   = 10_000

	// MinutesEvery is how often to look whether a minute is yet to be noted.
	MinutesEvery = 20 * time.Second
)

// NoteMinute notes for this minute how many tasks wait, and what has happened since the last one,
// unless somebody has. In a transaction of the caller it notes nothing. The tasks of the action
// apart wait for no worker: they are left out of what is noted of all actions together.
func (c *Counter) NoteMinute(ctx context.Context, db *pg.DB, apart string) error {
	if db.InTx() { // the row would keep others waiting until that ends
		return nil
	}
	isDue := false
	err := db.Run(ctx, pg.Step{Name: "minute_due", Read: func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&isDue}, func() error { return nil })
		return err
	}})
	if err != nil || !isDue {
		return err
	}
	tally, err := c.Count(ctx, db)
	if err != nil {
		return err
	}
	ready := map[string]int64{"": 0}
	oldest := map[string]*time.Duration{}
	for by, tasks := range tally.Tasks {
		if by.State != Ready {
			continue
		}
		of := []string{by.Action, ""}
		if by.Action == apart {
			of = of[:1]
		}
		age := tally.Oldest[by.Action]
		for _, action := range of {
			ready[action] += tasks
			if oldest[action] == nil || age > *oldest[action] {
				oldest[action] = &age
			}
		}
	}
	actions := slices.Sorted(maps.Keys(ready))
	counts, ages := make([]int64, len(actions)), make([]*time.Duration, len(actions))
	for i, action := range actions {
		counts[i], ages[i] = ready[action], oldest[action]
	}
	return db.Run(ctx, pg.Step{Name: "note_minute", Args: []any{
		actions, counts, ages, endedMax, endedLooked, notedMax, askedMost,
	}})
}

// A Minute is what was noted of an action.
type Minute struct {
	Since, Until      time.Time
	Tries, Retries    *int64 // nil: not known
	Completed, Failed int64
	Ready             int64
	Oldest            *time.Duration // nil: none is ready
	Median, P95       *time.Duration // nil: none has completed
	// From ready to fetch, and from there to the end; nil: of none is that known.
	WaitMedian, WaitP95, RunMedian, RunP95 *time.Duration
	Estimated                              bool
}

// Minutes returns what was noted of an action in the last day, or of all together if it is empty.
func Minutes(ctx context.Context, db *pg.DB, action string) (all []Minute, err error) {
	err = db.Run(ctx, pg.Step{
		Name: "list_minutes", Args: []any{action},
		Read: func(rows pgx.Rows) (err error) {
			all, err = pgx.AppendRows([]Minute(nil), rows, pgx.RowToStructByPos[Minute])
			return err
		},
	})
	return all, err
}
