package stint

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

// ErrClaimSpent reports that nothing is handed out under a [Claim] any more: it was released, or
// tasks were handed out under it that the actor does not own. The caller goes on under a new claim.
var ErrClaimSpent = errors.New("claim was used before")

// NewClaim makes a claim for a hand-out to an actor with this session.
func NewClaim(session int64) (Claim, error) {
	random, err := uuid.NewRandom()
	if err != nil {
		return Claim{}, fmt.Errorf("new claim: %w", err)
	}
	return Claim{Number: binary.BigEndian.Uint64(random[:8]), Session: session}, nil
}

// isSet reports whether the caller has chosen a claim.
func (c Claim) isSet() bool { return c.Number != 0 }

// claim is the claim in the tables, in the form of the first half of a UUID of version 8.
func (c Claim) claim() claim {
	return claim(c.Number&^versionBits | versionBit) //nolint:gosec // the bits are what counts
}

func (s *Store) claiming(
	c Claim, actor ActorID, maxTasks int, actions []string, lease time.Duration,
) (ownRequest, error) {
	switch {
	case c.Number == 0:
		return ownRequest{}, argumentError("Claim.Number", "must not be 0; NewClaim makes one")
	case s.db.InTx():
		return ownRequest{}, argumentError("store",
			"must not be in a transaction, whose end decides what was handed out")
	}
	return ownRequest{
		actor: actor, maxTasks: maxTasks, actions: actions, lease: lease,
		chosen: c,
	}, nil
}

func (s *Store) releaseClaim(ctx context.Context, c Claim, actor ActorID) error {
	if err := checkText("actor", string(actor), actorBytesMax); err != nil {
		return err
	}
	return s.spend(ctx, c.claim(), actor, true)
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
	tasks, err := s.claimedTasks(ctx, c)
	if err != nil {
		return err
	}
	return s.giveBack(ctx, tasks)
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
		return !slices.Contains(h.actions, row.task.Action)
	})
	kept, err := h.store.extend(ctx, h.actor, h.chosen.Session, h.tasks(), h.lease)
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

func (s *Store) attendActor(
	ctx context.Context, remote RemoteActor, actions []string,
) (latest bool, err error) {
	if err := checkActor(remote.Actor, actions); err != nil {
		return false, err
	}
	if err := s.checkRemote(remote); err != nil {
		return false, err
	}
	attendant, err := s.attendant(ctx)
	if err != nil {
		return false, err
	}
	superseded := false
	err = s.db.WithReserve(pg.Prompt, 0).Run(ctx, pg.Step{
		Name: "attend_actor",
		Args: []any{remote.Session, string(remote.Actor), attendant, remote.Epoch, actions},
		Read: func(rows pgx.Rows) (err error) {
			superseded, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
			return err
		},
	})
	return !superseded, err
}

// attendant is the number of the store's session, or 0 if it can have none. The actor is noted all
// the same: only that tells which of its connections is the latest.
func (s *Store) attendant(ctx context.Context) (int64, error) {
	if err := s.db.CheckUsable(ctx); err != nil {
		return 0, err
	}
	return s.session.Number(ctx)
}

func (s *Store) dismissActor(ctx context.Context, remote RemoteActor) error {
	const pauseFirst, pauseMax = 5 * time.Millisecond, time.Second
	if err := s.checkRemote(remote); err != nil {
		return err
	}
	for pause := pauseFirst; ; pause *= 2 {
		pending, passed, leases := &pg.Notices{}, 0, s.scanLeases(handedOnLeasesMax)
		dismiss := pg.Step{
			Name: "dismiss_actor",
			Args: []any{remote.Session, string(remote.Actor), remote.Epoch},
			Read: func(rows pgx.Rows) (err error) {
				passed, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
				return err
			},
		}
		if err := s.db.Run(ctx, dismiss, leases.step()); err != nil {
			return err
		}
		s.addNotices(leases, pending)
		s.db.Notify(ctx, pending)
		if passed == 0 || pause > pauseMax {
			return s.settleDue(ctx) // this ends the tasks that have no tries left
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Store) checkRemote(remote RemoteActor) error {
	switch {
	case s.db.InTx():
		return argumentError("store", "must not be in a transaction; who attends whom is at once")
	case remote.Session == 0:
		return argumentError("RemoteActor.Session", "must not be 0")
	}
	return checkText("actor", string(remote.Actor), actorBytesMax)
}
