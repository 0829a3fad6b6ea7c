package stint

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// SetStatus records a text about an owned task for people to read, and its progress, from 0 to 1.
// Text that cannot be stored is replaced, and long text is cut at 64 KiB. Both appear in [TaskInfo]
// until the next call or the return.
//
// If the token is not the one of the task's last owner, the error is [ErrInvalidToken]. The call
// may be repeated after any failure.
func (s *Store) SetStatus(
	ctx context.Context, owned OwnedTask, status string, progress float64,
) error {
	if err := s.setStatus(ctx, owned, status, progress); err != nil {
		return fmt.Errorf("set status: %w", err)
	}
	return nil
}

func (s *Store) setStatus(
	ctx context.Context, owned OwnedTask, status string, progress float64,
) error {
	if !(progress >= 0 && progress <= 1) { // NaN is neither
		return argumentError("progress", "must be between 0 and 1")
	}
	if err := checkText("task ID", string(owned.ID), idBytesMax); err != nil {
		return err
	}
	p := owned.performance()
	stillOwned := map[performance]bool{}
	set := step{
		name: "set_status",
		args: []any{p.key, int64(p.claim), statusText(status), float32(progress)},
		read: readPerformances(stillOwned),
	}
	return s.whileOwned(ctx, []OwnedTask{owned}, stillOwned, append(s.apart(ctx, owned), set)...)
}

// whileOwned runs steps for the owner of tasks. The steps note in found which tasks they found
// owned. A task that they did not find gets a second look, since its owner may be late (R8). It
// gets further looks while it is owned but shares its row with a task that somebody else is cutting
// out. After that it is refused.
func (s *Store) whileOwned(
	ctx context.Context, owned []OwnedTask, found map[performance]bool, steps ...step,
) error {
	s = s.asOwner(&s.reserves.patient, 0)
	if err := s.run(ctx, steps...); err != nil {
		return err
	}
	if len(notOwned(owned, found)) == 0 {
		return nil
	}
	keys, claims := keysAndClaims(performancesOf(owned))
	owns := map[performance]bool{}
	steps = slices.Concat(
		[]step{{name: "revive_tasks", args: []any{keys, claims, nil, nil}}}, steps,
		[]step{{name: "still_owned", args: []any{keys, claims}, read: readPerformances(owns)}})
	for range attemptsMax {
		if err := s.do(ctx, request{steps: steps, splits: true}); err != nil {
			return err
		}
		lost := notOwned(owned, found)
		if len(lost) == 0 {
			return nil
		}
		if gone := notOwned(owned, owns); len(gone) > 0 {
			return taskError(gone, ErrInvalidToken)
		}
	}
	return taskError(notOwned(owned, found), errUnstable)
}

// apart are the steps that cut owned tasks, sorted by key, out of rows that they share with others.
func (s *Store) apart(ctx context.Context, owned ...OwnedTask) []step {
	shares := func(t OwnedTask) bool { return t.Token.shares() }
	if !slices.ContainsFunc(owned, shares) {
		return nil
	}
	keys, _ := keysAndClaims(performancesOf(owned))
	s.setApart(ctx, singles(keys))
	return []step{carveLeased(singles(keys))}
}

// notOwned are the IDs of those tasks that are not in the set.
func notOwned(owned []OwnedTask, set map[performance]bool) []TaskID {
	var lost []TaskID
	for i := range owned {
		if !set[owned[i].performance()] {
			lost = append(lost, owned[i].ID)
		}
	}
	return lost
}

// HoldOwnership ensures, inside [Store.WithTx], that the caller still owns the tasks when it
// commits: until the transaction ends, nobody else can be given them, even if their leases expire.
// An owner that writes intermediate results calls it first. An owner that returns the task in the
// same transaction does not need it.
//
// If a token is not the one of its task's last owner, the error is [ErrInvalidToken] (R8), in a
// [*TaskError] that names every such task, and the caller should roll back. Outside a transaction
// the error is [ErrInvalidArgument], since nothing would be held.
func (s *Store) HoldOwnership(ctx context.Context, owned []OwnedTask) error {
	if err := s.holdOwnership(ctx, owned); err != nil {
		return fmt.Errorf("hold ownership: %w", err)
	}
	return nil
}

func (s *Store) holdOwnership(ctx context.Context, owned []OwnedTask) error {
	if s.tx == nil {
		return argumentError("store", "must be in a transaction; see WithTx")
	}
	if len(owned) == 0 {
		return s.checkOpen(ctx)
	}
	owned = slices.Clone(owned)
	slices.SortFunc(owned, func(a, b OwnedTask) int {
		return cmp.Compare(a.performance().key, b.performance().key)
	})
	for i := range owned {
		if err := checkText("task ID", string(owned[i].ID), idBytesMax); err != nil {
			return err
		}
	}
	keys, claims := keysAndClaims(performancesOf(owned))
	stillOwned := map[performance]bool{}
	hold := step{
		name: "hold_ownership", args: []any{keys, claims}, read: readPerformances(stillOwned),
	}
	return s.whileOwned(ctx, owned, stillOwned, append(s.apart(ctx, owned...), hold)...)
}
