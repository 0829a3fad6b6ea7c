package stint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/bodies"
	"github.com/stint-tasks/stint/internal/pg"
)

// budget is how many bytes of bodies the hand-out delivers.
func (h *handOut) budget() bodies.Budget {
	return bodies.Budget{
		Limit: h.store.handOutBytes, Lease: h.lease, Remote: h.chosen.isSet(), Asks: h.room != nil,
	}
}

// claimed reads the tasks that are owned under the claim.
func (h *handOut) claimed() pg.Step {
	return pg.Step{
		Name: "claimed_tasks", Read: h.read,
		Args: []any{int64(h.claim), h.budget().Inline(), h.store.pieceBytes, h.budget().Short()},
	}
}

// claimedBehind is claimed, behind the commit.
func (h *handOut) claimedBehind() pg.Step {
	read := h.claimed()
	read.AfterCommit = true
	return read
}

// readBodies reads the bodies that were too long to come with the hand-out, the first of them in
// any case, and gives back the tasks whose bodies would make the answer too long.
func (h *handOut) readBodies(ctx context.Context) error {
	isLong := func(row ownedRow) bool { return len(row.task.Body) < row.size }
	if !slices.ContainsFunc(h.rows, isLong) {
		h.store.sizes.Learn(h.actions, len(h.rows), 0)
		return nil
	}
	h.reading = true // until all is read
	h.sort()
	bytes := 0
	for i := range h.rows {
		bytes += len(h.rows[i].task.Body)
	}
	var kept, long []ownedRow
	var left []OwnedTask
	for _, row := range h.rows {
		switch {
		case !isLong(row):
			kept = append(kept, row)
		case len(long) == 0, row.size <= bodies.ShortBytes, bytes+row.size <= h.budget().Most():
			bytes += row.size
			kept, long = append(kept, row), append(long, row)
		default:
			left = append(left, row.task)
		}
	}
	if err := h.store.giveBack(ctx, left); err != nil {
		return fmt.Errorf("give back what is too much for one answer: %w", err)
	}
	h.rows = kept
	bodies, err := h.readLong(ctx, long, bytes)
	if err != nil {
		return err
	}
	for i := range kept {
		if body, ok := bodies[kept[i].key]; ok {
			kept[i].task.Body = body
		}
	}
	h.reading = false
	h.store.sizes.Learn(h.actions, len(kept), len(left))
	return nil
}

// readLong reads the bodies of tasks, once there is room for all bodies, which have so many bytes.
// The leases are extended meanwhile, since the tasks are owned by nobody else who could.
func (h *handOut) readLong(
	ctx context.Context, long []ownedRow, bytes int,
) (map[int64][]byte, error) {
	defer h.keepLeases(ctx)()
	if h.room != nil {
		const around = 2 << 10 // the body of a task in a message, and more
		if err := h.room(ctx, int64(bytes+around*len(h.rows))); err != nil {
			h.refused = true
			return nil, err
		}
	}
	keys, sizes := make([]int64, len(long)), make(map[int64]int, len(long))
	for i, row := range long {
		keys[i], sizes[row.key] = row.key, row.size
	}
	const attempts = 3
	var err error
	for range attempts {
		bodies, missing := map[int64][]byte{}, len(long)
		err = h.store.db.Run(ctx, pg.Step{
			Name: "read_bodies", Args: []any{keys, h.store.pieceBytes},
			Read: func(rows pgx.Rows) error {
				var key int64
				var begins int
				var piece []byte
				_, err := pgx.ForEachRow(rows, []any{&key, &begins, &piece}, func() error {
					if begins == 0 {
						bodies[key] = make([]byte, 0, sizes[key])
					}
					bodies[key] = append(bodies[key], piece...)
					if len(bodies[key]) == sizes[key] {
						missing--
					}
					return nil
				})
				return err
			},
		})
		switch {
		case err == nil && missing > 0: // they were aborted and deleted, or replaced, meanwhile
			return nil, errBodiesGone
		case err == nil:
			return bodies, nil
		case h.store.db.InTx(), !pg.WasCutOff(err), ctx.Err() != nil, errors.Is(err, pg.ErrSilent):
			return nil, err
		}
	}
	return nil, err
}

var errBodiesGone = errors.New("tasks were deleted while their bodies were read")

// keepLeases extends the leases of the hand-out until the returned function is called. If that
// fails, the leases expire.
func (h *handOut) keepLeases(ctx context.Context) (stop func()) {
	const part = 3 // of the lease
	if h.store.db.InTx() {
		return func() {}
	}
	owned := make([]OwnedTask, len(h.rows))
	for i := range h.rows {
		owned[i] = h.rows[i].task
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-time.After(h.lease / part):
				_, _ = h.store.extend(ctx, h.actor, h.chosen.Session, owned, h.lease)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
