package limit

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

// A Key is a key of an action. Tasks of it may be parked: ready, but outside of the queue, since a
// limit or a pause leaves no capacity for them.
type Key struct{ Action, Key string }

// UnparkFor unparks tasks in the place of those that the next step takes from their owners, or of
// ready ones, if claims are nil. If the transaction may last, as the caller's may, those of fair
// actions and of keys with a rate are unparked after its end.
func (e *Engine) UnparkFor(lasts bool, lo, hi, claims []int64, pending *pg.Notices) pg.Step {
	if !lasts {
		return e.unparkStep(lo, hi, claims, nil, nil, pending, nil)
	}
	return e.unparkStep(lo, hi, claims, nil, nil, pending, e.Recheck)
}

// NoteTaken tells those who wait for capacity under the limits of actions of the tasks that the
// next step takes from their owners. Unlike [Engine.UnparkFor] it unparks nothing: hand-outs have
// shown that no keys of these actions have limits. If keys have got some since, the maintainers
// unpark tasks this once.
func (e *Engine) NoteTaken(lo, hi, claims []int64, pending *pg.Notices) pg.Step {
	return pg.Step{
		Name: "note_limited", Args: []any{lo, hi, claims},
		Read: func(rows pgx.Rows) error {
			var action string
			var kind Kind
			var frees bool
			_, err := pgx.ForEachRow(rows,
				[]any{&action, &kind.Keyed, &kind.Rates, &kind.Fair, &frees}, func() error {
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
	return e.unparkStep(nil, nil, nil, keys, nil, pending, nil)
}

// UnparkForTokens unparks tasks of the keys of actions for which tokens have come.
func (e *Engine) UnparkForTokens(actions []string) pg.Step {
	return e.unparkStep(nil, nil, nil, nil, actions, &pg.Notices{}, nil)
}

// unparkStep unparks tasks. Where the transaction may last, it gives later the keys to look at when
// it is over; later is nil where it does not.
func (e *Engine) unparkStep(
	lo, hi, claims []int64, parked []Key, actionsWithTokens []string, pending *pg.Notices,
	later func(keys []Key),
) pg.Step {
	actions, keys := make([]string, len(parked)), make([]string, len(parked))
	for i, p := range parked {
		actions[i], keys[i] = p.Action, p.Key
	}
	return pg.Step{
		Name: "unpark_within_limits",
		Args: []any{lo, hi, claims, actions, keys, actionsWithTokens, later == nil},
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
