package worker

import (
	"errors"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/safely"
)

// These are the errors of this package, to be matched with [errors.Is]. Invalid arguments are a
// [*stint.ArgumentError].
var (
	// ErrStarted reports a second call of Run.
	ErrStarted = errors.New("worker was already started")

	// ErrStillRunning reports that the worker has stopped before all handlers returned. Their tasks
	// were given back, or are handed on when their leases expire.
	ErrStillRunning = errors.New("handlers are still running")

	// ErrTimeout is the cause of a handler's context that ended because its time-out passed.
	ErrTimeout = errors.New("time-out of the handler passed")

	// ErrLeaseExpired is the cause of a handler's context that ended because the lease could not be
	// extended before it expired. Somebody else may own the task.
	ErrLeaseExpired = errors.New("lease expired")

	// ErrNotStore reports that a worker has no transactions, since its [Queue] is not a store.
	ErrNotStore = errors.New("the worker's queue is not a store")

	// ErrStopping is the cause of a handler's context that ended because the worker stops.
	ErrStopping = errors.New("worker is stopping")
)

// These errors stand for those of handlers that do not return.
var (
	errExited     = errors.New("handler called runtime.Goexit")
	errWaited     = errors.New("handler did not return when the worker stopped")
	errUnanswered = errors.New("the server had not answered when the worker stopped")
	errOverdue    = errors.New("handler did not return within the grace of its time-out")
)

// Abort returns an error with which a handler gives up its task: the task is aborted, and so are
// the tasks that wait for it, unless they run anyway. It may be wrapped. Abort(nil) aborts without
// saying why.
func Abort(err error) error { return &abortError{err} }

type abortError struct{ err error }

func (e *abortError) Error() string {
	if e.err == nil {
		return "aborted"
	}
	return e.err.Error()
}

func (e *abortError) Unwrap() error { return e.err }

// Snooze returns an error with which a handler gives its task back until d has passed, as if it had
// not been fetched: the try does not count, and the performance is no failure. It is for a task
// that cannot be performed yet, for example because another handler is serving the same customer. A
// pause of less than 0 counts as 0, one of more than ten years as ten years. The error may be
// wrapped; the text becomes the status of the task.
func Snooze(d time.Duration) error { return &snoozeError{min(max(d, 0), pauseMax)} }

type snoozeError struct{ pause time.Duration }

func (e *snoozeError) Error() string { return "snoozed for " + e.pause.String() }

// RetryAfter returns an error with which a handler gives its task back for another try after d,
// whatever the [Retry] of its action says. The try counts, unlike with [Snooze]. The error may be
// wrapped, to say why. A pause of less than 0 counts as 0, one of more than ten years as ten years.
func RetryAfter(d time.Duration) error { return &retryAfterError{min(max(d, 0), pauseMax)} }

type retryAfterError struct{ after time.Duration }

func (e *retryAfterError) Error() string { return "retry after " + e.after.String() }

// An undecodableError is that of HandleJSON about a body.
type undecodableError struct{ err error }

func (e *undecodableError) Error() string { return e.err.Error() }
func (e *undecodableError) Unwrap() error { return e.err }

// A panicError is the error of a handler that panicked: what it panicked with, and the stack.
type panicError struct{ *safely.CallError }

func argumentError(argument, problem string) error {
	return &stint.ArgumentError{
		Argument: argument, Index: -1, Problem: problem, Err: stint.ErrInvalidArgument,
	}
}

// pauseMax is the longest pause that the store accepts.
const pauseMax = 10 * 365 * 24 * time.Hour
