package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// A Registration is a handler for the tasks with an action, for [New].
type Registration struct {
	action  string
	handler Handler
	options []HandlerOption
}

// Handle makes a worker perform the tasks with an action by calling handler. [New] checks the
// arguments.
func Handle(action string, handler Handler, options ...HandlerOption) Registration {
	return Registration{action, handler, options}
}

// HandleJSON is [Handle] for a handler whose parameters and result are JSON. The action is a
// [Action], which makes the tasks as well, or a constant string.
//
// A body that is not the JSON of a P is a failure as others are, and the handler is not called:
// another worker may be able to decode it, as in a deploy in which old workers meet the tasks of
// new producers. The status says why. [WithAbortOfUndecodable] aborts the task at once. A result
// that cannot be encoded aborts the task. The encoded result becomes the result of the task; a
// handler without a result has struct{} for R. A handler that calls [Task.ReturnIn] passes the
// result there, and the value that it returns is ignored.
func HandleJSON[P, R any](
	action Action[P, R],
	handler func(ctx context.Context, task *Task, params P) (R, error), options ...HandlerOption,
) Registration {
	if handler == nil {
		return Handle(string(action), nil, options...)
	}
	return Handle(string(action), func(ctx context.Context, task *Task) (Result, error) {
		params, err := action.Params(task.Body)
		if err != nil {
			return Result{}, &undecodableError{err}
		}
		value, err := handler(ctx, task, params)
		if err != nil || task.returned.Load() {
			return Result{}, err
		}
		encoded, err := json.Marshal(value)
		if err != nil {
			return Result{}, Abort(fmt.Errorf("encode result: %w", err))
		}
		return Result{Bytes: encoded}, nil
	}, options...)
}

// HandleBatch is [Handle] for a handler that performs up to [Batch.Size] tasks in one call. A task
// waits in its slot until its call begins; the contexts of tasks that end before take them out.
// When the worker stops, what has gathered is performed at once. [Worker.PerformNext] gives the
// handler one task.
//
// What a worker does for each task it does here as well: leases, [Retry], steps, [Task.ReturnIn],
// limits, logs and telemetry are those of the single task; middleware is put around each. A
// time-out ([WithTimeout]) begins with the call. The methods of an error that the handler returns
// are called for each task, by several goroutines at once.
func HandleBatch(
	action string, batch Batch, handler BatchHandler, options ...HandlerOption,
) Registration {
	if handler == nil {
		return Handle(action, nil, options...)
	}
	gathers := func(h *handling) error {
		if err := batch.check(); err != nil {
			return err
		}
		h.gatherer = &gatherer{Batch: batch, handler: handler, gathered: map[string]*gathering{}}
		if batch.Wait == 0 {
			h.gatherer.Wait = batchWaitDefault
		}
		h.handler = h.gatherer.perform
		return nil
	}
	return Registration{action, noHandler, append([]HandlerOption{gathers}, options...)}
}

// noHandler stands for a handler that an option sets.
func noHandler(context.Context, *Task) (Result, error) { return Result{}, nil }

// A HandlerOption adjusts how the tasks of one action are performed.
type HandlerOption func(*handling) error

// WithConcurrency limits how many tasks of the action a worker performs at once. It must be
// positive. Without it, only [Options.Concurrency] limits them.
func WithConcurrency(tasks int) HandlerOption {
	return func(h *handling) error {
		if tasks <= 0 {
			return argumentError("WithConcurrency", "must be positive")
		}
		h.concurrency = tasks
		return nil
	}
}

// WithTimeout ends the context of a handler with [ErrTimeout] after it has run for d, which must
// be positive. Without it, a handler may take any time. The handler then has a grace to return in,
// 30 s or that of [WithTimeoutGrace]. In that time the worker keeps the task, and it ends as the
// handler ends. After it the task is overdue: the worker gives it back as failed, for another try
// if there is one, logs that, and counts [OutcomeOverdue]. What the handler returns later has no
// effect; it keeps its slot until it does.
func WithTimeout(d time.Duration) HandlerOption {
	return func(h *handling) error {
		if d <= 0 {
			return argumentError("WithTimeout", "must be positive")
		}
		h.timeout = d
		return nil
	}
}

const timeoutGraceDefault = 30 * time.Second

// WithTimeoutGrace sets how long the worker keeps the task of a handler that runs on after its
// time-out ([WithTimeout]), which must be set and d positive. The time-out and the grace together
// are how long a task may be kept by a handler that hangs.
func WithTimeoutGrace(d time.Duration) HandlerOption {
	return func(h *handling) error {
		if d <= 0 {
			return argumentError("WithTimeoutGrace", "must be positive")
		}
		h.grace = d
		return nil
	}
}

// WithRetry replaces [Options.Retry] for the action.
func WithRetry(retry Retry) HandlerOption {
	return func(h *handling) (err error) {
		h.retry, err = retry.withDefaults("WithRetry")
		return err
	}
}

// WithAbortOfUndecodable has [HandleJSON] abort a task whose body it cannot decode, at its first
// try, and with it the tasks that depend on it. It is for actions whose bodies never change, or
// come from outside.
func WithAbortOfUndecodable() HandlerOption {
	return func(h *handling) error {
		inner := h.handler
		h.handler = func(ctx context.Context, task *Task) (Result, error) {
			result, err := inner(ctx, task)
			if _, ok := find[*undecodableError](err); ok {
				err = Abort(err)
			}
			return result, err
		}
		return nil
	}
}

// handling is an action's handler and how to use it.
type handling struct {
	handler     Handler
	concurrency int           // 0: no limit of its own
	timeout     time.Duration // 0: none
	grace       time.Duration // of the time-out
	retry       Retry
	telemetry   telemetryOf
	gatherer    *gatherer // of a [BatchHandler], else nil
}
