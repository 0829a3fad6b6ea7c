package stint

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

// A limitKind says which limits an action has besides those of the whole action: whether its keys
// have limits or some are paused, whether their limits include a rate, and whether they have turns;
// and whether there is one hand-out at a time.
type limitKind struct{ keyed, rates, fair, locks bool }

// limitedActions are the actions of which a store knows that they have limits, and which. It is
// only a hint: if an action has limits, own_tasks hands out nothing, and own_gated nothing if keys
// have limits; own_limited also hands out what has none. All say which actions have limits.
type limitedActions struct {
	mutex sync.Mutex
	kinds map[string]limitKind // under mutex
	// atOnce bounds, for each action with one hand-out at a time, those that run or wait for the
	// lock. More would only wait in the database, each with a connection and a snapshot, which
	// keeps rows in the way that others have deleted.
	atOnce map[string]chan struct{} // under mutex
}

// turnsOf returns what bounds the hand-outs of an action.
func (l *limitedActions) turnsOf(action string) chan struct{} {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	turns, ok := l.atOnce[action]
	if !ok {
		if l.atOnce == nil || len(l.atOnce) > actionsMax {
			l.atOnce = map[string]chan struct{}{}
		}
		const running, waiting = 1, 1
		turns = make(chan struct{}, running+waiting)
		l.atOnce[action] = turns
	}
	return turns
}

// known are those of the actions that are known to have limits.
func (l *limitedActions) known(actions []string) map[string]limitKind {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.kinds) == 0 {
		return nil
	}
	known := map[string]limitKind{}
	for _, action := range actions {
		if kind, ok := l.kinds[action]; ok {
			known[action] = kind
		}
	}
	return known
}

// any reports whether some action is known to have limits. Then tasks may be returned that were
// handed out before it had.
func (l *limitedActions) any() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return len(l.kinds) > 0
}

// unkeyed reports whether limits are known, and none of keys.
func (l *limitedActions) unkeyed() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, kind := range l.kinds {
		if kind.keyed {
			return false
		}
	}
	return len(l.kinds) > 0
}

// learn takes note of those of the actions that have limits.
func (l *limitedActions) learn(actions []string, limited map[string]limitKind) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.kinds) == 0 && len(limited) == 0 {
		return
	}
	if l.kinds == nil || len(l.kinds) > actionsMax {
		l.kinds = map[string]limitKind{}
	}
	for _, action := range actions {
		delete(l.kinds, action)
	}
	maps.Copy(l.kinds, limited)
}

const (
	// How many tasks own_limited looks at after one that found only tasks to park: first, and at
	// most.
	lookFirst = 64
	lookMost  = 1024
)

// underLimits is the part of a handOut that own_gated and own_limited are asked for.
type underLimits struct {
	// bounds are the actions that were known to have limits, limited those that do.
	bounds, limited map[string]limitKind
	// spans were handed out. Their tasks are read behind the commit, in this order.
	spans []takenSpan
	// Of these keys, tasks had to be parked.
	parked []parkedKey
	// queued says that tasks were put into the queues of their keys.
	queued bool
	// leftOver says that tasks of fair actions are left whose turn has come, hasRoom that such an
	// action had room, and dealsAnew that turns are dealt as if none were left: others lock them.
	leftOver, hasRoom, dealsAnew bool
	// lookAt is how many tasks own_limited looks at; 0: no more than the caller wants.
	lookAt int
}

// A takenSpan is a span that was handed out: tasks that were next to each other in the queue.
type takenSpan struct {
	span
	rank    int64
	floor   *int64
	signals bool // other tasks wait for one of them
}

// A parkedKey is a key of which tasks were parked, since there is no room for more of them.
type parkedKey struct{ action, key string }

// handOutSteps hand out the tasks that are first in the queues.
func (h *handOut) handOutSteps() []pg.Step {
	h.bounds = nil
	if !h.store.db.InTx() {
		h.bounds = h.store.limited.known(h.actions)
	}
	if len(h.bounds) == 0 {
		return []pg.Step{h.own()}
	}
	var all limitKind
	for _, kind := range h.bounds {
		all.keyed, all.rates = all.keyed || kind.keyed, all.rates || kind.rates
		all.fair = all.fair || kind.fair
	}
	// The lock comes first: two that deal turns at once would do the same work, half of it in vain.
	steps := []pg.Step{{Name: "lock_limits", Args: []any{h.actions}}}
	if all.fair {
		steps = append(steps,
			pg.Step{
				Name: "queue_turns", Args: []any{h.actions},
				Count: func(n int64) { h.queued = n > 0 },
			},
			pg.Step{
				Name: "deal_turns", Args: []any{h.actions, h.maxTasks, h.dealsAnew},
				Read: h.readDealt,
			})
	}
	own := pg.Step{Name: "own_gated", Read: h.readSpans, Args: []any{
		int64(h.claim), string(h.actor), h.maxTasks, h.scan.Actions, interval(h.lease),
		h.sessionID(), h.scan.From, h.scan.To, h.chosen.isSet(), all.fair,
	}}
	if all.keyed {
		own.Name, own.Args = "own_limited", append(own.Args, h.lookAt)
	}
	return append(steps, own,
		h.claimedBehind())
}

// readSpans reads the spans that were handed out, the keys of which tasks were parked, and the
// actions that have limits.
func (h *handOut) readSpans(rows pgx.Rows) error {
	h.spans = h.spans[:0]
	var one takenSpan
	var signals, fair, rates, keyed, locks, hasRoom *bool
	var parked, action string
	_, err := pgx.ForEachRow(rows, []any{
		&one.lo, &one.hi, &one.rank, &one.floor, &signals, &parked, &action, &fair, &rates, &keyed,
		&locks, &hasRoom,
	}, func() error {
		switch {
		case signals != nil:
			one.signals = *signals
			h.spans = append(h.spans, one)
		case parked != "":
			h.parked = append(h.parked, parkedKey{action, parked})
		default:
			h.limited[action] = limitKind{*keyed, *rates, *fair, *locks}
			h.hasRoom = h.hasRoom || *fair && *hasRoom
		}
		return nil
	})
	slices.SortFunc(h.spans, func(a, b takenSpan) int { return cmp.Compare(a.lo, b.lo) })
	if err != nil {
		return h.cannotRead(err)
	}
	return nil
}

// spanOf returns the span of a task that own_gated or own_limited handed out, or nil.
func (h *handOut) spanOf(key int64) *takenSpan {
	i, _ := slices.BinarySearchFunc(h.spans, key, func(of takenSpan, key int64) int {
		return cmp.Compare(of.hi, key)
	})
	if i == len(h.spans) || h.spans[i].lo > key {
		return nil
	}
	return &h.spans[i]
}

// readDealt reads the keys of fair actions of which no task can be handed out, and whether tasks
// whose turn has come are left from before.
func (h *handOut) readDealt(rows pgx.Rows) error {
	var action string
	var key *string
	_, err := pgx.ForEachRow(rows, []any{&action, &key}, func() error {
		if key == nil {
			h.leftOver = true
		} else {
			h.parked = append(h.parked, parkedKey{action, *key})
		}
		return nil
	})
	return err
}

// handOutUnder runs the steps of a hand-out, and runs them again as long as they find no task but
// learn something: that some of the actions have limits, or that tasks at the head of a queue must
// wait for room below the limit of their key.
func (h *handOut) handOutUnder(ctx context.Context, steps func() []pg.Step) error {
	h.lookAt, h.dealsAnew = 0, false
	const vainMax = 1000 // so often, a thousand tasks each, before others have a turn
	for range vainMax {
		h.limited, h.spans, h.parked, h.queued = map[string]limitKind{}, nil, nil, false
		h.leftOver, h.hasRoom = false, false
		if err := h.wakeKeys(ctx); err != nil {
			return err
		}
		if err := h.runSome(ctx, steps()); err != nil {
			return err
		}
		if h.store.db.InTx() {
			return h.refuseLimited()
		}
		h.store.limited.learn(h.actions, h.limited)
		h.store.lookAgain(ctx, h.parked)
		learned := !maps.Equal(h.limited, h.bounds)
		// Spans may have been handed out whose tasks are gone by the time that they are read.
		found := len(h.rows) > 0 || len(h.spans) > 0 || h.taken
		locked := h.leftOver && h.hasRoom && !h.dealsAnew
		if found || !learned && !h.queued && !locked && len(h.parked) == 0 {
			return nil
		}
		h.dealsAnew = locked
		if len(h.parked) > 0 { // where tasks had to be parked, there may be many
			h.lookAt = min(max(lookFirst, 4*h.lookAt), lookMost)
		}
	}
	return nil
}

// wakeKeys brings back parked tasks of keys for which tokens have come. It is a transaction of its
// own, since own_limited locks buckets, too, and whoever locks some twice may deadlock.
func (h *handOut) wakeKeys(ctx context.Context) error {
	if h.store.db.InTx() {
		return nil
	}
	var rated []string
	for action, kind := range h.store.limited.known(h.actions) {
		if kind.rates {
			rated = append(rated, action)
		}
	}
	if len(rated) == 0 {
		return nil
	}
	return h.store.db.Run(ctx, wakeKeys(rated, &pg.Notices{}))
}

// runSome runs steps, unless enough others do.
func (h *handOut) runSome(ctx context.Context, steps []pg.Step) error {
	for _, action := range slices.Sorted(maps.Keys(h.bounds)) {
		if !h.bounds[action].locks {
			continue
		}
		turns := h.store.limited.turnsOf(action)
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return h.store.db.Run(ctx, steps...)
}

// refuseLimited refuses to hand out tasks with limits in a transaction.
func (h *handOut) refuseLimited() error {
	if len(h.limited) == 0 {
		return nil
	}
	first := slices.Min(slices.Collect(maps.Keys(h.limited)))
	return argumentError("actions", "has "+first+", which has limits: own its tasks outside "+
		"of a transaction, which would hold up all other hand-outs of the action until it ends")
}

// dueSteps ask what there is to wait for.
func (h *handOut) dueSteps() []pg.Step {
	if len(h.bounds) == 0 {
		return []pg.Step{h.due(h.scan)}
	}
	free, bounded := h.scan.Part(func(action string) bool {
		_, ok := h.bounds[action]
		return ok
	})
	return []pg.Step{h.due(free), {
		Name: "next_limited",
		Args: []any{bounded.Actions, h.maxTasks, bounded.From, bounded.To},
		Read: h.readLimited,
	}}
}

// readLimited adds what limits make a caller wait for.
func (h *handOut) readLimited(rows pgx.Rows) error {
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

// lookAgain brings back tasks that were just parked if there is room for them by now: somebody may
// have made room who did not see them yet. If that fails, the maintainers do it.
func (s *Store) lookAgain(ctx context.Context, parked []parkedKey) {
	if len(parked) == 0 {
		return
	}
	s.lookLater(parked)
	pending := &pg.Notices{}
	err := s.db.Run(context.WithoutCancel(ctx), fillRoom(parked, pending))
	if !pg.Failed(ctx, s.logs.parked, err) {
		s.db.Notify(ctx, pending)
	}
}
