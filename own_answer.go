package stint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stint-tasks/stint/internal/bodies"
	"github.com/stint-tasks/stint/internal/headers"
	"github.com/stint-tasks/stint/internal/pg"
)

// budget is how many bytes of bodies the fetch delivers.
func (h *fetch) budget() bodies.Budget {
	return bodies.Budget{
		Limit: h.store.fetchBytes, Lease: h.Lease, Remote: h.chosen.isSet(), Asks: h.room != nil,
	}
}

// claimed reads the tasks that are owned under the claim.
func (h *fetch) claimed() pg.Step {
	return pg.Step{
		Name: "claimed_tasks", Read: h.read,
		Args: []any{int64(h.claim), h.budget().Inline(), h.store.pieceBytes, h.budget().Short()},
	}
}

// claimedBehind is claimed, behind the commit.
func (h *fetch) claimedBehind() pg.Step {
	read := h.claimed()
	read.AfterCommit = true
	return read
}

// tasks returns the tasks in the order of their spans, which is the order of priority and age, and
// within a span in the order of insertion.
func (h *fetch) tasks() []OwnedTask {
	h.sort()
	tasks := make([]OwnedTask, len(h.rows))
	for i := range h.rows {
		tasks[i] = h.rows[i].task
	}
	return tasks
}

func (h *fetch) sort() {
	slices.SortFunc(h.rows, func(a, b ownedRow) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.key, b.key))
	})
}

// readBodies reads the bodies that were too long to come with the fetch, the first of them in
// any case, and gives back the tasks whose bodies would make the answer too long.
func (h *fetch) readBodies(ctx context.Context) error {
	isLong := func(row ownedRow) bool { return len(row.task.Body) < row.size }
	if !slices.ContainsFunc(h.rows, isLong) {
		h.store.sizes.Learn(h.Actions, len(h.rows), 0)
		return nil
	}
	h.reading = true // until all is read
	h.sort()
	bytes := 0
	for i := range h.rows {
		bytes += len(h.rows[i].task.Body) + headers.Size(h.rows[i].task.Headers)
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
	h.store.sizes.Learn(h.Actions, len(kept), len(left))
	return nil
}

// readLong reads the bodies of tasks, once there is room for all bodies, which have so many bytes.
// The leases are extended meanwhile, since the tasks are owned by nobody else who could.
func (h *fetch) readLong(
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
	bodies, missing := map[int64][]byte{}, 0
	err := h.insist(ctx, func() error {
		bodies, missing = map[int64][]byte{}, len(long)
		return h.store.db.Run(ctx, pg.Step{
			Name: "read_bodies", Args: []any{keys, h.store.pieceBytes},
			Read: func(rows pgx.Rows) error {
				var key int64
				var begins int
				var piece pgtype.DriverBytes
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
	})
	if err == nil && missing > 0 { // they were aborted and deleted, or replaced, meanwhile
		err = errBodiesGone
	}
	return bodies, err
}

var errBodiesGone = errors.New("tasks were deleted while their bodies were read")

// keepLeases extends the leases of the fetch until the returned function is called. If that
// fails, the leases expire.
func (h *fetch) keepLeases(ctx context.Context) (stop func()) {
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
			case <-time.After(h.Lease / part):
				_, _ = h.store.extend(ctx, h.Actor, h.chosen.Session, owned, h.Lease)
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

// readAny reads whether there is a row.
func readAny(found *bool) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		*found = rows.Next()
		rows.Close()
		return rows.Err()
	}
}

// look asks whether tasks were fetched under a claim of the caller's.
func (h *fetch) look() pg.Step {
	return pg.Step{
		Name: "claim_taken", Args: []any{int64(h.claim)},
		Read: func(rows pgx.Rows) error {
			err := readAny(&h.taken)(rows)
			h.taken = h.taken && len(h.rows)+len(h.spans) == 0 // by an earlier call
			return err
		},
	}
}

// remember keeps the claim known when its tasks have ended, and who has repeated the call: the
// caller, who is then responsible for the tasks, or only the call itself.
func (h *fetch) remember() pg.Step {
	const byCaller, byItself = -1, -2
	by := byItself
	if h.chosen.Repeated || !h.repeated {
		by = byCaller
	}
	return pg.Step{Name: "remember_claim", Args: []any{int64(h.claim), by}}
}

// again answers a repeated call with the tasks that were fetched under its claim before, as far
// as the actor still owns them. If there are none, it sees to it that there never will be: those
// that were fetched may have been handed on since, and must not be fetched under the same claim.
func (h *fetch) again(ctx context.Context) error {
	ask := h.claimed()
	spent := false
	err := h.store.db.Run(ctx,
		pg.Step{Name: "bar_claim", Args: []any{int64(h.claim), string(h.Actor)}},
		h.remember(),
		pg.Step{Name: "claim_spent", Args: []any{int64(h.claim)}, Read: readAny(&spent)},
		ask)
	if err != nil {
		return err
	}
	if spent {
		h.rows = nil
		return ErrClaimSpent
	}
	h.rows = slices.DeleteFunc(h.rows, func(row ownedRow) bool {
		return !slices.Contains(h.Actions, row.task.Action)
	})
	if err := h.renew(ctx); err != nil {
		return err
	}
	if len(h.rows) == 0 {
		return ErrClaimSpent
	}
	return nil
}

// renew begins the lease anew, and keeps the tasks that the actor still owns.
func (h *fetch) renew(ctx context.Context) error {
	key := extendKey{h.Actor, h.chosen.Session, h.Lease}
	kept, err := h.store.extendLeases(ctx, key, h.tasks(), false)
	if err != nil {
		return err
	}
	still := map[Token]bool{}
	for i, row := range h.rows { // which tasks has sorted
		still[row.task.Token] = kept[i]
	}
	if err := h.store.db.Run(ctx, h.claimed()); err != nil { // for the deadlines
		return err
	}
	h.rows = slices.DeleteFunc(h.rows, func(row ownedRow) bool { return !still[row.task.Token] })
	return nil
}
