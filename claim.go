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

// ClaimTasks is [Store.OwnTasks] under a claim of the caller's. A caller that has got no answer
// sets Repeated and calls again, at any store on the schema, until it gets one. If tasks were
// handed out under the claim, the answer has those with the actions that the actor still owns,
// under a new lease, and no others. After an answer with tasks, or [ErrClaimSpent], the caller uses
// a new claim; one that has handed out nothing may be used again.
//
// While another call under the claim is still at work, a call that finds nothing else to hand out
// answers without tasks. So a caller whose earlier answer was lost, and that is not going to call
// again, calls [Store.ReleaseClaim]. If ctx ends during the call, what it has handed out is given
// back, unless the call was repeated meanwhile: the claim is then spent.
//
// An answer is on its way to somebody else for as long as the line takes, and nobody extends the
// leases meanwhile. So it has no more bodies than a line of 256 KiB a second carries in a third of
// the lease, and no more than one of OwnTasks, but always one: choose a lease for the largest.
//
// Calls share no statement with others, unlike those of OwnTasks. In a transaction the call is
// refused with an [*ArgumentError].
func (s *Store) ClaimTasks(
	ctx context.Context, c Claim, actor ActorID, maxTasks int, actions []string,
	lease time.Duration,
) ([]OwnedTask, error) {
	request, err := s.claiming(c, actor, maxTasks, actions, lease)
	if err != nil {
		return nil, fmt.Errorf("claim tasks: %w", err)
	}
	answer, err := s.ownTasks(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("claim tasks: %w", err)
	}
	return answer.tasks, nil
}

// WaitToClaimTasks is [Store.ClaimTasks], but waits until there are tasks, as
// [Store.WaitToOwnTasks] does.
func (s *Store) WaitToClaimTasks(
	ctx context.Context, c Claim, actor ActorID, maxTasks int, actions []string,
	lease time.Duration,
) ([]OwnedTask, error) {
	request, err := s.claiming(c, actor, maxTasks, actions, lease)
	if err != nil {
		return nil, fmt.Errorf("wait to claim tasks: %w", err)
	}
	owned, err := s.waitToOwnTasks(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("wait to claim tasks: %w", err)
	}
	return owned, nil
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

// ReleaseClaim gives back, with their tries refunded, the tasks that were handed out under a claim
// and are still owned under it, and sees to it that none are handed out for the next ten minutes: a
// call of [Store.ClaimTasks] that is still on its way fails. The call may be repeated after any
// failure.
func (s *Store) ReleaseClaim(ctx context.Context, c Claim, actor ActorID) error {
	if err := s.releaseClaim(ctx, c, actor); err != nil {
		return fmt.Errorf("release claim: %w", err)
	}
	return nil
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

// A RemoteActor is an actor in a process that does not reach the database. It asks through
// services, processes with a store, which come and go: its tasks do not depend on any of them. It
// owns tasks by [Store.ClaimTasks] with its session, and its leases are bound to that. The service
// to which it is connected attends it ([Store.AttendActor]), and hands its tasks on when it is gone
// ([Store.DismissActor]).
type RemoteActor struct {
	Actor ActorID

	// Session is a random number that the process has made for itself, other than 0.
	Session int64

	// Epoch counts the connections of the process: each has a larger one than the one before, so
	// that a service that notices late that an earlier connection is gone changes nothing.
	Epoch int64
}

// AttendActor notes that this store attends a connection of a remote actor, so that
// [Store.ListActors] shows it for as long as the process of the store lives. It reports whether the
// connection is the actor's latest; if not, the service should end it. The call may be repeated,
// and should be now and then, since others forget the actor when they believe for a while that this
// process is gone.
//
// With PollOnly, or behind a pooler, the actor is not shown.
func (s *Store) AttendActor(
	ctx context.Context, remote RemoteActor, actions []string,
) (latest bool, err error) {
	if latest, err = s.attendActor(ctx, remote, actions); err != nil {
		return false, fmt.Errorf("attend actor: %w", err)
	}
	return latest, nil
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

// ExtendRemoteOwnership is [Store.ExtendTasksOwnership] for a remote actor. If a lease has expired
// and is extended all the same, it is bound to the actor's session again.
func (s *Store) ExtendRemoteOwnership(
	ctx context.Context, remote RemoteActor, owned []OwnedTask, lease time.Duration,
) ([]bool, error) {
	extended, err := s.extend(ctx, remote.Actor, remote.Session, owned, lease)
	if err != nil {
		return nil, fmt.Errorf("extend remote ownership: %w", err)
	}
	return extended, nil
}

// DismissActor hands on the tasks of a remote actor whose connection is gone, as if their leases
// had expired, unless a later connection of it is attended, at whatever store. Tasks that somebody
// locks at this moment are handed on when the lock is free, if that is soon, or else when their
// leases expire. The call may be repeated after any failure.
func (s *Store) DismissActor(ctx context.Context, remote RemoteActor) error {
	if err := s.dismissActor(ctx, remote); err != nil {
		return fmt.Errorf("dismiss actor: %w", err)
	}
	return nil
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

// ForgetActor notes that a remote actor has left, unless a later connection of it is attended. As
// with [Store.UnregisterActor], the tasks that it still owns are handed on when their leases
// expire.
func (s *Store) ForgetActor(ctx context.Context, remote RemoteActor) error {
	err := s.checkRemote(remote)
	if err == nil {
		err = s.db.Run(ctx, pg.Step{
			Name: "forget_actor",
			Args: []any{remote.Session, string(remote.Actor), remote.Epoch},
		})
	}
	if err != nil {
		return fmt.Errorf("forget actor: %w", err)
	}
	return nil
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
