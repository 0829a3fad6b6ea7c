package stint

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stint-tasks/stint/internal/groupcommit"
)

// ExtendTasksOwnership extends the leases of owned tasks to at least lease from now; it never
// shortens a lease (R9). The result says for each task whether actor still owns it with that token;
// a lost task is not an error.
//
// A task whose lease has expired is extended, and owned again, unless it is final or somebody else
// has been given it.
//
// Extend the tasks of one OwnTasks call together: however many they are, that costs the database
// one small update. The call may be repeated after any failure.
func (s *Store) ExtendTasksOwnership(
	ctx context.Context, actor ActorID, owned []OwnedTask, lease time.Duration,
) ([]bool, error) {
	extended, err := s.extend(ctx, actor, 0, owned, lease)
	if err != nil {
		return nil, fmt.Errorf("extend tasks ownership: %w", err)
	}
	return extended, nil
}

// extend extends leases. The session is that of a remote actor, or 0.
func (s *Store) extend(
	ctx context.Context, actor ActorID, session int64, owned []OwnedTask, lease time.Duration,
) ([]bool, error) {
	if err := checkText("actor", string(actor), actorBytesMax); err != nil {
		return nil, err
	}
	if err := checkLease(lease); err != nil {
		return nil, err
	}
	if len(owned) == 0 {
		return nil, s.checkOpen(ctx)
	}
	if s.tx == nil && len(owned) <= groupcommit.SizeMax/2 {
		return s.extends.Do(ctx, extendKey{actor, session, lease}, owned)
	}
	return s.extendLeases(ctx, extendKey{actor, session, lease}, owned, false)
}

// An extendKey is what calls of ExtendTasksOwnership must have in common to share a batch.
type extendKey struct {
	actor   ActorID
	session int64 // of a remote actor, or 0
	lease   time.Duration
}

// extendTogether extends the ownership of several callers.
func (s *Store) extendTogether(
	ctx context.Context, key extendKey, calls [][]OwnedTask, together bool,
) ([][]bool, error) {
	extended, err := s.extendLeases(ctx, key, slices.Concat(calls...), together)
	if err != nil {
		return nil, err
	}
	return groupcommit.Divide(extended, calls), nil
}

// extendLeases extends ownership. If hasty is set, it fails rather than wait long for a lock on one
// of the leases.
func (s *Store) extendLeases(
	ctx context.Context, key extendKey, owned []OwnedTask, hasty bool,
) ([]bool, error) {
	s = s.asOwner(&s.reserves.prompt, key.lease)
	performances := performancesOf(owned)
	spans := ownedSpans(performances)
	shares := slices.ContainsFunc(owned, func(t OwnedTask) bool { return t.Token.shares() })
	stillOwned := map[performance]bool{}
	var repeat bool
	extend := s.extendSteps(spans, shares, key, stillOwned, &repeat)
	steps := append(limitWaiting(hasty), extend...)
	if err := s.do(ctx, request{steps: steps, splits: true}); err != nil {
		return nil, err
	}
	extended := make([]bool, len(owned))
	var rest []performance
	for i, p := range performances {
		if extended[i] = stillOwned[p]; !extended[i] {
			rest = append(rest, p)
		}
	}
	if len(rest) > 0 {
		revived, err := s.extendLate(ctx, key, rest, hasty)
		if err != nil {
			return nil, err
		}
		for i, p := range performances {
			extended[i] = extended[i] || revived[p]
		}
	}
	for i, p := range performances {
		if !extended[i] && s.tx == nil {
			s.owners.lost(p)
		}
	}
	return extended, nil
}

// extendSteps extends the leases of spans, and fills in which performances are still owned and
// whether to repeat the steps. Spans that share rows of leased with others are cut out first.
func (s *Store) extendSteps(
	spans []ownedSpan, shares bool, key extendKey,
	stillOwned map[performance]bool, repeat *bool,
) []step {
	claims, plain := make([]int64, len(spans)), make([]span, len(spans))
	for i, span := range spans {
		claims[i], plain[i] = int64(span.claim), span.span
	}
	lo, hi := bounds(plain)
	var steps []step
	if shares {
		steps = append(steps, carveLeased(plain))
	}
	return append(steps,
		step{name: "lock_leases", args: []any{claims}},
		step{
			name: "extend_leases",
			args: []any{
				lo, hi, claims, string(key.actor), interval(key.lease), s.sessionFor(key),
			},
			read: readOwnedSpans(stillOwned, repeat),
		})
}

// sessionFor is the session that extended leases are bound to if they were not, or nil.
func (s *Store) sessionFor(key extendKey) *int64 {
	if key.session != 0 {
		return &key.session
	}
	return s.sessionOf(key.actor)
}

// extendLate tries again to extend performances: their owner may be late (R8), or their rows must
// be cut out anew, since somebody was returning their neighbours. It returns the performances that
// are owned.
func (s *Store) extendLate(
	ctx context.Context, key extendKey, rest []performance, hasty bool,
) (map[performance]bool, error) {
	spans := ownedSpans(rest)
	stillOwned, repeat := map[performance]bool{}, false
	for range attemptsMax {
		keys, claims := keysAndClaims(rest)
		revive := step{
			name: "revive_tasks", args: []any{keys, claims, string(key.actor), s.sessionFor(key)},
		}
		steps := append(limitWaiting(hasty), revive)
		steps = append(steps, s.extendSteps(spans, true, key, stillOwned, &repeat)...)
		if err := s.do(ctx, request{steps: steps, splits: true}); err != nil || !repeat {
			return stillOwned, err
		}
	}
	return nil, errUnstable
}
