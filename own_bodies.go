package stint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

const (
	// handOutBytes is how much the bodies of a hand-out have together, unless there is only one, or
	// all are short. The rest is given back.
	handOutBytes = 8 << 20

	// pieceBytes is how much of a body or a result is sent at once: as long as pieces arrive, the
	// database is not silent.
	pieceBytes = 1 << 20

	// shortBytes is the size of bodies that come with the hand-out, however many there are.
	shortBytes = 2 << 10

	// Where the caller is asked for room, bodies come ahead of that up to these bounds: 64 tasks
	// with short bodies still take one round trip, and no service hands out more than 1,000.
	roomlessBytes, roomlessShortBytes = 128 << 10, 256
)

// sizes are how many tasks the last hand-outs could deliver, where that were fewer than asked for:
// tasks that are handed out to be given back at once cost as much as others.
type sizes struct {
	mutex sync.Mutex
	tasks map[string]int // by the actions, joined
}

// most is how many tasks to hand out.
func (z *sizes) most(request ownRequest) int {
	z.mutex.Lock()
	defer z.mutex.Unlock()
	if most, ok := z.tasks[strings.Join(request.actions, "\x00")]; ok {
		return min(most, request.maxTasks)
	}
	return request.maxTasks
}

// learn takes note of how many tasks were delivered, and how many were not.
func (z *sizes) learn(actions []string, delivered, left int) {
	key := strings.Join(actions, "\x00")
	z.mutex.Lock()
	defer z.mutex.Unlock()
	most, ok := z.tasks[key]
	switch {
	case left > 0:
		if z.tasks == nil || len(z.tasks) > actionsMax {
			z.tasks = map[string]int{}
		}
		z.tasks[key] = delivered
	case ok && delivered >= most: // there may be room for more
		if z.tasks[key] = 2 * most; z.tasks[key] > ownedTasksMax {
			delete(z.tasks, key)
		}
	}
}

// inlineBytes is how much the bodies have together that come with the hand-out itself. Nobody can
// extend the leases until they have come. Half of the whole is left for longer ones.
func (h *handOut) inlineBytes() int {
	const half = 2
	inline := min(h.mostBytes()/half, h.carriedBytes())
	if h.room != nil {
		return min(inline, roomlessBytes)
	}
	return inline
}

// shortBytes is the size of bodies that come with the hand-out itself, whatever they have together.
func (h *handOut) shortBytes() int {
	if h.room != nil {
		return roomlessShortBytes
	}
	return shortBytes
}

// mostBytes is how much all bodies have together. A hand-out under a claim of the caller's goes on
// to somebody far away, and nobody extends the leases until it has come.
func (h *handOut) mostBytes() int {
	if h.chosen.isSet() {
		return min(h.store.handOutBytes, h.carriedBytes())
	}
	return h.store.handOutBytes
}

// carriedBytes is how much a slow line carries in a third of the lease.
func (h *handOut) carriedBytes() int {
	const part, slow = 3, 256 << 10 // a second
	return int(min(h.lease, time.Minute).Seconds() * slow / part)
}

// claimed reads the tasks that are owned under the claim.
func (h *handOut) claimed() pg.Step {
	return pg.Step{
		Name: "claimed_tasks", Read: h.read,
		Args: []any{int64(h.claim), h.inlineBytes(), h.store.pieceBytes, h.shortBytes()},
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
		h.store.sizes.learn(h.actions, len(h.rows), 0)
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
		case len(long) == 0, row.size <= shortBytes, bytes+row.size <= h.mostBytes():
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
	h.store.sizes.learn(h.actions, len(kept), len(left))
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
