package worker

import (
	"context"

	"github.com/stint-tasks/stint/internal/safely"
)

// A Handler performs a task. If it returns no error, the task is completed with the result. If it
// returns an error, the task is given back for another try, or as [Abort] and [RetryAfter] say, and
// the result is ignored. The package comment says when ctx ends.
type Handler func(ctx context.Context, task *Task) (Result, error)

// Middleware wraps a handler in another one, to do something around each performance. It sees the
// errors of the handler; panics pass through it.
type Middleware func(next Handler) Handler

// call calls a handler and tells what has become of it. A panic is an error, also one of a method
// of the error.
func call(ctx context.Context, handler Handler, task *Task) (end ending) {
	defer func() {
		if value := recover(); value != nil {
			end = ending{cause: context.Cause(ctx)}
			end.judge(&panicError{safely.Recovered(value)})
		}
	}()
	result, err := handler(ctx, task)
	end.cause = context.Cause(ctx)
	if err == nil {
		end.result = result
		return end
	}
	end.judge(err)
	return end
}
