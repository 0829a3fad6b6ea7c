package worker

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/stint-tasks/stint"
)

// overrunAfter is how long after its time-out a handler may return without a warning.
const overrunAfter = time.Second

// begin begins to perform tasks whose leases last until the time given. Base never ends, so the
// contexts of handlers need not be tied to it, which would cost more than to make them.
func (e *execution) begin(base context.Context, owned []stint.OwnedTask, until time.Time) {
	begun := e.newPerformances(base, owned, until)
	e.note(begun, until)
	for _, p := range begun {
		go e.perform(p)
	}
}

func (e *execution) newPerformances(
	base context.Context, owned []stint.OwnedTask, until time.Time,
) []*performance {
	begun := make([]*performance, len(owned))
	for i := range owned {
		task := &Task{
			OwnedTask: owned[i], queue: e.queue, logger: e.logger, telemetry: e.telemetry,
		}
		p := &performance{
			task: task, of: e.actions[owned[i].Action], begun: now(), until: until,
		}
		p.ctx, p.end = context.WithCancelCause(e.watchWaits(base, p))
		begun[i] = p
	}
	e.telemetry.begin(begun)
	return begun
}

// note notes that performances are under way.
func (e *execution) note(begun []*performance, until time.Time) {
	e.performing.Add(len(begun))
	e.handlers.Add(int64(len(begun)))
	e.hold(begun, until)
}

// perform calls the handler and then settles the task, unless the worker did not wait for that.
func (e *execution) perform(p *performance) {
	ctx, cancel := e.limitTime(p)
	var end ending
	exited := true
	defer func() { // also if the handler ends the goroutine
		if exited {
			end = ended(endedFailed, errExited, context.Cause(ctx))
		}
		cancel()
		e.handlers.Add(-1)
		e.ended.free(p)
		if !e.settle(p, end) {
			wakeUp(e.ended.changed) // for the slot alone
		}
	}()
	e.log(p, slog.LevelDebug, "task begins")
	end = call(ctx, p.of.handler, p.task)
	exited = false
}

// limitTime returns the context of a handler, which ends when its time-out passes. The task of a
// handler that does not return then is overdue.
func (e *execution) limitTime(p *performance) (ctx context.Context, cancel func()) {
	timeout := p.of.timeout
	if timeout == 0 {
		return p.ctx, func() {}
	}
	overrun := time.AfterFunc(after(timeout, overrunAfter), func() {
		e.count(p, slog.LevelWarn, "handler still runs after its time-out",
			slog.Duration("timeout", timeout))
	})
	overdue := time.AfterFunc(after(timeout, p.of.grace), func() { e.giveUpOverdue(p) })
	stop := func() {
		overrun.Stop()
		overdue.Stop()
	}
	if p.of.gatherer == nil {
		ctx, cancel := context.WithTimeoutCause(p.ctx, timeout, ErrTimeout)
		return ctx, func() {
			stop()
			cancel()
		}
	}
	// The call of a batch begins later.
	passed := time.AfterFunc(timeout, func() { p.end(ErrTimeout) })
	passed.Stop()
	stop()
	p.task.callBegins = func() {
		passed.Reset(timeout)
		overrun.Reset(after(timeout, overrunAfter))
		overdue.Reset(after(timeout, p.of.grace))
	}
	return p.ctx, func() {
		passed.Stop()
		stop()
	}
}

// after is the end of one time behind another, or the longest time that there is.
func after(first, then time.Duration) time.Duration {
	if first > math.MaxInt64-then {
		return math.MaxInt64
	}
	return first + then
}

// giveUpOverdue gives back a task whose handler has not returned within the grace of its time-out.
// If the handler has returned the task in a transaction, only that can tell what becomes of it, and
// the lease is left to expire.
func (e *execution) giveUpOverdue(p *performance) {
	end := p.unwaited(errOverdue, ErrTimeout)
	if end.kind == endedUnwaited {
		e.count(p, slog.LevelError, "task is overdue: its handler did not return within the grace "+
			"of its time-out", slog.Duration("timeout", p.of.timeout),
			slog.Duration("grace", p.of.grace))
	}
	if p.task.returned.Load() {
		p.lost.Store(true)
		return
	}
	e.settle(p, end)
}

// settle returns a task, or lets go of it, after its handler has ended or nobody waits for it any
// more, and reports whether that was not done before.
func (e *execution) settle(p *performance, end ending) bool {
	if !p.settled.CompareAndSwap(false, true) {
		return false
	}
	p.ending = end
	e.ended.settled()
	inTx, well := p.task.returned.Load(), end.kind == endedWell
	switch {
	case inTx && well:
		e.conclude(p, OutcomeCompleted)
	case inTx && end.kind == endedUnwaited:
		// Nobody can return it while the transaction is open.
		e.conclude(p, OutcomeStopped)
	case !inTx && errors.Is(end.cause, stint.ErrInvalidToken),
		!well && errors.Is(end.cause, ErrLeaseExpired):
		e.log(p, slog.LevelDebug, "task lost", slog.Any("cause", end.cause))
		e.conclude(p, OutcomeLost)
	case !well:
		p.ret, p.outcome = p.task.failure(&end, p.of.retry)
		e.giveBack(p)
		return true
	default:
		p.ret, p.outcome = p.task.completion(end.result), OutcomeCompleted
		e.giveBack(p)
		return true
	}
	e.finish(p)
	return true
}
