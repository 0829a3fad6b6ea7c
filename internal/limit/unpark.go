package limit

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

// A Key is a key of an action. Tasks of it may be parked: ready, but outside of the queue, since a
// limit or a pause leaves no capacity for them.
type Key struct{ Action, Key string }

// UnparkFor unparks tasks in the place of those that the next step ends or changes, whoever owns
// them. If the transaction may last, as the caller's may, those of fair actions and of keys with a
// rate are unparked after its end.
func (e *Engine) UnparkFor(lasts bool, lo, hi []int64, pending *pg.Notices) pg.Step {
	if !slices.IsSorted(lo) {
		lo, hi = slices.Sorted(slices.Values(lo)), slices.Sorted(slices.Values(hi))
	}
	return e.UnparkReturned(lasts, Returned{Lo: lo, Hi: hi}, pending)
}

// Returned are tasks that their owners return: spans in order, each with its claim, and its outcome
// in the numbers of return_tasks.
type Returned struct {
	Lo, Hi, Claims []int64
	Outcomes       []int16
}

// UnparkReturned unparks tasks in the place of those that the next step takes from their owners, as
// [Engine.UnparkFor] does.
func (e *Engine) UnparkReturned(lasts bool, tasks Returned, pending *pg.Notices) pg.Step {
	if !lasts {
		return e.unparkStep(tasks, nil, nil, pending, nil)
	}
	return e.unparkStep(tasks, nil, nil, pending, e.Recheck)
}

// NoteTaken tells those who wait for capacity under the limits of actions of the tasks that the
// next step takes from their owners. Unlike [Engine.UnparkReturned] it unparks nothing: fetches
// have shown that no keys of these actions have limits. If keys have got some since, the
// maintainers unpark tasks this once.
func (e *Engine) NoteTaken(lo, hi, claims []int64, pending *pg.Notices) pg.Step {
	return pg.Step{
		Name: "note_limited", Args: []any{lo, hi, claims},
		Read: func(rows pgx.Rows) error {
			var action string
			var kind Kind
			var frees bool
			_, err := pgx.ForEachRow(rows,
				[]any{&action, &kind.Keyed, &kind.Rates, &kind.Turns, &frees}, func() error {
					if frees {
						pending.Add(e.Ready(action))
					}
					if kind.Keyed {
						e.Known.Learn([]string{action}, map[string]Kind{action: kind})
					}
					return nil
				})
			return err
		},
	}
}

// unpark unparks tasks of keys as far as there is capacity for them.
func (e *Engine) unpark(keys []Key, pending *pg.Notices) pg.Step {
	return e.unparkStep(Returned{}, keys, nil, pending, nil)
}

// UnparkForTokens unparks tasks of the keys of actions for which tokens have come.
func (e *Engine) UnparkForTokens(actions []string) pg.Step {
	return e.unparkStep(Returned{}, nil, actions, &pg.Notices{}, nil)
}

// unparkStep unparks tasks. Where the transaction may last, it gives later the keys to look at when
// it is over; later is nil where it does not.
func (e *Engine) unparkStep(
	tasks Returned, parked []Key, actionsWithTokens []string, pending *pg.Notices,
	later func(keys []Key),
) pg.Step {
	actions, keys := make([]string, len(parked)), make([]string, len(parked))
	for i, p := range parked {
		actions[i], keys[i] = p.Action, p.Key
	}
	return pg.Step{
		Name: "unpark_within_limits",
		Args: []any{
			tasks.Lo, tasks.Hi, tasks.Claims, actions, keys, actionsWithTokens, later == nil,
			tasks.Outcomes,
		},
		Read: func(rows pgx.Rows) error {
			var left []Key
			var one Key
			_, err := pgx.ForEachRow(rows, []any{&one.Action, &one.Key}, func() error {
				if one.Key == "" {
					pending.Add(e.Ready(one.Action))
				} else {
					left = append(left, one)
				}
				return nil
			})
			if err == nil && len(left) > 0 {
				later(left)
			}
			return err
		},
	}
}

// UnparkAgain unparks tasks that were just parked if there is capacity for them by now: an owner
// may have freed some before it could see the parked tasks. If that fails, the maintainers do it.
func (e *Engine) UnparkAgain(ctx context.Context, db *pg.DB, parked []Key) {
	if len(parked) == 0 {
		return
	}
	e.Recheck(parked)
	pending := &pg.Notices{}
	err := db.Run(context.WithoutCancel(ctx), e.unpark(parked, pending))
	if !pg.Failed(ctx, e.log, err) {
		db.Notify(ctx, pending)
	}
}
