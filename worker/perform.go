package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/stint-tasks/stint"
)

// A performance is one hand-out of a task, from when it is owned until it is returned or lost.
type performance struct {
	task *Task
	// end ends the context of the handler.
	end context.CancelCauseFunc
	// expiry goes off when the lease expires, and closes expired.
	expiry  *time.Timer
	expired chan struct{}
	lost    atomic.Bool
}

// lose tells the handler that its task is lost, unless it has returned the task itself.
func (p *performance) lose(cause error) {
	if !p.task.returned.Load() {
		p.lost.Store(true)
		p.end(cause)
	}
}

// An ending is what came of a handler.
type ending struct {
	result Result
	err    error
	text   string // that of err
}

// begin begins to perform a task whose lease lasts until then.
func (r *run) begin(base context.Context, owned stint.OwnedTask, until time.Time) {
	ctx, end := context.WithCancelCause(base)
	p := &performance{
		task: &Task{OwnedTask: owned, store: r.store}, end: end, expired: make(chan struct{}),
	}
	p.expiry = time.AfterFunc(until.Sub(now()), func() {
		close(p.expired)
		p.lose(ErrLeaseExpired)
	})
	r.mutex.Lock()
	r.held[p] = true
	r.mutex.Unlock()
	r.performing.Go(func() {
		defer func() {
			r.mutex.Lock()
			delete(r.held, p)
			r.mutex.Unlock()
			p.expiry.Stop()
			end(nil)
			r.freed <- owned.Action
		}()
		r.perform(ctx, p)
	})
}

// perform calls the handler, in a context that ends with ctx, and returns the task.
func (r *run) perform(ctx context.Context, p *performance) {
	h := r.actions[p.task.Action]
	ctx, ended := r.telemetry.begin(ctx, p.task)
	r.log(ctx, p, slog.LevelDebug, "task begins")

	owning, leave := r.store.OwnershipContext(ctx, p.task.OwnedTask)
	ignore := context.AfterFunc(owning, func() { p.lose(context.Cause(owning)) })
	inHandler, cancel := ctx, context.CancelFunc(func() {})
	if h.timeout > 0 {
		inHandler, cancel = context.WithTimeoutCause(ctx, h.timeout, ErrTimeout)
	}
	end := r.handle(inHandler, h.handler, p.task)
	cause := context.Cause(inHandler)
	cancel()
	ignore()
	leave()
	o := r.settle(context.WithoutCancel(ctx), p, end, cause)
	ended(o, end.err)
}

// handle calls a handler and waits until it returns, or until the worker waits no longer.
func (r *run) handle(ctx context.Context, handler Handler, task *Task) ending {
	done := make(chan ending, 1)
	r.handlers.Add(1)
	go func() {
		end := ending{err: errExited, text: errExited.Error()}
		defer func() {
			r.handlers.Add(-1)
			done <- end
		}()
		end = call(ctx, handler, task)
	}()
	select {
	case end := <-done:
		return end
	case <-r.stopped:
	}
	select {
	case end := <-done:
		return end
	default:
		return ending{err: errWaited, text: errWaited.Error()}
	}
}

// call calls a handler and makes a panic an error, also one in the text of its error.
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

// settle does with a task what its handler's end demands. cause is why the context of the handler
// ended, if it did.
func (r *run) settle(ctx context.Context, p *performance, end ending, cause error) outcome {
	inTx := p.task.returned.Load()
	switch {
	case inTx && end.err == nil:
		return r.report(ctx, p, end, outcomeCompleted)
	case inTx && errors.Is(end.err, errWaited):
		// Nobody can return it while the transaction is open.
		return r.report(ctx, p, end, outcomeStopped)
	case !inTx && errors.Is(cause, stint.ErrInvalidToken),
		end.err != nil && errors.Is(cause, ErrLeaseExpired):
		r.log(ctx, p, slog.LevelDebug, "task lost", slog.Any("cause", cause))
		return outcomeLost
	}
	ret, o := p.task.completion(end.result), outcomeCompleted
	if end.err != nil {
		ret, o = p.task.failure(end, cause, r.actions[p.task.Action].retry)
	}
	err := r.giveBack(ctx, p, ret)
	if errors.Is(err, stint.ErrInvalidArgument) { // the result is too large, what else
		end = ending{err: Abort(err), text: err.Error()}
		ret, o = p.task.failure(end, nil, Retry{})
		err = r.giveBack(ctx, p, ret)
	}
	switch {
	case err == nil:
		return r.report(ctx, p, end, o)
	case errors.Is(err, stint.ErrInvalidToken) && inTx:
		// The commit that the handler took for failed has gone through.
		return r.report(ctx, p, end, outcomeCompleted)
	case errors.Is(err, stint.ErrInvalidToken):
		r.log(ctx, p, slog.LevelDebug, "task lost", slog.Any("cause", err))
	default:
		r.log(ctx, p, slog.LevelError, "could not return task", slog.Any("error", err))
	}
	return outcomeLost
}

// report logs how a performance ended.
func (r *run) report(ctx context.Context, p *performance, end ending, o outcome) outcome {
	var panicked *panicError
	switch {
	case end.err == nil:
		r.log(ctx, p, slog.LevelDebug, "task completed")
	case errors.As(end.err, &panicked):
		r.log(ctx, p, slog.LevelError, "handler panicked", slog.Any("panic", panicked.value),
			slog.String("stack", string(panicked.stack)))
	default:
		r.log(ctx, p, slog.LevelWarn, "handler failed", slog.String("error", end.text),
			slog.String("outcome", string(o)))
	}
	return o
}

// failure is how a task is returned whose handler ended with an error.
func (t *Task) failure(end ending, cause error, retry Retry) (stint.Return, outcome) {
	ret := stint.Return{ID: t.ID, Token: t.Token, Code: stint.StatusPending, Status: end.text}
	if cause != nil && !errors.Is(end.err, cause) {
		ret.Status = fmt.Sprintf("%v: %s", cause, end.text)
	}
	var abort *abortError
	var later *retryAfterError
	switch {
	case errors.As(end.err, &abort):
		ret.Code = stint.StatusAborted
		return ret, outcomeAborted
	case errors.As(end.err, &later):
		ret.RetryAfter = later.after
	case errors.Is(cause, ErrStopping):
		return ret, outcomeStopped
	default:
		ret.RetryAfter = retry.pause(t.Try)
	}
	return ret, outcomeRetried
}

// giveBack returns a task, again and again until the store has accepted or refused it, or it is too
// late.
func (r *run) giveBack(ctx context.Context, p *performance, ret stint.Return) error {
	for try := 1; ; try++ {
		attempt, cancel := context.WithTimeout(ctx, attemptMax)
		err := returnOne(attempt, r.store, ret)
		cancel()
		switch {
		case err == nil, errors.Is(err, stint.ErrAlreadyReturned):
			return nil
		case errors.Is(err, stint.ErrInvalidToken), hopeless(err):
			return err
		}
		pause := time.NewTimer(reconnect().pause(try))
		select {
		case <-pause.C:
			continue
		case <-p.expired:
		case <-r.stopped:
		}
		pause.Stop()
		return err
	}
}

// log logs a record about a task.
func (r *run) log(
	ctx context.Context, p *performance, level slog.Level, message string, attrs ...slog.Attr,
) {
	if !r.logger.Enabled(ctx, level) {
		return
	}
	attrs = append(attrs, slog.String("task", string(p.task.ID)),
		slog.String("action", p.task.Action), slog.Int("try", p.task.Try))
	r.logger.LogAttrs(ctx, level, message, attrs...) //nolint:sloglint // callers' constants
}
