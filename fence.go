package stint

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

// Fence draws a number that is greater than all that were drawn for earlier fetches of the task,
// whatever became of them: an expiry, a release, a retry. The owner sends it along with what it
// writes elsewhere, to an object store, another database or an HTTP API, which keeps the greatest
// number for each task and refuses smaller ones. So a late owner cannot overwrite what a later one
// has written there, once that has shown its number.
//
// One number does for all that an owner writes; another call draws a greater one. It is positive,
// and below 2^53 until the year 2255, so that a number of JSON holds it. A task with the same ID
// that is inserted later, and a database that is restored or replicated into a new schema, go on
// with greater numbers. A failover that loses commits, or a crash with [Opportunistic], may draw
// those numbers again that were drawn in the moments that are lost.
//
// If the token is not the one of the task's last owner, the error is [ErrInvalidToken], in a
// [*TaskError], and nothing is drawn. The call may be repeated after any failure. In the caller's
// transaction the task is held as by [Store.HoldOwnership].
func (s *Store) Fence(ctx context.Context, owned OwnedTask) (int64, error) {
	fence, err := s.fence(ctx, owned)
	if err != nil {
		return 0, fmt.Errorf("fence: %w", err)
	}
	return fence, nil
}

func (s *Store) fence(ctx context.Context, owned OwnedTask) (fence int64, err error) {
	if err := checkText("task ID", string(owned.ID), idBytesMax); err != nil {
		return 0, err
	}
	p := owned.performance()
	stillOwned := map[performance]bool{}
	draw := pg.Step{
		Name: "draw_fence", Args: []any{p.key, int64(p.claim)},
		Read: func(rows pgx.Rows) error {
			clear(stillOwned) // drops what an attempt that was undone had read
			var found performance
			_, err := pgx.ForEachRow(rows, []any{&found.key, &found.claim, &fence}, func() error {
				stillOwned[found] = true
				return nil
			})
			return err
		},
	}
	err = s.changeOwned(ctx, []OwnedTask{owned}, stillOwned, draw)
	return fence, err
}
