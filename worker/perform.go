package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/outage"
)

// overrunAfter is how long after its time-out a handler may return without a warning.
const overrunAfter = time.Second

// A performance is one fetch of a task, from when it is owned until it is returned or lost.
type performance struct {
	task *Task
	of   *handling
	// ctx is the context of the handler without its time-out. It has the span of the performance.
	ctx   context.Context //nolint:containedctx // the performance is the call
	end   context.CancelCauseFunc
	span  trace.Span
	begun time.Time

	// until is when the lease expires; expired says that it has. The mutex of the execution guards
	// both.
	until   time.Time
	expired bool
	lost    atomic.Bool

	// settled says that settle was called; only the goroutine that returns the task or lets go of
	// it uses the fields below.
	settled atomic.Bool
	ending  ending
	outcome Outcome
	ret     stint.Return
	// unsure says that an attempt to return the task got no answer, so it may have returned it.
	unsure bool
}

// lose tells the handler that its task is lost, unless it has returned the task itself.
func (p *performance) lose(cause error) {
	if !p.task.returned.Load() {
		p.lost.Store(true)
		p.end(cause)
	}
}

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
	overrun := time.AfterFunc(timeout+overrunAfter, func() {
		e.count(p, slog.LevelWarn, "handler still runs after its time-out",
			slog.Duration("timeout", timeout))
	})
	overdue := time.AfterFunc(timeout+p.of.grace, func() { e.giveUpOverdue(p) })
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
		overrun.Reset(timeout + overrunAfter)
		overdue.Reset(timeout + p.of.grace)
	}
	return p.ctx, func() {
		passed.Stop()
		stop()
	}
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

// unwaited is the ending of a performance whose handler nobody waits for any more because of err,
// unless the handler has said how the task has ended.
func (p *performance) unwaited(err, cause error) ending {
	if t := p.task.inBatch.Load(); t != nil {
		if said, ok := t.ending(); ok {
			return said
		}
	}
	return ended(endedUnwaited, err, cause)
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

// conclude notes how a performance ended.
func (e *execution) conclude(p *performance, o Outcome) {
	p.outcome = o
	switch {
	case o == OutcomeLost, o == OutcomeOverdue: // the reason was logged
	case p.ending.kind == endedWell:
		e.log(p, slog.LevelDebug, "task completed")
	case o == OutcomeStopped:
		e.log(p, slog.LevelInfo, "task given back, since the worker stops",
			slog.String("error", logged(p.ending.text)))
	case o == OutcomeSnoozed:
		e.log(p, slog.LevelDebug, "task snoozed", slog.String("error", logged(p.ending.text)))
	case p.ending.kind == endedPanic:
		e.count(p, slog.LevelError, "handler panicked",
			slog.String("panic", logged(p.ending.panicked)), slog.String("stack", p.ending.stack))
	default:
		e.count(p, slog.LevelWarn, "handler failed", slog.String("error", logged(p.ending.text)),
			slog.String("outcome", string(o)))
	}
	p.end(nil)
}

// finish tells of performances that were concluded, and lets go of them.
func (e *execution) finish(over ...*performance) {
	e.telemetry.end(over)
	e.letGo(over...)
}

// failure returns how to return a task whose handler ended with an error.
func (t *Task) failure(end *ending, retry Retry) (stint.Return, Outcome) {
	ret := stint.Return{
		ID: t.ID, Token: t.Token, Code: stint.StatusPending, Status: end.text, Log: t.log.text(),
	}
	if end.cause != nil && !end.ofCause {
		ret.Status = fmt.Sprintf("%v: %s", end.cause, end.text)
	}
	switch {
	case end.kind == endedAbort:
		ret.Code = stint.StatusAborted
		return ret, OutcomeAborted
	case end.kind == endedSnooze:
		ret.RetryAfter, ret.Release = end.pause, true
		return ret, OutcomeSnoozed
	case errors.Is(end.cause, ErrStopping):
		// Deploys must not use up the tries of a long task; but one try is one try.
		ret.Release = t.MaxTries != 1
		ret.RetryAfter = end.pause
		return ret, OutcomeStopped
	case end.kind == endedRetryAfter:
		ret.RetryAfter = end.pause
	default:
		ret.RetryAfter = retry.pause(t.Try)
	}
	if end.kind == endedUnwaited {
		return ret, OutcomeOverdue
	}
	if t.MaxTries > 0 && t.Try >= t.MaxTries {
		return ret, OutcomeAborted // by the store
	}
	return ret, OutcomeRetried
}

// loggedBytesMax is how much of the text of an error is logged. The status of the task has more.
const loggedBytesMax = 2 << 10

// logged cuts the text of an error that would flood a log, such as the output of a program.
func logged(text string) string {
	if len(text) <= loggedBytesMax {
		return text
	}
	begun := strings.ToValidUTF8(text[:loggedBytesMax], "")
	return fmt.Sprintf("%s... (%d bytes)", begun, len(text))
}

// log logs a record about a task.
func (e *execution) log(p *performance, level slog.Level, message string, attrs ...slog.Attr) {
	if !e.logger.Enabled(p.ctx, level) {
		return
	}
	// The context may have ended, but the record should have its values all the same.
	ctx := context.WithoutCancel(p.ctx)
	//nolint:sloglint // callers' constants
	e.logger.LogAttrs(ctx, level, message, append(attrs, p.task.attrs()...)...)
}

// count logs that a performance failed: at once if it is the first of its kind and its action for a
// minute, else with the others at the end of the minute.
func (e *execution) count(p *performance, level slog.Level, message string, attrs ...slog.Attr) {
	e.failures.Failed(context.WithoutCancel(p.ctx),
		outage.Kind{What: message, Level: level, Of: p.task.Action},
		append(attrs, p.task.attrs()...)...)
}

// attrs are what the records about a task have in common.
func (t *Task) attrs() []slog.Attr {
	return []slog.Attr{
		slog.String("task", string(t.ID)), slog.String("action", t.Action), slog.Int("try", t.Try),
	}
}
