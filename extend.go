package stint

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/groupcommit"
	"github.com/stint-tasks/stint/internal/pg"
)

// ExtendTasksOwnership extends the leases of owned tasks to at least lease from now; it never
// shortens a lease (R9). The result says for each task whether actor still owns it with that token;
// a lost task is not an error.
//
// A task whose lease has expired is extended, and owned again, unless it is final or somebody else
// has been given it, or its action has limits: then others may have its capacity.
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
		return nil, s.db.CheckOpen(ctx)
	}
	if !s.db.InTx() && len(owned) <= groupcommit.SizeMax/2 {
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

// extendLeases extends ownership. If noWait is set, it fails rather than wait long for a lock on
// one of the leases.
func (s *Store) extendLeases(
	ctx context.Context, key extendKey, owned []OwnedTask, noWait bool,
) ([]bool, error) {
	s = s.on(s.db.WithReserve(pg.Prompt, key.lease))
	performances := performancesOf(owned)
	spans := ownedSpans(performances)
	shares := slices.ContainsFunc(owned, sharesRow)
	stillOwned := map[performance]bool{}
	var repeat bool
	extend := s.extendSteps(spans, shares, key, stillOwned, &repeat)
	steps := append(pg.LimitWaiting(noWait), extend...)
	if err := s.db.Do(ctx, pg.Request{Steps: steps, Collides: leasePart}); err != nil {
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
		revived, err := s.extendLate(ctx, key, rest, noWait)
		if err != nil {
			return nil, err
		}
		for i, p := range performances {
			extended[i] = extended[i] || revived[p]
		}
	}
	for i, p := range performances {
		if !extended[i] && !s.db.InTx() {
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
) []pg.Step {
	claims, plain := make([]int64, len(spans)), make([]span, len(spans))
	for i, span := range spans {
		claims[i], plain[i] = int64(span.claim), span.span
	}
	lo, hi := bounds(plain)
	var steps []pg.Step
	if shares {
		steps = append(steps, splitLeased(plain))
	}
	return append(steps,
		pg.Step{Name: "lock_leases", Args: []any{claims}},
		pg.Step{
			Name: "extend_leases",
			Args: []any{
				lo, hi, claims, string(key.actor), interval(key.lease), s.sessionFor(key),
			},
			Read: readOwnedSpans(stillOwned, repeat),
		})
}

// sessionFor is the session that extended leases are bound to if they were not, or nil.
func (s *Store) sessionFor(key extendKey) *int64 {
	if key.session != 0 {
		return &key.session
	}
	return s.session.Of(string(key.actor))
}

// extendLate tries again to extend performances: their owner may be late (R8), or their rows must
// be cut out anew, since somebody was returning their neighbours. It returns the performances that
// are owned.
func (s *Store) extendLate(
	ctx context.Context, key extendKey, rest []performance, noWait bool,
) (map[performance]bool, error) {
	spans := ownedSpans(rest)
	stillOwned, repeat := map[performance]bool{}, false
	for range attemptsMax {
		keys, claims := keysAndClaims(rest)
		revive := pg.Step{Name: "revive_tasks", Args: []any{
			keys, claims, string(key.actor), s.sessionFor(key), false,
		}}
		steps := append(pg.LimitWaiting(noWait), revive)
		steps = append(steps, s.extendSteps(spans, true, key, stillOwned, &repeat)...)
		err := s.db.Do(ctx, pg.Request{Steps: steps, Collides: leasePart})
		if err != nil || !repeat {
			return stillOwned, err
		}
	}
	return nil, errUnstable
}

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
	set := pg.Step{
		Name: "set_status",
		Args: []any{p.key, int64(p.claim), statusText(status), float32(progress)},
		Read: readPerformances(stillOwned),
	}
	return s.changeOwned(ctx, []OwnedTask{owned}, stillOwned, set)
}

// Fence draws a number that is greater than all that were drawn for earlier fetches of the task,
// whatever became of them: an expiry, a release, a retry. The owner sends it along with what it
// writes elsewhere, to an object store, another database or an HTTP API, which keeps the greatest
// number for each task and refuses smaller ones. So a late owner cannot overwrite what a later one
// has written there, once that has shown its number.
//
// One number does for all that an owner writes; another call draws a greater one. It is positive,
// and below 2^53 until the year 2255, so that a number of JSON holds it. A task with the same ID
// that is inserted later, and a database that is restored or replicated into a new schema, go on
// with greater numbers. Numbers whose commit is lost may be drawn again: by a failover that loses
// commits, by a crash with [Opportunistic] or before the caller's transaction commits, and by a
// backup that takes the database back. Before tasks are performed behind such a loss, let the
// numbers begin behind all of these:
//
//	SELECT setval('stint.fences', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
//
// If the token is not the one of the task's last owner, the error is [ErrInvalidToken], in a
// [*TaskError], and nothing is drawn. The call may be repeated after any failure. In the caller's
// transaction the task is held as by [Store.HoldOwnership].
func (s *Store) Fence(ctx context.Context, owned OwnedTask) (int64, error) {
	fence, err := s.fence(ctx, owned)
	if err != nil {
		return 0, fmt.Errorf("fence: %w", err)
	}
	return fence, nil
}

func (s *Store) fence(ctx context.Context, owned OwnedTask) (fence int64, err error) {
	if err := checkText("task ID", string(owned.ID), idBytesMax); err != nil {
		return 0, err
	}
	p := owned.performance()
	stillOwned := map[performance]bool{}
	draw := pg.Step{
		Name: "draw_fence", Args: []any{p.key, int64(p.claim)},
		Read: func(rows pgx.Rows) error {
			clear(stillOwned) // drops what an attempt that was undone had read
			var found performance
			_, err := pgx.ForEachRow(rows, []any{&found.key, &found.claim, &fence}, func() error {
				stillOwned[found] = true
				return nil
			})
			return err
		},
	}
	err = s.changeOwned(ctx, []OwnedTask{owned}, stillOwned, draw)
	return fence, err
}

// changeOwned is whileOwned for a step that changes the tasks: it splits them off first.
func (s *Store) changeOwned(
	ctx context.Context, owned []OwnedTask, found map[performance]bool, change pg.Step,
) error {
	return s.whileOwned(ctx, owned, found, append(s.splitSteps(ctx, owned...), change)...)
}

// whileOwned runs steps for the owner of tasks. The steps note in found which tasks they found
// owned. A task that they did not find gets a second look, since its owner may be late (R8). It
// gets further looks while it is owned but shares its row with a task that somebody else is cutting
// out. After that it is refused.
func (s *Store) whileOwned(
	ctx context.Context, owned []OwnedTask, found map[performance]bool, steps ...pg.Step,
) error {
	s = s.on(s.db.WithReserve(pg.Patient, 0))
	if err := s.db.Run(ctx, steps...); err != nil {
		return err
	}
	if len(notOwned(owned, found)) == 0 {
		return nil
	}
	keys, claims := keysAndClaims(performancesOf(owned))
	has := map[performance]bool{}
	steps = append(append(
		[]pg.Step{{Name: "revive_tasks", Args: []any{keys, claims, nil, nil, false}}}, steps...),
		pg.Step{Name: "still_owned", Args: []any{keys, claims, false}, Read: readPerformances(has)})
	for range attemptsMax {
		if err := s.db.Do(ctx, pg.Request{Steps: steps, Collides: leasePart}); err != nil {
			return err
		}
		lost := notOwned(owned, found)
		if len(lost) == 0 {
			return nil
		}
		if gone := notOwned(owned, has); len(gone) > 0 {
			return taskError(gone, ErrInvalidToken)
		}
	}
	return taskError(notOwned(owned, found), errUnstable)
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
	if !s.db.InTx() { // a store whose transaction is missing says so itself
		return argumentError("store", "must be in a transaction; see WithTx")
	}
	if len(owned) == 0 {
		return s.db.CheckOpen(ctx)
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
	hold := pg.Step{
		Name: "hold_ownership", Args: []any{keys, claims}, Read: readPerformances(stillOwned),
	}
	return s.changeOwned(ctx, owned, stillOwned, hold)
}

// An Input is how a predecessor of a task ended, with the result that it left.
type Input struct {
	ID         TaskID
	Action     string
	StatusCode StatusCode
	AbortCause AbortCause // why it was aborted, if it was
	Status     string
	Result     []byte
}

// Inputs returns how the predecessors of an owned task ended, with their results. A spontaneous
// predecessor that completed has no result and stands for the tasks that it waited for: the result
// lists those tasks in its place. Tasks that were inserted together with the same action and
// priority come in the order of the insert.
//
// If the token is not the one of the task's last owner, the error is [ErrInvalidToken] (R8), in a
// [*TaskError].
func (s *Store) Inputs(ctx context.Context, owned OwnedTask) ([]Input, error) {
	inputs, _, err := s.inputs(ctx, owned, 0, math.MaxInt64)
	if err != nil {
		return nil, fmt.Errorf("inputs: %w", err)
	}
	return inputs, nil
}

// inputs returns the inputs with keys from a key on, as far as they have so many bytes, and the key
// from which on there are more, or 0.
func (s *Store) inputs(
	ctx context.Context, owned OwnedTask, from, bytesMax int64,
) (inputs []Input, next int64, err error) {
	if err := checkText("task ID", string(owned.ID), idBytesMax); err != nil {
		return nil, 0, err
	}
	p := owned.performance()
	stillOwned := map[performance]bool{}
	check := pg.Step{
		Name: "owned_task", Args: []any{p.key, int64(p.claim)}, Read: readPerformances(stillOwned),
	}
	err = s.whileOwned(ctx, []OwnedTask{owned}, stillOwned, check, pg.Step{
		Name: "inputs", Args: []any{p.key, from, bytesMax},
		Read: func(rows pgx.Rows) error {
			var err error
			inputs, next, err = readInputs(rows)
			return err
		},
	})
	if err != nil {
		return nil, 0, err
	}
	return inputs, next, nil
}

func readInputs(rows pgx.Rows) (inputs []Input, next int64, err error) {
	var last, all int64
	for rows.Next() {
		var input Input
		var cause int16
		var status *string
		err := rows.Scan(&input.ID, &input.Action, &cause, &status, &input.Result, &last, &all)
		if err != nil {
			return nil, 0, err
		}
		of := ofNumber(stateCompleted + cause)
		input.StatusCode, input.AbortCause = of.code, of.cause
		if status != nil {
			input.Status = *status
		}
		inputs = append(inputs, input)
	}
	if int64(len(inputs)) < all {
		next = last + 1
	}
	return inputs, next, rows.Err()
}

// interval returns a lease as the parameter of a statement: null for NoExpiry.
func interval(lease time.Duration) *time.Duration {
	if lease == NoExpiry {
		return nil
	}
	return &lease
}
