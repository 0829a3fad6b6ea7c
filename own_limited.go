package stint

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/limit"
	"github.com/stint-tasks/stint/internal/pg"
)

const (
	// How many tasks own_limited looks at after one that found only tasks to park: first, and at
	// most.
	scanFirst = 64
	scanMax   = 1024

	// How many such looks a call makes in a row, which park some 1,300 tasks, before it looks for a
	// task behind these whose key has room; at how many tasks one statement looks for that; and how
	// many times it does, before others have a turn.
	parkingMax   = 4
	roomTasks    = 5000
	roomLooksMax = 20
)

// underLimits is the part of a fetch that own_gated and own_limited are asked for.
type underLimits struct {
	// bounds are the actions that were known to have limits, limited those that do.
	bounds, limited map[string]limit.Kind
	// spans were fetched. Their tasks are read behind the commit, in this order.
	spans []takenSpan
	// Of these keys, tasks had to be parked; passed says that others had to be, behind tasks that
	// somebody is changing.
	parked []limit.Key
	passed bool
	// queued says that tasks were put into the queues of their keys.
	queued bool
	// undealt says that tasks of fair actions are left whose turn has come.
	undealt bool
	// crowded are the fair actions of which turns have to be dealt.
	crowded []string
	// hasCapacity says that an action with limits had capacity, fairCapacity that a fair one had.
	hasCapacity, fairCapacity bool
	// deals says that turns are dealt, since tasks of fair actions have to wait for them.
	deals bool
	// redeal says that turns are dealt as if none were left, since others lock those that are.
	redeal bool
	// scanned is how many tasks own_limited looks at; 0: no more than the caller wants.
	scanned int
	// from is where tasks are fetched ahead of those before it, which are at the limits of their
	// keys and not parked yet; nil: from the beginning.
	from *place
}

// A place is one in the queue of an action.
type place struct {
	action   string
	rank, hi int64
}

// behindOthers is what own_limited adds to the turns to begin at a place.
const behindOthers = 8

// A takenSpan is a span that was fetched: tasks that were next to each other in the queue.
type takenSpan struct {
	span
	rank    int64
	floor   *int64
	signals bool // other tasks wait for one of them
}

// fetchSteps fetch the tasks that are first in the queues.
func (h *fetch) fetchSteps() []pg.Step {
	h.bounds = nil
	if !h.store.db.InTx() {
		h.bounds = h.store.limits.Known.Of(h.Actions)
	}
	if len(h.bounds) == 0 {
		return []pg.Step{h.own()}
	}
	all := limit.All(h.bounds)
	// The lock comes first: two that deal turns at once would do the same work, half of it in vain.
	steps := []pg.Step{all.Turns.Lock(h.Actions)}
	atOnce := all.Turns == limit.Own && !all.Keyed && !h.deals
	if !atOnce {
		steps = all.Turns.Deal(steps, h.Actions, h.MaxTasks, h.redeal, &h.queued, h.readDealt)
	}
	own := pg.Step{Read: h.readSpans, Args: []any{
		int64(h.claim), string(h.Actor), h.MaxTasks, h.scan.Actions, interval(h.Lease),
		h.sessionID(), h.scan.From, h.scan.To, h.chosen.isSet(),
	}}
	switch {
	case atOnce: // nobody waits for the lock, so the tasks need no transaction of their own
		own.Name = "own_at_once"
		return append(steps, own, h.claimed())
	case all.Keyed:
		dealt := all.Turns
		if h.from != nil {
			own.Args[3], own.Args[6] = []string{h.from.action}, []int64{h.from.rank}
			own.Args[7], dealt = []int64{math.MaxInt64}, dealt|behindOthers
		}
		own.Name, own.Args = "own_limited", append(own.Args, dealt, h.scanned)
	default:
		own.Name, own.Args = "own_gated", append(own.Args, all.Turns)
	}
	steps = append(steps, own)
	if all.Turns&limit.Costs != 0 {
		steps = append(steps, pg.Step{Name: "charge_costs", Args: []any{int64(h.claim)}})
	}
	return append(steps, h.claimedBehind())
}

// readSpans reads the spans that were fetched, the keys of which tasks were parked, and the
// actions that have limits.
func (h *fetch) readSpans(rows pgx.Rows) error {
	h.spans = h.spans[:0]
	var one takenSpan
	var signals, rates, keyed, locks, hasCapacity *bool
	var turns *limit.Turns
	var parked, action string
	_, err := pgx.ForEachRow(rows, []any{
		&one.lo, &one.hi, &one.rank, &one.floor, &signals, &parked, &action, &turns, &rates, &keyed,
		&locks, &hasCapacity,
	}, func() error {
		switch {
		case signals != nil:
			one.signals = *signals
			if h.from != nil { // the queue begins before
				one.floor = nil
			}
			h.spans = append(h.spans, one)
		case parked != "" && !*hasCapacity: // maintainers look again: it would be in vain now
			h.passed = true
		case parked != "":
			h.parked = append(h.parked, limit.Key{Action: action, Key: parked})
		default:
			h.limited[action] = limit.Kind{
				Keyed: *keyed, Rates: *rates, Turns: *turns, Locks: *locks,
			}
			if hasCapacity == nil {
				h.crowded = append(h.crowded, action)
				return nil
			}
			h.hasCapacity = h.hasCapacity || *hasCapacity
			h.fairCapacity = h.fairCapacity || *turns&limit.Fair != 0 && *hasCapacity
		}
		return nil
	})
	slices.SortFunc(h.spans, func(a, b takenSpan) int { return cmp.Compare(a.lo, b.lo) })
	if err != nil {
		return h.cannotRead(err)
	}
	return nil
}

// isFull reports whether limits left no capacity for any of the actions.
func (h *fetch) isFull() bool {
	isFree := func(action string) bool { _, limited := h.bounds[action]; return !limited }
	return !h.hasCapacity && !slices.ContainsFunc(h.Actions, isFree)
}

// spanOf returns the span of a task that own_gated or own_limited fetched, or nil.
func (h *fetch) spanOf(key int64) *takenSpan {
	i, _ := slices.BinarySearchFunc(h.spans, key, func(of takenSpan, key int64) int {
		return cmp.Compare(of.hi, key)
	})
	if i == len(h.spans) || h.spans[i].lo > key {
		return nil
	}
	return &h.spans[i]
}

// readDealt reads the keys of fair actions of which no task can be fetched, and whether tasks
// whose turn has come are left from before.
func (h *fetch) readDealt(rows pgx.Rows) error {
	var action string
	var key *string
	_, err := pgx.ForEachRow(rows, []any{&action, &key}, func() error {
		if key == nil {
			h.undealt = true
		} else {
			h.parked = append(h.parked, limit.Key{Action: action, Key: *key})
		}
		return nil
	})
	return err
}

// fetchUnder runs the steps of a fetch, and runs them again as long as they find no task but
// learn something: that some of the actions have limits, or that tasks at the head of a queue must
// wait for capacity below the limit of their key. Where many must, it parks some of them, fetches
// tasks behind them whose keys have room, and leaves the others to later calls.
func (h *fetch) fetchUnder(ctx context.Context, steps func() []pg.Step) error {
	h.scanned, h.redeal, h.from = 0, false, nil
	h.deals = h.store.limits.Known.IsCrowded(h.Actions)
	const emptyRoundsMax = 1000 // so often, a thousand tasks each, before others have a turn
	parking := 0
	for range emptyRoundsMax {
		goesOn, err := h.fetchRound(ctx, steps)
		if err != nil || !goesOn {
			return err
		}
		if len(h.parked) > 0 || h.passed { // where tasks had to be parked, there may be many
			h.scanned = min(max(scanFirst, 4*h.scanned), scanMax)
			parking++
		}
		if parking == parkingMax && limit.All(h.bounds).Turns&limit.Fair == 0 {
			return h.fetchBehind(ctx, steps)
		}
	}
	return nil
}

// fetchRound runs the steps once, and reports whether to run them again.
func (h *fetch) fetchRound(
	ctx context.Context, steps func() []pg.Step,
) (goesOn bool, err error) {
	h.limited, h.spans, h.parked, h.queued = map[string]limit.Kind{}, nil, nil, false
	h.undealt, h.hasCapacity, h.fairCapacity, h.crowded = false, false, false, nil
	h.passed = false
	if err := h.prepare(ctx); err != nil {
		return false, err
	}
	if err := h.runSome(ctx, steps()); err != nil {
		return false, err
	}
	if h.store.db.InTx() {
		return false, h.refuseLimited()
	}
	h.store.limits.Known.Learn(h.Actions, h.limited)
	h.store.limits.UnparkAgain(ctx, h.store.db, h.parked)
	learned := !maps.Equal(h.limited, h.bounds)
	locked := h.undealt && h.fairCapacity && !h.redeal
	isCrowded := len(h.crowded) > 0
	if isCrowded {
		h.store.limits.Known.Crowd(h.crowded)
	}
	parked := len(h.parked) > 0 || h.passed
	if h.found() || !learned && !h.queued && !locked && !parked && !isCrowded {
		return false, nil
	}
	h.deals = h.deals || isCrowded
	h.redeal = locked
	return true, nil
}

// found reports whether tasks were fetched. Their spans may be known, and they gone by the time
// that they are read.
func (h *fetch) found() bool { return len(h.rows) > 0 || len(h.spans) > 0 || h.taken }

// fetchBehind fetches tasks whose keys have room, behind those whose keys have none.
func (h *fetch) fetchBehind(ctx context.Context, steps func() []pg.Step) error {
	defer func() { h.from = nil }()
	for _, action := range slices.Sorted(maps.Keys(h.bounds)) {
		known := &h.store.limits.Known
		begin := known.Place(action)
		next := &place{action: action, rank: begin}
		begun := time.Now() //nolint:forbidigo // how long
		for looks := 0; next != nil && looks < roomLooksMax; looks++ {
			var found *place
			var err error
			if found, next, err = h.findRoom(ctx, *next); err != nil {
				return err
			}
			if found != nil && begin < 0 {
				known.NotePlace(action, found.rank-1, time.Since(begun))
			}
			h.from, h.scanned = found, scanFirst
			for ; h.from != nil && h.scanned <= scanMax; h.scanned *= 4 {
				if _, err := h.fetchRound(ctx, steps); err != nil || h.found() {
					return err
				}
			}
		}
	}
	return nil
}

// findRoom looks at some tasks behind a place, and returns the place of the first whose key may
// have room, nil if none has, and where to look next, nil if there are no more.
func (h *fetch) findRoom(ctx context.Context, behind place) (found, next *place, err error) {
	err = h.store.db.Run(ctx, pg.Step{
		Name: "find_room", Args: []any{behind.action, behind.rank, behind.hi, roomTasks},
		Read: func(rows pgx.Rows) error {
			var free, rank, hi *int64
			_, err := pgx.ForEachRow(rows, []any{&free, &rank, &hi}, func() error {
				if free != nil {
					found = &place{action: behind.action, rank: *free}
				}
				if rank != nil {
					next = &place{behind.action, *rank, *hi}
				}
				return nil
			})
			return err
		},
	})
	return found, next, err
}

// prepare does what comes ahead of a fetch under limits.
func (h *fetch) prepare(ctx context.Context) error {
	if err := h.settleSpent(ctx); err != nil {
		return err
	}
	return h.unparkForTokens(ctx)
}

// unparkForTokens unparks tasks of keys for which tokens have come. It is a transaction of its
// own, since own_limited locks buckets, too, and whoever locks some twice may deadlock.
func (h *fetch) unparkForTokens(ctx context.Context) error {
	if h.store.db.InTx() {
		return nil
	}
	var rated []string
	for action, kind := range h.store.limits.Known.Of(h.Actions) {
		if kind.Rates {
			rated = append(rated, action)
		}
	}
	if len(rated) == 0 {
		return nil
	}
	return h.store.db.Run(ctx, h.store.limits.UnparkForTokens(rated))
}

// settleSpent settles what tries of actions that count costs have spent beside what these say.
func (h *fetch) settleSpent(ctx context.Context) error {
	if h.store.db.InTx() {
		return nil
	}
	for action, kind := range h.store.limits.Known.Of(h.Actions) {
		if kind.Turns&limit.Costs == 0 {
			continue
		}
		err := h.store.db.Run(ctx, pg.Step{Name: "settle_spent", Args: []any{action}})
		if err != nil {
			return err
		}
	}
	return nil
}

// runSome runs steps, unless enough others do.
func (h *fetch) runSome(ctx context.Context, steps []pg.Step) error {
	for _, action := range slices.Sorted(maps.Keys(h.bounds)) {
		if !h.bounds[action].Locks {
			continue
		}
		turns := h.store.limits.Known.TurnsOf(action)
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if len(h.returns) > 0 && h.verdicts == nil {
		return h.returnFirst(ctx, steps)
	}
	return h.store.db.Run(ctx, steps...)
}

// refuseLimited refuses to fetch tasks with limits in a transaction.
func (h *fetch) refuseLimited() error {
	if len(h.limited) == 0 {
		return nil
	}
	first := slices.Min(slices.Collect(maps.Keys(h.limited)))
	return argumentError("actions", "has "+first+", which has limits: own its tasks outside "+
		"of a transaction, which would hold up all other fetches of the action until it ends")
}

// dueSteps ask what there is to wait for.
func (h *fetch) dueSteps() []pg.Step {
	if len(h.bounds) == 0 {
		return []pg.Step{h.due(h.scan)}
	}
	free, bounded := h.scan.Part(func(action string) bool {
		_, ok := h.bounds[action]
		return ok
	})
	return []pg.Step{h.due(free), {
		Name: "next_limited",
		Args: []any{bounded.Actions, h.MaxTasks, bounded.From, bounded.To},
		Read: h.readLimited,
	}}
}

// readLimited adds what limits make a caller wait for.
func (h *fetch) readLimited(rows pgx.Rows) error {
	var contended bool
	var pause *time.Duration
	_, err := pgx.ForEachRow(rows, []any{&contended, &pause}, func() error {
		h.next.contended = h.next.contended || contended
		if pause != nil && (h.next.pause == nil || *pause < *h.next.pause) {
			h.next.pause = pause
		}
		return nil
	})
	if err != nil {
		return h.cannotRead(err)
	}
	return nil
}
