package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stint-tasks/stint"
)

// overrunAfter is how long after its time-out a handler may return without a warning.
const overrunAfter = time.Second

// A performance is one hand-out of a task, from when it is owned until it is returned or lost.
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
}

// lose tells the handler that its task is lost, unless it has returned the task itself.
func (p *performance) lose(cause error) {
	if !p.task.returned.Load() {
		p.lost.Store(true)
		p.end(cause)
	}
}

// An ending is what a handler returned.
type ending struct {
	result Result
	err    error
	text   string // the text of err
}

// begin begins to perform tasks whose leases last until the time given. Base never ends, so the
// contexts of handlers need not be tied to it, which would cost more than to make them.
func (e *execution) begin(base context.Context, owned []stint.OwnedTask, until time.Time) {
	begun := make([]*performance, len(owned))
	for i := range owned {
		begun[i] = e.newPerformance(base, owned[i], e.actions[owned[i].Action], until)
	}
	e.note(begun, until)
	for _, p := range begun {
		go e.perform(p)
	}
}

func (e *execution) newPerformance(
	base context.Context, owned stint.OwnedTask, of *handling, until time.Time,
) *performance {
	task := &Task{OwnedTask: owned, queue: e.queue, logger: e.logger}
	p := &performance{task: task, of: of, begun: now(), until: until}
	p.ctx, p.end = context.WithCancelCause(base)
	p.ctx, p.span = e.telemetry.begin(p.ctx, &p.of.telemetry, task)
	return p
}

// note notes that performances are under way.
func (e *execution) note(begun []*performance, until time.Time) {
	e.performing.Add(len(begun))
	e.handlers.Add(int64(len(begun)))
	e.hold(begun, until)
}

// perform calls the handler and then settles the task, unless the worker did not wait for that.
func (e *execution) perform(p *performance) {
	ctx, cancel := p.ctx, context.CancelFunc(func() {})
	if p.of.timeout > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, p.of.timeout, ErrTimeout)
		overrun := time.AfterFunc(p.of.timeout+overrunAfter, func() {
			e.log(p, slog.LevelWarn, "handler still runs after its time-out",
				slog.Duration("timeout", p.of.timeout))
		})
		defer overrun.Stop()
	}
	end := ending{err: errExited, text: errExited.Error()}
	defer func() { // also if the handler ends the goroutine
		cause := context.Cause(ctx)
		cancel()
		e.handlers.Add(-1)
		e.settle(p, end, cause)
	}()
	e.log(p, slog.LevelDebug, "task begins")
	end = call(ctx, p.of.handler, p.task)
}

// call calls a handler and turns a panic into an error, also a panic in the Error method of its
// error.
func call(ctx context.Context, handler Handler, task *Task) (end ending) {
	defer func() {
		if value := recover(); value != nil {
			err := &panicError{value, debug.Stack()}
			end = ending{err: err, text: err.Error()}
		}
	}()
	end.result, end.err = handler(ctx, task)
	if end.err != nil {
		end.text = end.err.Error()
	}
	return end
}

// settle returns a task, or lets go of it, after its handler has ended, unless that was done
// before. cause is why the context of the handler ended, if it did.
func (e *execution) settle(p *performance, end ending, cause error) {
	if !p.settled.CompareAndSwap(false, true) {
		return
	}
	p.ending = end
	inTx := p.task.returned.Load()
	switch {
	case inTx && end.err == nil:
		e.conclude(p, OutcomeCompleted)
	case inTx && errors.Is(end.err, errWaited):
		// Nobody can return it while the transaction is open.
		e.conclude(p, OutcomeStopped)
	case !inTx && errors.Is(cause, stint.ErrInvalidToken),
		end.err != nil && errors.Is(cause, ErrLeaseExpired):
		e.log(p, slog.LevelDebug, "task lost", slog.Any("cause", cause))
		e.conclude(p, OutcomeLost)
	case end.err != nil:
		p.ret, p.outcome = p.task.failure(end, cause, p.of.retry)
		e.giveBack(p)
		return
	default:
		p.ret, p.outcome = p.task.completion(end.result), OutcomeCompleted
		e.giveBack(p)
		return
	}
	e.letGo(p)
}

// conclude notes how a performance ended.
func (e *execution) conclude(p *performance, o Outcome) {
	p.outcome = o
	var panicked *panicError
	switch {
	case o == OutcomeLost: // the reason was logged
	case p.ending.err == nil:
		e.log(p, slog.LevelDebug, "task completed")
	case o == OutcomeStopped:
		e.log(p, slog.LevelInfo, "task given back, since the worker stops",
			slog.String("error", logged(p.ending.text)))
	case o == OutcomeSnoozed:
		e.log(p, slog.LevelDebug, "task snoozed", slog.String("error", logged(p.ending.text)))
	case errors.As(p.ending.err, &panicked):
		e.log(p, slog.LevelError, "handler panicked", slog.Any("panic", panicked.value),
			slog.String("stack", string(panicked.stack)))
	default:
		e.log(p, slog.LevelWarn, "handler failed", slog.String("error", logged(p.ending.text)),
			slog.String("outcome", string(o)))
	}
	p.end(nil)
	e.telemetry.end(context.WithoutCancel(p.ctx), &p.of.telemetry, p.span, p.begun, o,
		p.ending.err)
}

// failure returns how to return a task whose handler ended with an error.
func (t *Task) failure(end ending, cause error, retry Retry) (stint.Return, Outcome) {
	ret := stint.Return{
		ID: t.ID, Token: t.Token, Code: stint.StatusPending, Status: end.text, Log: t.log.text(),
	}
	if cause != nil && !errors.Is(end.err, cause) {
		ret.Status = fmt.Sprintf("%v: %s", cause, end.text)
	}
	var abort *abortError
	var snooze *snoozeError
	var later *retryAfterError
	switch {
	case errors.As(end.err, &abort):
		ret.Code = stint.StatusAborted
		return ret, OutcomeAborted
	case errors.As(end.err, &snooze):
		ret.RetryAfter, ret.Release = snooze.pause, true
		return ret, OutcomeSnoozed
	case errors.Is(cause, ErrStopping):
		// Deploys must not use up the tries of a long task; but one try is one try.
		ret.Release = t.MaxTries != 1
		if errors.As(end.err, &later) {
			ret.RetryAfter = later.after
		}
		return ret, OutcomeStopped
	case errors.As(end.err, &later):
		ret.RetryAfter = later.after
	default:
		ret.RetryAfter = retry.pause(t.Try)
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
	attrs = append(attrs, slog.String("task", string(p.task.ID)),
		slog.String("action", p.task.Action), slog.Int("try", p.task.Try))
	// The context may have ended, but the record should have its values all the same.
	ctx := context.WithoutCancel(p.ctx)
	e.logger.LogAttrs(ctx, level, message, attrs...) //nolint:sloglint // callers' constants
}
