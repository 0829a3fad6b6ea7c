package stint

import (
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

// budget is how many bytes of bodies the hand-out delivers.
func (h *handOut) budget() bodies.Budget {
	return bodies.Budget{
		Limit: h.store.handOutBytes, Lease: h.Lease, Remote: h.chosen.isSet(), Asks: h.room != nil,
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

// release gives back tasks, with their tries refunded, whose caller has left.
func (s *Store) release(abandoned ownAnswer) {
	if abandoned.chosen.isSet() {
		s.abandon(abandoned.chosen.claim(), abandoned.actor)
		return
	}
	ctx, cancel := pg.Undoing(context.Background())
	defer cancel()
	within := s.on(s.db.Outside().AfterClose())
	err := within.giveBack(ctx, abandoned.tasks)
	pg.Failed(context.Background(), s.logs.abandoned, err)
}

// abandon gives back what may have been handed out under a claim whose caller has left, unless a
// caller has repeated the call.
//
// The hand-out may still be under way: a server that sends an answer notices only then that nobody
// takes it. So abandon tries for a while, unless the store is closed.
func (s *Store) abandon(c claim, actor ActorID) {
	const attempts, pause = 12, time.Second // a minute, if each attempt has to wait
	within := s.on(s.db.Outside().AfterClose())
	attempt := func() error {
		ctx, cancel := pg.Undoing(context.Background())
		defer cancel()
		return within.spend(ctx, c, actor, false)
	}
	err := attempt()
	for try := 1; err != nil && try < attempts && !s.db.Closed(); try++ {
		select {
		case <-time.After(pause):
			err = attempt()
		case <-s.db.Closing():
		}
	}
	pg.Failed(context.Background(), s.logs.abandoned, err)
}

// fail gives back what was handed out and cannot be delivered because of err.
func (h *handOut) fail(ctx context.Context, err error) error {
	s := h.store
	switch {
	case s.db.InTx():
	case ctx.Err() != nil, h.refused:
		s.abandon(h.claim, h.Actor)
		return err
	case errors.Is(err, pg.ErrSilent), h.reading && pg.WasCutOff(err): // which would last
		_ = s.db.Start(func() { s.abandon(h.claim, h.Actor) }) // else the lease expires
		return err
	}
	// The spans may have been committed, though their tasks could not be read. In the caller's
	// transaction that shows after the release of the savepoint.
	unread := h.unread || (len(h.spans) > 0 || h.reading) && !pg.WasCutOff(err) && ctx.Err() == nil
	if !unread {
		return err
	}
	ctx, cancel := pg.Undoing(ctx)
	defer cancel()
	if failed := s.on(s.db.AfterClose()).giveBackClaim(ctx, h.claim); failed != nil {
		failed = fmt.Errorf("give back what was handed out unread: %w", failed)
		return &undeliveredError{errors.Join(err, failed)}
	}
	return err
}

// An undeliveredError is that of a hand-out whose tasks are still owned under its claim: whoever
// has chosen that gets them by repeating the call.
type undeliveredError struct{ error }

func (e *undeliveredError) Unwrap() error { return e.error }

// Undelivered is how the service tells the error from others.
func (*undeliveredError) Undelivered() {}

// giveBackClaim gives back the tasks that are owned under a claim.
func (s *Store) giveBackClaim(ctx context.Context, c claim) error {
	tasks, err := s.claimedTasks(ctx, c)
	if err != nil {
		return err
	}
	return s.giveBack(ctx, tasks)
}

// claimedTasks returns the tasks that are owned under a claim, with no more of them than a return
// needs.
func (s *Store) claimedTasks(ctx context.Context, c claim) (tasks []OwnedTask, err error) {
	err = s.db.Run(ctx, pg.Step{
		Name: "claimed_spans", Args: []any{int64(c)},
		Read: func(rows pgx.Rows) error {
			tasks = tasks[:0]
			all := hints{Signals: true, Posts: true, Shares: true, Limited: true}
			var of span
			_, err := pgx.ForEachRow(rows, []any{&of.lo, &of.hi}, func() error {
				for key := of.lo; key <= of.hi; key++ {
					const id = "unread" // a return needs only the key and the claim
					token := newToken(c, key, id, all)
					tasks = append(tasks, OwnedTask{ID: id, Token: token})
				}
				return nil
			})
			return err
		},
	})
	return tasks, err
}

// giveBack returns tasks as if they had not been handed out.
func (s *Store) giveBack(ctx context.Context, tasks []OwnedTask) error {
	if len(tasks) == 0 {
		return nil
	}
	returns := make([]Return, len(tasks))
	for i, task := range tasks {
		returns[i] = Return{ID: task.ID, Token: task.Token, Code: StatusPending, Release: true}
	}
	verdicts, err := s.returnTasks(ctx, returns, returnMode{})
	return errors.Join(append(verdicts, err)...)
}

// recover gets the answer to an own_tasks whose connection broke: the tasks that it handed out
// under its claim. If there are none, and bar_claim has made sure that there never will be, recover
// hands out tasks under another claim. Under a claim that the caller has chosen, it repeats the
// call as the caller would; if that finds nothing, the caller has to repeat it, or to release the
// claim.
func (h *handOut) recover(ctx context.Context, cutOff error) error {
	const attempts = 3
	var err error
	if h.chosen.isSet() {
		h.chosen.Repeated = true
		for range attempts {
			if err = h.run(ctx); !pg.WasCutOff(err) || ctx.Err() != nil {
				break
			}
		}
		if err == nil && len(h.rows) == 0 && !h.taken { // what was cut off may still hand out
			return cutOff
		}
		return err
	}
	for range attempts {
		err = h.store.db.Run(ctx,
			pg.Step{Name: "bar_claim", Args: []any{int64(h.claim), string(h.Actor)}},
			h.claimed())
		if err != nil || len(h.rows) > 0 {
			return err
		}
		if h.claim, err = newClaim(); err != nil {
			return err
		}
		if err = h.ownAgain(ctx); !pg.WasCutOff(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// spend bars a claim and gives back the tasks that were handed out under it. If a caller has
// repeated the call, the tasks are that caller's, and only all makes spend take them.
func (s *Store) spend(ctx context.Context, c claim, actor ActorID, all bool) error {
	s = s.on(s.db.WithReserve(pg.Patient, 0))
	spent := false
	err := s.db.Run(ctx,
		pg.Step{Name: "bar_claim", Args: []any{int64(c), string(actor)}},
		pg.Step{
			Name: "spend_claim", Args: []any{int64(c), string(actor), all}, Read: readAny(&spent),
		})
	if err != nil || !spent {
		return err
	}
	return s.giveBackClaim(ctx, c)
}

// readAny reads whether there is a row.
func readAny(found *bool) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		*found = rows.Next()
		rows.Close()
		return rows.Err()
	}
}

// lookChosen finds out whether the claim was used before, and remembers it if the caller says that
// it may have been.
func (h *handOut) lookChosen() []pg.Step {
	if h.chosen.Repeated {
		return []pg.Step{h.look(), remember(h.claim)}
	}
	return []pg.Step{h.look()}
}

// look asks whether tasks were handed out under a claim of the caller's.
func (h *handOut) look() pg.Step {
	return pg.Step{
		Name: "claim_taken", Args: []any{int64(h.claim)},
		Read: func(rows pgx.Rows) error {
			err := readAny(&h.taken)(rows)
			h.taken = h.taken && len(h.rows)+len(h.spans) == 0 // by an earlier call
			return err
		},
	}
}

// remember keeps a claim known when its tasks have ended.
func remember(c claim) pg.Step { return pg.Step{Name: "remember_claim", Args: []any{int64(c)}} }

// again answers a repeated call with the tasks that were handed out under its claim before, as far
// as the actor still owns them.
func (h *handOut) again(ctx context.Context) error {
	ask := h.claimed()
	spent := false
	err := h.store.db.Run(ctx,
		remember(h.claim),
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
	kept, err := h.store.extend(ctx, h.Actor, h.chosen.Session, h.tasks(), h.Lease)
	if err != nil {
		return err
	}
	still := map[Token]bool{}
	for i, row := range h.rows { // which tasks has sorted
		still[row.task.Token] = kept[i]
	}
	if err := h.store.db.Run(ctx, ask); err != nil { // for the deadlines
		return err
	}
	h.rows = slices.DeleteFunc(h.rows, func(row ownedRow) bool { return !still[row.task.Token] })
	if len(h.rows) == 0 {
		return ErrClaimSpent
	}
	return nil
}
