package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
)

// A Handler performs a task. If it returns no error, the task is completed with the result. If it
// returns an error, the task is given back for another try, or as [Abort] and [RetryAfter] say, and
// the result is ignored. The package comment says when ctx ends.
type Handler func(ctx context.Context, task *Task) (Result, error)

// A Result is the result of a task that a handler completes.
type Result struct {
	// Bytes is the result for dependents and waiters, at most 64 MiB. A task with a larger result
	// is aborted.
	Bytes []byte

	// Status is for people to read.
	Status string
}

// Middleware wraps a handler in another one, to do something around each performance. It sees the
// errors of the handler; panics pass through it.
type Middleware func(next Handler) Handler

// A Task is a task that a handler performs. Its LeaseUntil is as of the fetch; the worker
// extends the lease.
type Task struct {
	stint.OwnedTask

	queue     Queue
	logger    *slog.Logger // of the worker
	telemetry *telemetry
	// returned says that the handler returned the task in a transaction. From then on only the
	// handler knows whether the task is still owned.
	returned atomic.Bool
	steps    taskSteps
	log      taskLog
	// inBatch is the task as one of a batch, if it is.
	inBatch atomic.Pointer[BatchTask]
	// callBegins begins the time-out where the call begins later than the performance.
	callBegins func()
}

// ReturnIn completes the task in a transaction of the handler. The handler's other changes in tx
// are committed if and only if this performance completes the task. The package stintsql makes a
// pgx.Tx from a database/sql transaction.
//
// The handler commits tx and then returns. If it returns no error, the worker does nothing else for
// the task; if it returns an error, such as that of a failed commit, the worker gives the task back
// as after any other error, unless the commit succeeded after all.
//
// If the task was lost, the error is [stint.ErrInvalidToken], and the handler should roll back.
// From this call on, the handler's context no longer ends when the task is lost, since only tx can
// tell. If the handler returns no error without a commit, the task stays in progress until its
// lease expires. A second call after the first commit is refused with [stint.ErrAlreadyReturned],
// so a handler that repeats its transaction, since the reply to the commit was lost, does not
// commit twice.
//
// If tx is nil, the error is [stint.ErrInvalidArgument], and the task is not returned. A worker
// whose [Queue] is not a store has no transactions, and gets [ErrNotStore].
func (t *Task) ReturnIn(ctx context.Context, tx pgx.Tx, result Result) error {
	store, ok := t.queue.(txQueue)
	if !ok {
		return fmt.Errorf("return in transaction: %w", ErrNotStore)
	}
	// This comes first: the commit ends the ownership, which must not look like a loss.
	t.returned.Store(true)
	err := returnOne(ctx, store.WithTx(tx), t.completion(result))
	switch {
	case errors.Is(err, stint.ErrAlreadyReturned):
		return fmt.Errorf("return in transaction: %w", err) // tx must not be committed as well
	case err != nil:
		t.returned.Store(false)
		return fmt.Errorf("return in transaction: %w", err)
	}
	return nil
}

// SetStatus records a status text for people, and the progress of the task, from 0 to 1. It is
// [stint.Store.SetStatus].
func (t *Task) SetStatus(ctx context.Context, status string, progress float64) error {
	return t.queue.SetStatus(ctx, t.OwnedTask, status, progress)
}

// Inputs returns the results of the tasks that this one waited for. It is [stint.Store.Inputs].
func (t *Task) Inputs(ctx context.Context) ([]stint.Input, error) {
	return t.queue.Inputs(ctx, t.OwnedTask)
}

func (t *Task) completion(result Result) stint.Return {
	return stint.Return{
		ID: t.ID, Token: t.Token, Code: stint.StatusCompleted,
		Status: result.Status, Result: result.Bytes, Log: t.log.text(),
	}
}

func returnOne(ctx context.Context, queue Queue, r stint.Return) error {
	verdicts, err := queue.ReturnTasks(ctx, []stint.Return{r})
	if err != nil {
		return err
	}
	return verdicts[0]
}

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

// A HandlerOption adjusts how the tasks of one action are performed.
type HandlerOption func(*handling) error

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

const timeoutGraceDefault = 30 * time.Second

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
