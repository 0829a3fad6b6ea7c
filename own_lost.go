package stint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/numbering"
	"github.com/stint-tasks/stint/internal/pg"
)

const (
	// insistMax is how long a call goes on while the database is away, before the store goes on in
	// the background.
	insistMax = 10 * time.Second
	// closeMax is how long the store goes on once it is being closed.
	closeMax = 5 * time.Second

	// awayFirst and awayMax are the first pause and the longest between two attempts.
	awayFirst = 5 * time.Millisecond
	awayMax   = time.Second
)

// insist makes a request of a fetch, and makes it again while the database is away.
func (h *fetch) insist(ctx context.Context, request func() error) error {
	over := time.After(min(insistMax, h.Lease))
	for pause := awayFirst; ; pause = min(2*pause, awayMax) {
		err := request()
		switch {
		case !pg.IsAway(err), h.store.db.InTx(), ctx.Err() != nil, errors.Is(err, pg.ErrSilent),
			h.unread, errors.Is(err, ErrClaimSpent), errors.Is(err, ErrSchemaVersion):
			return err
		}
		select {
		case <-time.After(pg.Around(pause)):
		case <-over:
			return err
		case <-ctx.Done():
			return err
		}
	}
}

// recover gets the answer to a fetch whose connection broke: it asks which tasks were fetched
// under the claim, until it knows. If there are none, and bar_claim has made sure that there never
// will be, recover fetches tasks under another claim. The call under a claim that the caller has
// chosen is repeated as the caller would.
func (h *fetch) recover(ctx context.Context) error {
	const part = 10 // of the lease, in which an answer is not late
	h.unknown = true
	if h.chosen.isSet() {
		h.repeated, h.taken = true, true
		return nil
	}
	fresh, cancel := context.WithTimeout(ctx, h.Lease/part)
	defer cancel()
	err := h.insist(ctx, func() error {
		err := h.store.db.AfterClose().Run(ctx,
			pg.Step{Name: "bar_claim", Args: []any{int64(h.claim), string(h.Actor)}},
			h.claimed())
		if err != nil {
			return err
		}
		h.unknown = false
		if len(h.rows) > 0 {
			return nil
		}
		if h.claim, err = newClaim(); err != nil {
			return err
		}
		err = h.ownAgain(ctx)
		h.unknown = pg.WasCutOff(err)
		return err
	})
	if err == nil && len(h.rows) > 0 && fresh.Err() != nil {
		h.reading = true // until it is known which of them are still owned
		if err = h.insist(ctx, func() error { return h.renew(ctx) }); err == nil {
			h.reading = false
		}
	}
	return err
}

// fail gives back what was fetched, or may have been, and cannot be delivered because of err.
func (h *fetch) fail(ctx context.Context, err error) error {
	s, left := h.store, ctx.Err() != nil || h.refused
	isSilent := errors.Is(err, pg.ErrSilent)
	isKnown := h.unread || h.reading || len(h.spans) > 0
	switch {
	case s.db.InTx():
		// The spans may have been committed, though their tasks could not be read. In the caller's
		// transaction that shows after the release of the savepoint.
		if !h.unread && (!isKnown || left || pg.WasCutOff(err)) {
			return err
		}
	case left:
		// A call that never got a connection has left nothing behind: where many wait in vain, to
		// give that back would keep the next ones waiting.
		if isKnown || h.unknown || h.chosen.isSet() || pg.WasCutOff(err) {
			s.abandon(h.claim, h.Actor, h.Lease)
		}
		return err
	case isSilent, !h.unread && (isKnown && pg.IsAway(err) || h.unknown && !h.chosen.isSet()):
		// Another attempt would take long, too.
		s.goOn(h.Lease, s.abandoning(h.claim, h.Actor))
		return err
	case !isKnown:
		return err
	}
	ctx, cancel := pg.Undoing(ctx)
	defer cancel()
	if failed := s.on(s.db.AfterClose()).giveBackClaim(ctx, h.claim); failed != nil {
		failed = fmt.Errorf("give back what was fetched unread: %w", failed)
		if !s.db.InTx() && !h.chosen.isSet() {
			s.goOn(h.Lease, s.abandoning(h.claim, h.Actor))
		}
		return &undeliveredError{errors.Join(err, failed)}
	}
	return err
}

// An undeliveredError is that of a fetch whose tasks are still owned under its claim: whoever
// has chosen that gets them by repeating the call.
type undeliveredError struct{ error }

func (e *undeliveredError) Unwrap() error { return e.error }

// Undelivered is how the service tells the error from others.
func (*undeliveredError) Undelivered() {}

// An undecidedError is that of a fetch whose returns may have been made: whoever makes them
// again cannot tell who has made them.
type undecidedError struct{ error }

func (e *undecidedError) Unwrap() error { return e.error }

// mayHaveOwned reports whether a fetch that failed may have taken effect.
func mayHaveOwned(err error) bool {
	var undecided *undecidedError
	return pg.WasCutOff(err) || errors.As(err, &undecided)
}

// release gives back tasks, with their tries refunded, whose caller has left.
func (s *Store) release(abandoned ownAnswer) {
	if abandoned.chosen.isSet() {
		s.abandon(abandoned.chosen.claim(), abandoned.actor, abandoned.lease)
		return
	}
	within := s.on(s.db.Outside().AfterClose())
	s.untilDone(abandoned.lease, func(ctx context.Context) error {
		return within.giveBack(ctx, abandoned.tasks)
	})
}

// abandon gives back what may have been fetched under a claim whose caller has left, unless a
// caller has repeated the call.
//
// The fetch may still be under way: a server that sends an answer notices only then that nobody
// takes it.
func (s *Store) abandon(c claim, actor ActorID, lease time.Duration) {
	s.untilDone(lease, s.abandoning(c, actor))
}

func (s *Store) abandoning(c claim, actor ActorID) func(context.Context) error {
	within := s.on(s.db.Outside().AfterClose())
	return func(ctx context.Context) error { return within.spend(ctx, c, actor, false) }
}

// untilDone makes an attempt to give tasks back. If it fails, or another one is being made, the
// store goes on in the background: one connection at most is busy with what callers have left.
func (s *Store) untilDone(lease time.Duration, attempt func(context.Context) error) {
	select {
	case s.goingOn <- struct{}{}:
		err := undo(context.Background(), attempt)
		<-s.goingOn
		if err == nil {
			return
		}
	default:
	}
	s.goOn(lease, attempt)
}

// goOn makes attempts to give tasks back in the background until one succeeds or the lease, which
// has begun, has expired; not for long once the store is being closed, and none once the pool is.
func (s *Store) goOn(lease time.Duration, attempt func(context.Context) error) {
	work := func() {
		over, end := context.WithTimeout(context.Background(), lease)
		defer end()
		go func() {
			select {
			case <-s.givenUp:
				end()
			case <-over.Done():
			}
		}()
		for pause := awayFirst; ; pause = min(2*pause, awayMax) {
			select {
			case s.goingOn <- struct{}{}: // so an outage costs the same however many go on
			case <-over.Done():
				return
			}
			err := undo(over, attempt)
			failed := !pg.IsPoolClosed(err) &&
				pg.Failed(context.Background(), s.logs.abandoned, err)
			if failed {
				select {
				case <-time.After(pg.Around(pause)):
				case <-over.Done():
				}
			}
			<-s.goingOn
			if !failed {
				return
			}
		}
	}
	if s.db.Start(work) != nil { // it is being closed, and waits for whoever is in a call
		work()
	}
}

// undo makes an attempt to give tasks back, for as long as over has not ended.
func undo(over context.Context, attempt func(context.Context) error) error {
	ctx, cancel := pg.Undoing(context.Background())
	defer cancel()
	defer context.AfterFunc(over, cancel)()
	return attempt(ctx)
}

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
			all := numbering.Hints{Signals: true, Posts: true, Shares: true, Limited: true}
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

// giveBack returns tasks as if they had not been fetched. Those that the caller does not own any
// more are another's, or were given back before.
func (s *Store) giveBack(ctx context.Context, tasks []OwnedTask) error {
	if len(tasks) == 0 {
		return nil
	}
	returns := make([]Return, len(tasks))
	for i, task := range tasks {
		returns[i] = Return{ID: task.ID, Token: task.Token, Code: StatusPending, Release: true}
	}
	verdicts, err := s.returnTasks(ctx, returns, returnMode{})
	for _, verdict := range verdicts {
		if !errors.Is(verdict, ErrInvalidToken) {
			err = errors.Join(err, verdict)
		}
	}
	return err
}

// spend bars a claim and gives back the tasks that were fetched under it. If a caller has
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
