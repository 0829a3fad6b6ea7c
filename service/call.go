package service

import (
	"context"
	"time"

	"connectrpc.com/connect"
)

// A call is what is told about a request.
type call struct {
	principal string // empty if it is not known
	code      string // of the answer; empty as long as it is not known
}

type callKey struct{}

// callOf returns the call of a request, which is for one goroutine.
func callOf(ctx context.Context) *call {
	if of, ok := ctx.Value(callKey{}).(*call); ok {
		return of
	}
	return &call{} // nobody wants to know
}

const codeOK = "ok"

func codeOf(err error) string {
	if err == nil {
		return codeOK
	}
	return connect.CodeOf(err).String()
}

// A recorder notes with which code a procedure has ended. It is the outermost interceptor.
type recorder struct{}

func (recorder) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		response, err := next(ctx, request)
		callOf(ctx).code = codeOf(err)
		return response, err
	}
}

func (recorder) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (recorder) WrapStreamingHandler(
	next connect.StreamingHandlerFunc,
) connect.StreamingHandlerFunc {
	return func(ctx context.Context, stream connect.StreamingHandlerConn) error {
		err := next(ctx, stream)
		callOf(ctx).code = codeOf(err)
		return err
	}
}

// Metrics receives the calls of a service. Its methods are called from many goroutines and must not
// block. A procedure is called as its path, /stint.v1.TaskService/InsertTasks, and "other" if there
// is none of that path.
type Metrics interface {
	// Begin is called when a request has come. A request that is refused is a call, too.
	Begin(procedure string)
	// End is called with the code of Connect by which the call has ended, or "ok", and how long it
	// took: calls that wait for tasks take up to 25 s, and those to Attend as long as the stream.
	End(procedure, code string, took time.Duration)
}
