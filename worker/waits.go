package worker

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/callctx"
	"github.com/stint-tasks/stint/internal/outage"
)

const (
	// waitsAfter is how long a handler may wait before the worker looks whether it waits for
	// a slot, and how long the next look is away.
	waitsAfter = 10 * time.Second
	// waitsAskedMax is how many tasks a look asks about.
	waitsAskedMax = 20
	// waitsNamedMax is how many of the tasks that a handler waits for a record names, and
	// waitsNamedBytesMax how much of their IDs.
	waitsNamedMax, waitsNamedBytesMax = 5, 1 << 10
)

// watchWaits returns a context whose waits for tasks are those of the handler of p.
func (e *execution) watchWaits(ctx context.Context, p *performance) context.Context {
	return callctx.WithWatch(ctx, func(source any, ids []string) func() {
		of, ok := source.(explainer)
		if !ok {
			return func() {}
		}
		w, call := &e.waits, &handlerWait{p: p, source: of, ids: ids, since: now()}
		w.mutex.Lock()
		defer w.mutex.Unlock()
		if len(w.calls) == 0 {
			w.calls = map[*handlerWait]bool{}
			w.timer = time.AfterFunc(waitsAfter, e.lookAtWaits)
		}
		w.calls[call] = true
		return func() {
			w.mutex.Lock()
			defer w.mutex.Unlock()
			if delete(w.calls, call); len(w.calls) == 0 {
				w.timer.Stop()
			}
		}
	})
}

// lookAtWaits warns if a handler waits for a task that gets no slot, since all that it could have
// are taken by handlers that wait. It comes again as long as handlers wait.
func (e *execution) lookAtWaits() {
	w := &e.waits
	w.mutex.Lock()
	timer := w.timer
	w.mutex.Unlock()
	next := waitsAfter
	if e.warnOfWaits() {
		next = outage.Every
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if len(w.calls) > 0 && w.timer == timer {
		timer.Reset(next)
	}
}

// warnOfWaits reports whether it has warned.
func (e *execution) warnOfWaits() bool {
	calls, waiting := e.waitCalls()
	if !waiting.fill(e) {
		return false
	}
	// Those of a look are chosen anew each time.
	//nolint:gosec // spreads the looks, hides nothing
	rand.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
	look := waitLook{e: e, waiting: waiting, seen: map[stint.TaskID]bool{}}
	for _, call := range calls {
		for _, i := range rand.Perm(len(call.ids)) { //nolint:gosec // as above
			if stuck, ok := look.withoutSlot(call, stint.TaskID(call.ids[i])); ok {
				e.warnOfWait(call, stuck, waiting)
				return true
			}
		}
	}
	return false
}

// slotsWaiting are how many slots are taken by handlers that wait, by action, and whose these are.
type slotsWaiting struct {
	of    map[string]int
	tasks map[stint.TaskID]bool
}

func (s slotsWaiting) all() int { return len(s.tasks) }

// without reports whether no task of the action can begin before a handler that waits has ended.
func (s slotsWaiting) without(e *execution, action string) bool {
	of := e.actions[action]
	return of != nil &&
		(s.all() >= e.waits.slots || of.concurrency > 0 && s.of[action] >= of.concurrency)
}

// fill reports whether that holds for any action.
func (s slotsWaiting) fill(e *execution) bool {
	for action := range s.of {
		if s.without(e, action) {
			return true
		}
	}
	return false
}

// waitCalls returns the calls that have waited for long, and the slots of all that wait.
func (e *execution) waitCalls() ([]*handlerWait, slotsWaiting) {
	held := map[*performance]bool{}
	for _, p := range e.performances() {
		held[p] = true
	}
	w := &e.waits
	w.mutex.Lock()
	defer w.mutex.Unlock()
	var long []*handlerWait
	waiting := slotsWaiting{map[string]int{}, map[stint.TaskID]bool{}}
	for call := range w.calls {
		if now().Sub(call.since) >= waitsAfter {
			long = append(long, call)
		}
		if held[call.p] { // else it has let go of its slot; each has one, however many calls
			delete(held, call.p)
			waiting.of[call.p.task.Action]++
			waiting.tasks[call.p.task.ID] = true
		}
	}
	return long, waiting
}

// A waitLook looks for what holds handlers up.
type waitLook struct {
	e       *execution
	waiting slotsWaiting
	seen    map[stint.TaskID]bool
	asked   int
}

// withoutSlot returns the task that holds a handler's wait for a task up, if it is ready and has no
// slot: the task itself, or one that it waits for, through all that are blocked in between.
func (l *waitLook) withoutSlot(
	call *handlerWait, id stint.TaskID,
) (stuck stint.TaskInfo, ok bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(call.p.ctx), attemptMax)
	defer cancel()
	for ahead := []stint.TaskID{id}; len(ahead) > 0; ahead = ahead[1:] {
		if l.seen[ahead[0]] {
			continue
		}
		if l.asked++; l.asked > waitsAskedMax {
			return stuck, false
		}
		l.seen[ahead[0]] = true
		why, err := call.source.Explain(ctx, ahead[0])
		if err != nil {
			continue // it may be gone, or the server away, which others say
		}
		switch task := why.Task; task.State {
		case stint.StateReady:
			if l.waiting.without(l.e, task.Action) && !l.isHeld(&why) {
				return task, true
			}
		case stint.StateBlocked:
			for _, before := range why.WaitsFor {
				if before.State == stint.StateBlocked || before.State == stint.StateReady &&
					l.waiting.without(l.e, before.Action) {
					ahead = append(ahead, before.ID)
				}
			}
		default: // others have it, or its time has not come
		}
	}
	return stuck, false
}

// isHeld reports whether a pause or a limit would keep a ready task from beginning in a free slot.
// A limit that handlers that wait have taken counts as slots do.
func (l *waitLook) isHeld(why *stint.Explanation) bool {
	by := why.Limits
	if by == nil {
		return false
	}
	others := func(owned []stint.TaskInfo) bool {
		return slices.ContainsFunc(owned, func(t stint.TaskInfo) bool {
			return !l.waiting.tasks[t.ID]
		})
	}
	limits := by.Limits
	return !by.PausedSince.IsZero() || !by.KeyPausedSince.IsZero() ||
		by.NextAt.After(why.Now) || by.KeyNextAt.After(why.Now) ||
		limits.Concurrency > 0 && by.InProgress >= limits.Concurrency && others(by.Owned) ||
		limits.ConcurrencyPerKey > 0 && by.KeyInProgress >= limits.ConcurrencyPerKey &&
			others(by.KeyOwned) ||
		limits.Ordered && others(by.KeyOwned)
}

func (e *execution) warnOfWait(call *handlerWait, stuck stint.TaskInfo, waiting slotsWaiting) {
	named := strings.Join(call.ids[:min(len(call.ids), waitsNamedMax)], " ")
	named = strings.ToValidUTF8(named[:min(len(named), waitsNamedBytesMax)], "")
	e.count(call.p, slog.LevelWarn, "handlers that wait for other tasks have taken all slots, and "+
		"a task that they wait for has none: let a task that comes after it (stint.Task.After) go "+
		"on instead of waiting, give its action slots of its own (another worker), or more slots",
		slog.String("waits_for", named), slog.Int("waits_for_tasks", len(call.ids)),
		slog.String("without_slot", string(stuck.ID)),
		slog.String("without_slot_action", stuck.Action),
		slog.Int("waiting", waiting.all()), slog.Int("slots", e.waits.slots))
}
