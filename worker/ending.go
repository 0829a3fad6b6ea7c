package worker

import (
	"fmt"
	"time"

	"github.com/stint-tasks/stint/internal/traceheaders"
)

// An ending is how a handler has ended, in plain data. The methods of the handler's error are the
// handler's code: they panic, end the goroutine or last for ever as it may. So they are called only
// where the handler is called, and nothing behind that touches the error again.
type ending struct {
	result Result
	kind   endingKind
	text   string // of the error
	class  string // the type of the error, for traces
	// pause is how long the handler wants the task to wait, if it has said so.
	pause time.Duration
	// stack is that of a panic, and panicked what it was about.
	panicked, stack string
	// cause is why the context of the handler had ended when it returned; nil if it had not.
	cause error
	// ofCause says that the error is the cause, or wraps it.
	ofCause bool
	// err is for the caller of PerformNext alone.
	err error
}

type endingKind int

const (
	endedWell endingKind = iota
	endedFailed
	endedAbort
	endedSnooze
	endedRetryAfter
	endedPanic
	endedUnwaited // the handler has not ended, and nobody waits for it any more
)

// ended is the ending of a handler with an error of this package.
func ended(kind endingKind, err, cause error) ending {
	return ending{
		kind: kind, text: err.Error(), class: fmt.Sprintf("%T", err), cause: cause, err: err,
	}
}

// judge reads everything that matters from the error of a handler.
func (end *ending) judge(err error) {
	end.kind, end.err = endedFailed, err
	end.text, end.class = err.Error(), traceheaders.ClassOf(err)
	if end.cause != nil {
		end.ofCause = walk(err, func(e error) bool {
			return e == end.cause //nolint:errorlint // walk looks at each error itself
		})
	}
	if _, ok := find[*abortError](err); ok {
		end.kind = endedAbort
	} else if panicked, ok := find[*panicError](err); ok { // of a batch
		end.kind, end.panicked, end.stack = endedPanic, panicked.What, panicked.Stack
	} else if snooze, ok := find[*snoozeError](err); ok {
		end.kind, end.pause = endedSnooze, snooze.pause
	} else if later, ok := find[*retryAfterError](err); ok {
		end.kind, end.pause = endedRetryAfter, later.after
	}
}

// find finds an error of a type of ours in an error, as [errors.As] does.
func find[E interface {
	error
	comparable
}](err error) (found E, ok bool) {
	var none E
	ok = walk(err, func(e error) bool {
		if own, is := e.(E); is { //nolint:errorlint // as above
			found = own
			return true
		}
		as, has := e.(interface{ As(target any) bool })
		return has && as.As(&found) && found != none
	})
	return found, ok
}

// walk calls is with an error and the errors that it wraps until that returns true, and reports
// whether it did. Unlike [errors.Is], it calls no method Is, and it ends also if an error wraps
// itself.
func walk(err error, is func(error) bool) bool {
	const errorsMax = 10_000
	left := errorsMax
	var in func(error) bool
	in = func(err error) bool {
		for err != nil && left > 0 {
			left--
			if is(err) {
				return true
			}
			switch wraps := err.(type) { //nolint:errorlint // as above
			case interface{ Unwrap() error }:
				err = wraps.Unwrap()
			case interface{ Unwrap() []error }:
				for _, wrapped := range wraps.Unwrap() {
					if in(wrapped) {
						return true
					}
				}
				return false
			default:
				return false
			}
		}
		return false
	}
	return in(err)
}

// A Result is the result of a task that a handler completes.
type Result struct {
	// Bytes is the result for dependents and waiters, at most 64 MiB. A task with a larger result
	// is aborted.
	Bytes []byte

	// Status is for people to read.
	Status string
}
