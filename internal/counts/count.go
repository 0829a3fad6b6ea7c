package counts

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

// A count is what the statements have counted.
type count struct {
	Tally

	spans map[int16]int64 // by the states that stand for tables, but for Ready
	// ready are the actions of which not all ready tasks were counted; all says of the others.
	ready []string
	pairs int
	last  string // the action of the last pair
}

// countAll counts what there are no estimates of.
func countAll(ctx context.Context, db *pg.DB, known estimates) (*count, error) {
	c := &count{}
	notNil := func(actions []string) []string { return append([]string{}, actions...) }
	err := db.Run(ctx,
		pg.Step{
			Name: "count_ready", Args: []any{spansMax, pairsMax, notNil(known.ready)},
			Read: c.readReady,
		},
		pg.Step{
			Name: "count_tasks", Args: []any{spansMax, append([]int16{}, known.states...)},
			Read: c.readOthers,
		},
		pg.Step{Name: "count_tries", Args: []any{pairsMax}, Read: c.readTries},
		pg.Step{Name: "limited_actions", Args: []any{pairsMax}, Read: c.readLimited},
		pg.Step{Name: "count_lost", Args: []any{lostMax}, Read: c.readLost},
		pg.Step{Name: "pruning_behind", Read: c.readBehind},
		pg.ReadOrigin(func(origin pg.Origin) { c.Copy = db.CopyOf(origin) }))
	return c, err
}

// readReady begins the count: its answer comes first, also when the question is repeated since an
// answer was cut off.
func (c *count) readReady(rows pgx.Rows) error {
	*c = count{
		Tally: Tally{
			Tasks: map[By]int64{}, Oldest: map[string]time.Duration{}, Parked: map[string]int64{},
			Tries: map[string]Tries{}, Limited: map[string]Limited{}, Lost: map[string]int64{},
		},
		spans: map[int16]int64{},
	}
	var tasks int64
	var more, parked bool
	var age time.Duration
	_, err := pgx.ForEachRow(rows, []any{&c.last, &tasks, &more, &age, &parked}, func() error {
		c.pairs++
		if parked {
			c.Parked[c.last] += tasks
		}
		c.Tasks[By{Ready, c.last}] += tasks
		c.Oldest[c.last] = max(c.Oldest[c.last], age)
		if more && !slices.Contains(c.ready, c.last) {
			c.ready = append(c.ready, c.last)
		}
		return nil
	})
	if c.pairs == pairsMax && !slices.Contains(c.ready, c.last) { // there may be more of it
		c.ready = append(c.ready, c.last)
	}
	return err
}

func (c *count) readOthers(rows pgx.Rows) error {
	var state int16
	var action *string
	var tasks, spans int64
	_, err := pgx.ForEachRow(rows, []any{&state, &action, &tasks, &spans}, func() error {
		c.spans[table(state)] += spans
		if action != nil { // it was not replaced, and its action was asked for
			c.Tasks[By{state, *action}] = tasks
		}
		return nil
	})
	return err
}

func (c *count) readTries(rows pgx.Rows) error {
	var action string
	var n Tries
	_, err := pgx.ForEachRow(rows, []any{&action, &n.Tries, &n.Retries}, func() error {
		c.Tries[action] = n
		return nil
	})
	return err
}

func (c *count) readLimited(rows pgx.Rows) error {
	var action string
	var is Limited
	var concurrency *int
	into := []any{&action, &is.Limited, &concurrency, &is.Paused}
	_, err := pgx.ForEachRow(rows, into, func() error {
		is.Concurrency = pg.OrZero(concurrency)
		c.Limited[action] = is
		return nil
	})
	return err
}

func (c *count) readLost(rows pgx.Rows) error {
	var action string
	var tasks int64
	_, err := pgx.ForEachRow(rows, []any{&action, &tasks}, func() error {
		c.Lost[action] = tasks
		return nil
	})
	return err
}

func (c *count) readBehind(rows pgx.Rows) error {
	_, err := pgx.ForEachRow(rows, []any{&c.Behind}, func() error { return nil })
	return err
}

// states are those that stand for the tables of which not all spans were counted.
func (c *count) states() (many []int16) {
	for _, state := range []int16{Blocked, Scheduled, InProgress, Completed} {
		if c.spans[state] > spansMax {
			many = append(many, state)
		}
	}
	return many
}

func (c *count) isMany() bool { return len(c.ready) > 0 || len(c.states()) > 0 }

// fits reports whether there are many tasks where there are estimates, as far as the count says,
// and only there.
func (c *count) fits(known estimates) bool {
	return slices.Equal(c.states(), known.states) && !slices.ContainsFunc(c.ready,
		func(action string) bool { return !slices.Contains(known.ready, action) })
}

// lacks reports whether tasks were not counted, or not all of them.
func (c *count) lacks(by By) bool {
	if by.State != Ready {
		return c.spans[table(by.State)] > spansMax
	}
	_, met := c.Tasks[by]
	return slices.Contains(c.ready, by.Action) || c.pairs == pairsMax && !met
}

// sample estimates what was not counted. No estimate is less than what was counted.
func sample(ctx context.Context, db *pg.DB, c *count) (estimates, error) {
	made := estimates{
		at:     time.Now(), //nolint:forbidigo // how long this process keeps them
		states: c.states(), ready: c.ready,
		tasks: map[By]int64{}, parked: map[string]int64{},
	}
	for by, tasks := range c.Tasks {
		if c.lacks(by) {
			made.tasks[by] = tasks
		}
	}
	for _, action := range c.ready {
		made.parked[action] = c.Parked[action]
	}
	states := slices.Clone(made.states)
	if len(made.ready) > 0 {
		states = append(states, Ready)
	}
	err := db.Run(ctx, pg.Step{
		Name: "sample_tasks", Args: []any{sampledPages, states, sampledRows, lookedPages},
		Read: func(rows pgx.Rows) error {
			var by By
			var tasks, parked int64
			into := []any{&by.State, &by.Action, &tasks, &parked, &made.asOf}
			_, err := pgx.ForEachRow(rows, into, func() error {
				if !c.lacks(by) {
					return nil
				}
				made.tasks[by] = max(made.tasks[by], tasks)
				if by.State == Ready {
					made.parked[by.Action] = max(made.parked[by.Action], parked)
				}
				return nil
			})
			return err
		},
	})
	return made, err
}

// tally returns what was counted, and estimated.
func (c *count) tally(known estimates) Tally {
	maps.Copy(c.Tasks, known.tasks)
	maps.Copy(c.Parked, known.parked)
	c.EstimatedAt = known.asOf
	if len(known.ready) > 0 {
		c.Many = append(c.Many, Ready)
	}
	for _, state := range known.states {
		c.Many = append(c.Many, state)
		if state == Completed {
			c.Many = append(c.Many, Aborted, Skipped)
		}
	}
	return c.Tally
}
