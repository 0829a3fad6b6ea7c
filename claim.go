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
)

// ErrClaimSpent reports that nothing is handed out under a [Claim] any more: it was released, or
// tasks were handed out under it that the actor does not own. The caller goes on under a new claim.
var ErrClaimSpent = errors.New("claim was used before")

// A Claim names a hand-out before it takes place, so that a caller whose answer was lost, on the
// way through a service for example, can repeat the call, and learns of every task that it was
// given. [Store.ClaimTasks] says how.
type Claim struct {
	// Number is random, and new for each hand-out: [NewClaim] makes it. It becomes a part of the
	// tokens, so keep it out of logs.
	Number uint64

	// Session is the Session of the [RemoteActor] that owns the tasks, or 0 if it is none.
	Session int64

	// Repeated says that the caller has made the call before, and got no answer. The claim is then
	// remembered for ten minutes, also when the tasks have ended: a call before that is delivered
	// late gets [ErrClaimSpent], instead of tasks that nobody waits for.
	Repeated bool
}

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
	case s.tx != nil:
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
	s = s.asOwner(&s.reserves.patient, 0)
	spent := false
	err := s.run(ctx,
		step{name: "bar_claim", args: []any{int64(c), string(actor)}},
		step{
			name: "spend_claim", args: []any{int64(c), string(actor), all}, read: readAny(&spent),
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
func (h *handOut) lookChosen() []step {
	if h.chosen.Repeated {
		return []step{h.look(), remember(h.claim)}
	}
	return []step{h.look()}
}

// look asks whether tasks were handed out under a claim of the caller's.
func (h *handOut) look() step {
	return step{
		name: "claim_taken", args: []any{int64(h.claim)},
		read: func(rows pgx.Rows) error {
			err := readAny(&h.taken)(rows)
			h.taken = h.taken && len(h.rows) == 0 // by an earlier call
			return err
		},
	}
}

// remember keeps a claim known when its tasks have ended.
func remember(c claim) step { return step{name: "remember_claim", args: []any{int64(c)}} }

// again answers a repeated call with the tasks that were handed out under its claim before, as far
// as the actor still owns them.
func (h *handOut) again(ctx context.Context) error {
	ask := h.claimed()
	spent := false
	err := h.store.run(ctx,
		remember(h.claim),
		step{name: "claim_spent", args: []any{int64(h.claim)}, read: readAny(&spent)},
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
	if err := h.store.run(ctx, ask); err != nil { // for the deadlines
		return err
	}
	h.rows = slices.DeleteFunc(h.rows, func(row ownedRow) bool { return !still[row.task.Token] })
	if len(h.rows) == 0 {
		return ErrClaimSpent
	}
	return nil
}
