// Package limit changes the limits, pauses and weights of actions and their keys, and brings tasks
// back into the queue that they kept out of it. It knows actions and keys as texts.
package limit

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/changes"
	"github.com/stint-tasks/stint/internal/outage"
	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/responses"
)

//go:embed sql/*.sql
var files embed.FS

// Statements are those of this package.
//
//nolint:gochecknoglobals // never changes
var Statements = pg.NewStatements(files)

// Limits bound how tasks of an action are fetched. Zero is no bound.
type Limits struct {
	Concurrency, ConcurrencyPerKey int
	Rate, RatePerKey               Rate
	// Ordered keeps the order of the tasks of each key, one of which is fetched at a time.
	Fair, Ordered bool
	// FairGroup is the group in which keys have one turn in all actions, or empty.
	FairGroup string
	// ByCost says that rates and turns count costs of tasks.
	ByCost bool
}

// A Rate is so many tasks in a time. The zero Rate is no limit.
type Rate struct {
	Tasks int
	Per   time.Duration
	Burst int
}

// Filled returns the rate with a burst of what comes in a second, at least 1, if it has none.
func (r Rate) Filled() Rate {
	const most = 1_000_000_000
	if r != (Rate{}) && r.Burst == 0 {
		inSecond := float64(r.Tasks) * float64(time.Second) / float64(r.Per)
		r.Burst = max(1, int(min(inSecond, most)))
	}
	return r
}

// args returns the rate as parameters of a statement: tasks, per and burst, or nulls.
func (r Rate) args() [3]any {
	if r == (Rate{}) {
		return [3]any{}
	}
	return [3]any{r.Tasks, r.Per, r.Burst}
}

// An Engine changes limits, and unparks tasks.
type Engine struct {
	Config

	// Known is what the store knows of the limits of actions.
	Known    Known
	rechecks rechecks
	log      *outage.Log
}

// A Config says where an engine works, and what it cannot do itself.
type Config struct {
	// DB is outside of transactions.
	DB *pg.DB

	// Ready returns the topic of those who wait for tasks with an action.
	Ready func(action string) string

	// Requeued is called when parked tasks of an action are back in the queue.
	Requeued func(action string)

	// CheckSessions notices sessions that are gone.
	CheckSessions func(ctx context.Context) error
}

// New returns an engine.
func New(config Config) *Engine {
	return &Engine{
		Config: config, rechecks: rechecks{first: recheckFirst},
		log: outage.New(config.DB.Logger, "tasks may be parked a second too long"),
	}
}

// Set sets the limits of an action. If tasks that were fetched before may not count yet, applied
// is false. A call of the context that took effect before ([responses.With]) does not set them once
// more, since somebody may have set others meanwhile, but waits as the first attempt has, or would.
func (e *Engine) Set(ctx context.Context, action string, limits Limits) (applied bool, err error) {
	if limits.Ordered {
		limits.ConcurrencyPerKey = 1
	}
	rate, key := limits.Rate.args(), limits.RatePerKey.args()
	args := []any{
		action, pg.NonZero(limits.Concurrency), pg.NonZero(limits.ConcurrencyPerKey),
		rate[0], rate[1], rate[2], key[0], key[1], key[2], limits.Fair, limits.Ordered,
		limits.FairGroup, limits.ByCost,
	}
	var was unchanged
	note := changes.Note(ctx, "note_limits", "SetLimits", args...)
	set := append(append(asSeen(ctx, action), note...),
		pg.Step{Name: "lock_limits", Args: []any{[]string{action}}},
		pg.Step{Name: "join_group", Args: []any{action, limits.FairGroup}},
		pg.Step{
			Name: "set_limits", Args: args,
			Read: func(rows pgx.Rows) (err error) {
				was, err = pgx.CollectOneRow(rows, pgx.RowToStructByPos[unchanged])
				return err
			},
		})
	if limits == (Limits{}) {
		err = e.loosen(ctx, []string{action}, set...)
	} else {
		err = e.tighten(ctx, set...)
	}
	switch {
	case errors.Is(err, responses.ErrAnswered): // an earlier attempt may not have come to the rest
		was = unchanged{Keys: true, KeyRate: true}
	case err != nil:
		return true, err
	}
	if err := e.apply(ctx, action, limits, was); err != nil {
		return false, err
	}
	e.notify(ctx, action)
	return true, nil
}

// notify wakes those who wait for tasks with these actions.
func (e *Engine) notify(ctx context.Context, actions ...string) {
	notices := &pg.Notices{}
	for _, action := range actions {
		notices.Add(e.Ready(action))
	}
	e.DB.Notify(ctx, notices)
}

// unchanged says what set_limits has left as it was: the limits of keys, and the rate of keys.
type unchanged struct{ Keys, KeyRate bool }

// apply does what is left to do once limits are set.
func (e *Engine) apply(ctx context.Context, action string, limits Limits, was unchanged) error {
	inProgress := limits.Concurrency > 0 || limits.ConcurrencyPerKey > 0
	if inProgress || limits.Rate != (Rate{}) || limits.RatePerKey != (Rate{}) {
		if err := e.awaitLeasedWriters(ctx); err != nil {
			return err
		}
	}
	if err := e.fitKeyRates(ctx, action, was.KeyRate); err != nil {
		return err
	}
	if inProgress {
		if err := e.countOwned(ctx, "mark_leased", []string{action}); err != nil {
			return err
		}
	}
	if limits.ConcurrencyPerKey > 0 {
		err := e.countOwned(ctx, "give_slots", []string{action}, slotTasksMax)
		if err != nil {
			return err
		}
	}
	if was.Keys { // if a call before this one has not come here, maintainers unpark the tasks
		return nil
	}
	if err := e.UnparkAll(ctx, e.DB, action, nil); err != nil {
		return err
	}
	return e.DB.Run(ctx, pg.Step{Name: "forget_turns", Args: []any{action}},
		pg.Step{Name: "forget_spent", Args: []any{action}})
}

// tighten changes limits or pauses, and makes sure that no release works that does not know of
// them.
func (e *Engine) tighten(ctx context.Context, steps ...pg.Step) error {
	older, err := e.tightenOnce(ctx, steps)
	if err != nil || older == 0 {
		return err
	}
	// Nobody may have noticed yet that they are gone.
	if err := e.CheckSessions(ctx); err != nil {
		return err
	}
	if older, err = e.tightenOnce(ctx, steps); err != nil || older == 0 {
		return err
	}
	return fmt.Errorf("%w: stores of an older release, which does not know of limits and pauses, "+
		"are connected: %d; replace their processes first", pg.ErrSchemaVersion, older)
}

// tightenOnce makes a change unless stores of older releases are connected. It returns how many
// are.
func (e *Engine) tightenOnce(ctx context.Context, steps []pg.Step) (older int64, err error) {
	err = e.DB.Transact(ctx, func(db *pg.DB) error {
		err := db.Run(ctx, pg.Step{Name: "lock_limiting"}, pg.Step{
			Name: "older_sessions",
			Read: func(rows pgx.Rows) error {
				var err error
				older, err = pgx.CollectOneRow(rows, pgx.RowTo[int64])
				return err
			},
		})
		if err != nil || older > 0 {
			return err
		}
		return change(ctx, db, append([]pg.Step{{Name: "raise_supported"}}, steps...)...)
	})
	return older, err
}

// loosen removes limits or ends pauses of actions.
func (e *Engine) loosen(ctx context.Context, actions []string, steps ...pg.Step) error {
	all := append([]pg.Step{{Name: "lock_limiting"}}, steps...)
	all = append(all,
		pg.Step{Name: "forget_limits", Args: []any{actions}}, pg.Step{Name: "lower_supported"})
	return e.DB.Transact(ctx, func(db *pg.DB) error { return change(ctx, db, all...) })
}

const (
	// How long to wait between two looks for what others are about to end: first, and at most.
	lookAgainFirst = 5 * time.Millisecond
	lookAgainMost  = 100 * time.Millisecond

	// How many rows of leased one statement looks through, and for how many tasks it gives slots.
	leasedRowsMax = 1000
	slotTasksMax  = 5000

	unparkedRowsMax = 1000
)

// lookAgain calls look until it is done, with pauses.
func lookAgain(ctx context.Context, look func() (done bool, err error)) error {
	for pause := lookAgainFirst; ; pause = min(2*pause, lookAgainMost) {
		if done, err := look(); err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// awaitLeasedWriters waits for the end of the transactions that may not see the limits, and may
// fetch tasks that nobody sees yet.
func (e *Engine) awaitLeasedWriters(ctx context.Context) error {
	var writers []string // nil: all
	err := lookAgain(ctx, func() (done bool, err error) {
		open, err := e.openTransactions(ctx, "leased_writers", writers)
		if err == nil {
			writers = open
		}
		return err == nil && len(open) == 0, err
	})
	if err != nil && len(writers) > 0 {
		err = fmt.Errorf("transactions that fetch, return or change tasks are open: %d (the "+
			"oldest ones: stint check): %w", len(writers), err)
	}
	return err
}

// openTransactions returns which of these transactions are still open, or, if they are nil, which
// ones are that a statement looks for: leased_writers or capacity_writers.
func (e *Engine) openTransactions(
	ctx context.Context, statement string, of []string,
) (open []string, err error) {
	err = e.DB.Run(ctx, pg.Step{
		Name: statement, Args: []any{of},
		Read: func(rows pgx.Rows) error {
			var err error
			open, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		},
	})
	return open, err
}

// fitKeyRates fits the buckets of keys to the rate that they have now; kept: it is what it was.
func (e *Engine) fitKeyRates(ctx context.Context, action string, kept bool) error {
	return lookAgain(ctx, func() (bool, error) {
		var misfits int64
		err := e.DB.Run(ctx, pg.Step{
			Name: "fit_key_rates", Args: []any{action, kept},
			Read: func(rows pgx.Rows) error {
				var err error
				misfits, err = pgx.CollectOneRow(rows, pgx.RowTo[int64])
				return err
			},
		})
		return misfits == 0, err
	})
}

// countOwned goes through the tasks in progress with a statement that makes them count, mark_leased
// or give_slots, until none is left that does not.
func (e *Engine) countOwned(
	ctx context.Context, statement string, actions []string, more ...any,
) error {
	return lookAgain(ctx, func() (bool, error) {
		none := true
		for place := new(int64); place != nil; {
			var lacking int64
			args := append([]any{actions, *place, leasedRowsMax}, more...)
			// One at a time: two that give slots at once may give one task two of them.
			err := e.DB.Run(ctx, pg.Step{Name: "lock_limiting"}, pg.Step{
				Name: statement, Args: args,
				Read: func(rows pgx.Rows) error {
					_, err := pgx.ForEachRow(rows, []any{&place, &lacking}, nothing)
					return err
				},
			})
			if err != nil {
				return false, err
			}
			none = none && lacking == 0
		}
		return none, nil
	})
}

func nothing() error { return nil }

// UnparkAll puts the parked tasks of an action, or of some of its keys, back to where they were in
// the queue. The next fetches park those again for which there is no capacity. Other stores may
// overlook them until they scan the whole queue, which they do ten times a second.
func (e *Engine) UnparkAll(
	ctx context.Context, db *pg.DB, action string, keys []string,
) error {
	defer e.Requeued(action)
	key, rank, hi := "", int64(math.MinInt64), int64(0)
	for rows := int64(unparkedRowsMax); rows == unparkedRowsMax; {
		rows = 0
		err := db.Run(ctx, pg.Step{
			Name: "unpark_tasks", Args: []any{action, keys, key, rank, hi, unparkedRowsMax},
			Read: func(found pgx.Rows) error {
				_, err := pgx.ForEachRow(found, []any{&rows, &key, &rank, &hi}, nothing)
				return err
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}
