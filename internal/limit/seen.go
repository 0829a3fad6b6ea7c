package limit

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/responses"
)

// ErrChanged reports that limits are not those any more that the caller has seen. Nothing was set.
var ErrChanged = errors.New("somebody else has changed the limits meanwhile")

type seenKey struct{}

// WithSeen returns a context in which limits of an action are set only if they are still those
// that the caller has seen, and else it fails with [ErrChanged]: for whoever changes some of them,
// and must not undo how others have changed the rest.
func WithSeen(ctx context.Context, seen Limits) context.Context {
	return context.WithValue(ctx, seenKey{}, seen)
}

// SeenIn returns the limits that the caller has seen, if the context has them.
func SeenIn(ctx context.Context) (seen Limits, ok bool) {
	seen, ok = ctx.Value(seenKey{}).(Limits)
	return seen, ok
}

// asSeen is the step behind lock_limiting that fails if the limits of an action are not what the
// caller has seen.
func asSeen(ctx context.Context, action string) []pg.Step {
	seen, ok := SeenIn(ctx)
	if !ok {
		return nil
	}
	return []pg.Step{{
		Name: "limits_now", Args: []any{action},
		Read: func(rows pgx.Rows) error {
			var now Columns
			if _, err := pgx.ForEachRow(rows, now.All(), nothing); err != nil {
				return err
			}
			if now.Limits() != seen {
				return ErrChanged
			}
			return nil
		},
	}}
}

// change runs steps in a transaction, together with the response to the call of the context, if
// that has one. If the limits are not those that the caller has seen, they may be what an earlier
// attempt has set, which counts.
func change(ctx context.Context, db *pg.DB, steps ...pg.Step) error {
	err := db.Run(ctx, steps...)
	if err != nil && !errors.Is(err, ErrChanged) {
		return err
	}
	return cmp.Or(responses.Kept(ctx, db), err)
}
