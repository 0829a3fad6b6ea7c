// Package counts counts tasks by action and state, in bounded time: exactly where there are few,
// and by estimates, which it keeps for a while, where there are many.
package counts

import (
	"context"
	"embed"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

//go:embed sql/*.sql
var files embed.FS

// Statements are those of this package.
//
//nolint:gochecknoglobals // never changes
var Statements = pg.NewStatements(files)

const (
	// spansMax is how many spans of tasks are counted, in each state and of each pair of action and
	// priority. pairsMax is how many such pairs are looked at, and for how many actions the tries
	// and limits are returned. lostMax is how many tasks that were lost are counted.
	spansMax = 1000
	pairsMax = 1000
	lostMax  = 1000

	// How many pages of a larger table are looked at, which are all of those of 4 MiB; and of how
	// many rows the action is looked up, about, from how many pages of each table.
	sampledPages = 512
	sampledRows  = 2000
	lookedPages  = 64

	// estimatesFor is how long estimates are kept: to make them takes much longer than the rest.
	// Somebody may act on a number, so it is not older than those who ask once a second expect.
	estimatesFor = time.Second
)

// The states, as the statements number them.
const (
	Blocked    int16 = 0
	Scheduled  int16 = 1
	Ready      int16 = 2
	InProgress int16 = 3
	Completed  int16 = 10
	Aborted    int16 = 11
	Skipped    int16 = 18
)

// By is what tasks are counted by.
type By struct {
	State  int16
	Action string
}

// Tries counts fetches, and those among them that were not a task's first.
type Tries struct{ Tries, Retries int64 }

// Limited is what is told of the limits of an action.
type Limited struct {
	Limited, Paused bool
	Concurrency     int
}

// A Tally is what was counted.
type Tally struct {
	Tasks map[By]int64
	// Many are the states of which some tasks were not counted, but estimated.
	Many []int16
	// EstimatedAt is when, on the database's clock; zero if none was.
	EstimatedAt time.Time
	// Oldest is for how long the first in line of the ready tasks has been ready, the longest time
	// of all priorities. Parked counts the parked tasks among the ready ones.
	Oldest  map[string]time.Duration
	Parked  map[string]int64
	Tries   map[string]Tries
	Limited map[string]Limited
	// Lost counts the tasks that were aborted since their owners lost them.
	Lost map[string]int64
	// Behind is how far pruning is behind.
	Behind time.Duration
	// Copy says why the database is a copy, empty if it is none.
	Copy string
}

// Estimates are the counts of tasks that are many. They are not changed once they are kept.
type estimates struct {
	at     time.Time // by the clock of this process
	asOf   time.Time // by that of the database
	states []int16   // but for Ready; Completed stands for all of its table
	ready  []string  // actions of which many tasks are ready
	tasks  map[By]int64
	parked map[string]int64
}

// table returns the state that stands for all those of a table.
func table(state int16) int16 {
	if state == Aborted || state == Skipped {
		return Completed
	}
	return state
}

// A Counter counts, and keeps estimates. The zero value is ready to use.
type Counter struct {
	mutex sync.Mutex
	kept  estimates
}

// Count counts the tasks. In a transaction it makes all estimates anew.
func (c *Counter) Count(ctx context.Context, db *pg.DB) (Tally, error) {
	var known estimates
	if !db.InTx() {
		c.mutex.Lock()
		known = c.kept
		c.mutex.Unlock()
	}
	if time.Since(known.at) > estimatesFor {
		known = estimates{}
	}
	count, err := countAll(ctx, db, known)
	if err == nil && !known.at.IsZero() && !count.fits(known) {
		known = estimates{}
		count, err = countAll(ctx, db, known)
	}
	if err == nil && known.at.IsZero() && count.isMany() {
		known, err = sample(ctx, db, count)
		if err == nil && !db.InTx() {
			c.mutex.Lock()
			c.kept = known
			c.mutex.Unlock()
		}
	}
	if err != nil {
		return Tally{}, err
	}
	return count.tally(known), nil
}

// Action counts the ready tasks with an action, up to some rows, and reports whether there are
// more.
func Action(
	ctx context.Context, db *pg.DB, action string,
) (tasks int64, more bool, err error) {
	err = db.Run(ctx, pg.Step{
		Name: "count_action", Args: []any{action, spansMax},
		Read: func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&tasks, &more}, func() error { return nil })
			return err
		},
	})
	return tasks, more, err
}
