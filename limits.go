package stint

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

// Limits bound how tasks with one action are handed out, by all stores of the schema together. They
// are kept in the database, so a change takes effect everywhere with the next hand-out.
type Limits struct {
	// Concurrency is how many tasks may be in progress at once, at most 10⁹; 0: any number.
	Concurrency int
	// ConcurrencyPerKey is how many tasks of each key may be in progress at once, at most 1,000; 0:
	// any number.
	ConcurrencyPerKey int
	// Rate is how many tasks may be handed out in a time; zero: any number.
	Rate Rate
	// RatePerKey is how many tasks of each key may be handed out in a time; zero: any number.
	RatePerKey Rate
	// Fair makes keys take turns within a priority, in proportion to their weights: see
	// [Store.SetWeights].
	Fair bool
}

// A Rate is so many tasks in a time, as a bucket to which tokens come evenly and from which each
// hand-out of a task takes one. The zero Rate is no limit.
type Rate struct {
	Tasks int           // 1 to 10⁹
	Per   time.Duration // a microsecond to a year
	// Burst is how many tokens the bucket holds, and so how many tasks may be handed out at once
	// after a while without any: at most 10⁹, and what comes in 1,000 years. Default: what comes in
	// a second, at least 1.
	Burst int
}

const (
	concurrencyMax = 1_000_000_000
	perKeyMax      = 1000
	rateTasksMax   = 1_000_000_000
	ratePerMax     = 366 * 24 * time.Hour
	bucketYearsMax = 1000

	// ownActionsPrefix begins the actions that the packages of this module have for themselves.
	ownActionsPrefix = "stint."
)

// SetLimits sets the limits of an action, in the place of those that it has; the zero Limits are
// none. It takes effect for hand-outs that begin after it returned. Pauses and weights stay. The
// action need not have tasks yet. If there are more tasks in progress than a new limit allows, they
// stay with their owners, and nothing is handed out until there is room.
//
// A new rate begins with a full bucket; if there was a rate before, its tokens stay, as far as the
// new bucket holds them. The bucket of a key is full when it would have been by the rate before, or
// when the new rate has filled an empty one, whichever comes first.
//
// Releases that do not know of limits, those for version 1 of the schema, would hand out tasks
// regardless. So as long as their stores are connected, SetLimits refuses with [ErrSchemaVersion],
// and afterwards they do not start, until there are no limits and pauses any more. It cannot see
// those with PollOnly, nor those that have used the store, but have neither owned tasks nor waited
// yet. The function add_task of such a release refuses, too: install that of this release first
// (migrations/functions.sql).
//
// So that tasks that were handed out before count towards a limit of tasks in progress, or a rate,
// SetLimits waits for the transactions that hand out, return or change tasks at that
// moment, however long these take. For a limit of tasks in progress, it then looks through all of
// them. If ctx ends meanwhile, or something fails, the error says that the limits are in force, but
// that such tasks may not count yet: call again. Otherwise a call that is cut off may or may not
// have taken effect. It may be repeated after any failure, and be made concurrently: the last one
// counts.
//
// It is refused in the caller's transaction, with an [*ArgumentError], since that would hold up
// every hand-out of the action until it ends. Actions that begin with "stint." are refused, too:
// the packages of this module have them for tasks of their own, which must not wait.
func (s *Store) SetLimits(ctx context.Context, action string, limits Limits) error {
	if err := s.setLimits(ctx, action, limits); err != nil {
		return fmt.Errorf("set limits: %w", err)
	}
	return nil
}

func (s *Store) setLimits(ctx context.Context, action string, limits Limits) error {
	if err := s.checkLimiting(action); err != nil {
		return err
	}
	if err := limits.check(); err != nil {
		return err
	}
	rate, key := limits.Rate.args(), limits.RatePerKey.args()
	set := pg.Step{Name: "set_limits", Args: []any{
		action, count(limits.Concurrency), count(limits.ConcurrencyPerKey),
		rate[0], rate[1], rate[2], key[0], key[1], key[2], limits.Fair,
	}}
	var same bool
	set.Read = func(rows pgx.Rows) error {
		var err error
		same, err = pgx.CollectOneRow(rows, pgx.RowTo[bool])
		return err
	}
	var err error
	if limits == (Limits{}) {
		err = s.loosen(ctx, []string{action}, set)
	} else {
		err = s.tighten(ctx, set)
	}
	if err != nil {
		return err
	}
	if err := s.applyLimits(ctx, action, limits, same); err != nil {
		return fmt.Errorf("they are in force, but tasks that were handed out before may not count "+
			"yet: call again: %w", err)
	}
	s.db.Notify(ctx, readyNotice(action))
	return nil
}

// applyLimits does what is left to do once limits are set. same says that those of keys are what
// they were.
func (s *Store) applyLimits(
	ctx context.Context, action string, limits Limits, same bool,
) error {
	inProgress := limits.Concurrency > 0 || limits.ConcurrencyPerKey > 0
	if inProgress || limits.Rate != (Rate{}) || limits.RatePerKey != (Rate{}) {
		if err := s.awaitLeasedWriters(ctx); err != nil {
			return err
		}
	}
	if err := s.fitKeyRates(ctx, action); err != nil {
		return err
	}
	if inProgress {
		if err := s.countOwned(ctx, "mark_leased", []string{action}); err != nil {
			return err
		}
	}
	if limits.ConcurrencyPerKey > 0 {
		err := s.countOwned(ctx, "give_slots", []string{action}, slotTasksMax)
		if err != nil {
			return err
		}
	}
	if same { // if a call before this one has not come here, maintainers bring the tasks back
		return nil
	}
	if err := s.unpark(ctx, action, nil); err != nil {
		return err
	}
	return s.db.Run(ctx, pg.Step{Name: "forget_turns", Args: []any{action}})
}

// tighten changes limits or pauses, and makes sure that no release works that does not know of
// them.
func (s *Store) tighten(ctx context.Context, steps ...pg.Step) error {
	older, err := s.tightenOnce(ctx, steps)
	if err != nil || older == 0 {
		return err
	}
	// Nobody may have noticed yet that they are gone.
	if _, err := s.checkSessions(ctx, false); err != nil {
		return err
	}
	if older, err = s.tightenOnce(ctx, steps); err != nil || older == 0 {
		return err
	}
	return fmt.Errorf("%w: stores of an older release, which does not know of limits and pauses, "+
		"are connected: %d; replace their processes first", ErrSchemaVersion, older)
}

// tightenOnce makes a change unless stores of older releases are connected. It returns how many
// are.
func (s *Store) tightenOnce(ctx context.Context, steps []pg.Step) (older int64, err error) {
	err = s.transact(ctx, func(s *Store) error {
		err := s.db.Run(ctx, pg.Step{Name: "lock_limiting"}, pg.Step{
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
		return s.db.Run(ctx, append([]pg.Step{{Name: "raise_supported"}}, steps...)...)
	})
	return older, err
}

// loosen removes limits or ends pauses of actions.
func (s *Store) loosen(ctx context.Context, actions []string, steps ...pg.Step) error {
	all := append([]pg.Step{{Name: "lock_limiting"}}, steps...)
	return s.db.Run(ctx, append(all,
		pg.Step{Name: "forget_limits", Args: []any{actions}}, pg.Step{Name: "lower_supported"})...)
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
// hand out tasks that nobody sees yet.
func (s *Store) awaitLeasedWriters(ctx context.Context) error {
	var writers []string // nil: all
	err := lookAgain(ctx, func() (done bool, err error) {
		open, err := s.openTransactions(ctx, "leased_writers", writers)
		if err == nil {
			writers = open
		}
		return err == nil && len(open) == 0, err
	})
	if err != nil && len(writers) > 0 {
		err = fmt.Errorf("transactions that hand out, return or change tasks are open: %d (the "+
			"oldest ones: stint check): %w", len(writers), err)
	}
	return err
}

// openTransactions returns which of these transactions are still open, or, if they are nil, which
// ones are that a statement looks for: leased_writers or room_makers.
func (s *Store) openTransactions(
	ctx context.Context, statement string, of []string,
) (open []string, err error) {
	err = s.db.Run(ctx, pg.Step{
		Name: statement, Args: []any{of},
		Read: func(rows pgx.Rows) error {
			var err error
			open, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		},
	})
	return open, err
}

// fitKeyRates fits the buckets of keys to the rate that they have now.
func (s *Store) fitKeyRates(ctx context.Context, action string) error {
	return lookAgain(ctx, func() (bool, error) {
		var misfits int64
		err := s.db.Run(ctx, pg.Step{
			Name: "fit_key_rates", Args: []any{action},
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
func (s *Store) countOwned(
	ctx context.Context, statement string, actions []string, more ...any,
) error {
	return lookAgain(ctx, func() (bool, error) {
		none := true
		for place := new(int64); place != nil; {
			var lacking int64
			args := append([]any{actions, *place, leasedRowsMax}, more...)
			// One at a time: two that give slots at once may give one task two of them.
			err := s.db.Run(ctx, pg.Step{Name: "lock_limiting"}, pg.Step{
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

// unpark puts the parked tasks of an action, or of some of its keys, back to where they were in the
// queue. The next hand-outs park those again for which there is no room. Other stores may overlook
// them until they scan the whole queue, which they do ten times a second.
func (s *Store) unpark(ctx context.Context, action string, keys []string) error {
	defer s.queues.Forget(action)
	key, rank, hi := "", int64(math.MinInt64), int64(0)
	for rows := int64(unparkedRowsMax); rows == unparkedRowsMax; {
		rows = 0
		err := s.db.Run(ctx, pg.Step{
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

// checkLimiting refuses what no verb may set that changes limits, pauses or weights of an action.
func (s *Store) checkLimiting(actions ...string) error {
	if s.db.InTx() {
		return argumentError("store", "must not be in a transaction, whose lock would hold up "+
			"every hand-out of the action")
	}
	if len(actions) > actionsMax {
		return tooLarge("actions", len(actions), actionsMax)
	}
	for i, action := range actions {
		err := checkText("action", action, actionBytesMax)
		if err == nil && strings.HasPrefix(action, ownActionsPrefix) {
			err = argumentError("action", "must not begin with stint.: the packages of this "+
				"module have such actions, and must not wait")
		}
		if err != nil && len(actions) > 1 {
			err = at(err, i, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Limits) check() error {
	switch {
	case l.Concurrency < 0 || l.Concurrency > concurrencyMax:
		return argumentError("Limits.Concurrency", "must be 0 to 1000000000")
	case l.ConcurrencyPerKey < 0:
		return argumentError("Limits.ConcurrencyPerKey", "must not be negative")
	case l.ConcurrencyPerKey > perKeyMax:
		return tooLarge("Limits.ConcurrencyPerKey", l.ConcurrencyPerKey, perKeyMax)
	}
	if err := l.Rate.check("Limits.Rate"); err != nil {
		return err
	}
	return l.RatePerKey.check("Limits.RatePerKey")
}

func (r Rate) check(name string) error {
	switch {
	case r == Rate{}:
	case r.Tasks < 1 || r.Tasks > rateTasksMax:
		return argumentError(name+".Tasks", "must be 1 to 1000000000")
	case r.Per < time.Microsecond || r.Per > ratePerMax:
		return argumentError(name+".Per", "must be a microsecond to a year")
	case r.Burst < 0 || r.Burst > rateTasksMax:
		return argumentError(name+".Burst", "must be 0 to 1000000000")
	case float64(r.Burst) > bucketYearsMax*float64(ratePerMax)/float64(r.Per)*float64(r.Tasks):
		return argumentError(name+".Burst", "must be no more than what comes in 1000 years")
	}
	return nil
}

// burst is how many tokens the bucket holds.
func (r Rate) burst() int {
	if r.Burst > 0 {
		return r.Burst
	}
	inSecond := float64(r.Tasks) * float64(time.Second) / float64(r.Per)
	return max(1, int(min(inSecond, rateTasksMax)))
}

// args returns the rate as parameters of a statement: tasks, per and burst, or nulls.
func (r Rate) args() [3]any {
	if r == (Rate{}) {
		return [3]any{}
	}
	return [3]any{r.Tasks, r.Per, r.burst()}
}

// count returns a limit as the parameter of a statement: null for none.
func count(limit int) *int {
	if limit == 0 {
		return nil
	}
	return &limit
}

const weightMax = 1000

// SetWeights sets the weights of keys of an action, 1 to 1,000 each. If keys take turns
// ([Limits].Fair), three times as many tasks are handed out of a key with weight 3 as of one with
// weight 1, as long as both have some that are ready. Default: 1. Keys that are not named keep
// theirs. Where keys do not take turns, weights are kept, and have no effect.
//
// It takes 10,000 keys at most, is refused in the caller's transaction, and may be repeated after
// any failure.
func (s *Store) SetWeights(ctx context.Context, action string, weights map[string]int) error {
	if err := s.setWeights(ctx, action, weights); err != nil {
		return fmt.Errorf("set weights: %w", err)
	}
	return nil
}

func (s *Store) setWeights(ctx context.Context, action string, weights map[string]int) error {
	if err := s.checkLimiting(action); err != nil {
		return err
	}
	keys := slices.Sorted(maps.Keys(weights))
	if err := checkKeys(keys); err != nil {
		return err
	}
	numbers := make([]int32, len(keys))
	for i, key := range keys {
		if weights[key] < 1 || weights[key] > weightMax {
			return argumentError("weights",
				fmt.Sprintf("must be 1 to 1000, not %d as for key %.40q", weights[key], key))
		}
		numbers[i] = int32(weights[key]) //nolint:gosec // just checked
	}
	if len(keys) == 0 {
		return s.db.CheckOpen(ctx)
	}
	return s.db.Run(ctx, pg.Step{Name: "lock_limiting"},
		pg.Step{Name: "set_weights", Args: []any{action, keys, numbers}},
		pg.Step{Name: "forget_keys", Args: []any{action, keys}})
}
