package service

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint/internal/outage"
	"github.com/stint-tasks/stint/internal/safely"
)

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

const (
	codeOK = "ok"

	// otherProcedure stands for paths that are none: they would be as many as anybody makes up.
	otherProcedure = "other"
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

// observed returns a handler that tells Options.Metrics and Options.AccessLog of each request.
func (s *Service) observed(next http.Handler) http.Handler {
	if s.metrics == nil && s.accessLog == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		of, began := &call{}, time.Now() //nolint:forbidigo // how long it takes this process
		procedure := r.URL.Path
		if _, known := s.policies[procedure]; !known {
			procedure = otherProcedure
		}
		answer := &answer{ResponseWriter: w}
		body := &body{ReadCloser: r.Body}
		s.tell(s.metrics != nil, func() { s.metrics.Begin(procedure) })
		defer func() { // also of a handler that panics
			took := time.Since(began)
			if of.code == "" {
				of.code = answer.code()
			}
			s.tell(s.metrics != nil, func() { s.metrics.End(procedure, of.code, took) })
			s.tell(s.accessLog != nil, func() {
				s.accessLog.LogAttrs(r.Context(), slog.LevelInfo, "call",
					slog.String("procedure", procedure), slog.String("principal", of.principal),
					slog.String("code", of.code), slog.Duration("took", took),
					slog.Int64("bytes", body.bytes.Load()))
			})
		}()
		r = r.WithContext(context.WithValue(r.Context(), callKey{}, of))
		r.Body = body
		next.ServeHTTP(answer, r)
	})
}

// tell calls f, which is not ours, if somebody wants to be told. No call depends on it.
func (s *Service) tell(wanted bool, f func()) {
	if !wanted {
		return
	}
	if failure := safely.Call(f); failure != nil {
		s.failures.Failed(context.Background(), outage.Kind{
			What: "Options.Metrics or Options.AccessLog fails", Level: slog.LevelWarn,
		}, slog.Any("error", failure))
	}
}

// A body counts the bytes of a request.
type body struct {
	io.ReadCloser

	bytes atomic.Int64 // a stream may still be read when its handler has returned
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes.Add(int64(n))
	return n, err
}

// An answer knows its status.
type answer struct {
	http.ResponseWriter

	status int
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 || a.status < http.StatusOK {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Flush is for streams.
func (a *answer) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// code returns the code of an answer that no procedure has given, since what came is no request of
// it, such as wrong JSON. gRPC has it in a header or a trailer; else the status says enough.
func (a *answer) code() string {
	for _, name := range []string{"Grpc-Status", http.TrailerPrefix + "Grpc-Status"} {
		number, err := strconv.ParseUint(a.Header().Get(name), 10, 32)
		if err == nil && number != 0 {
			return connect.Code(number).String()
		}
	}
	switch a.status {
	case http.StatusBadRequest:
		return connect.CodeInvalidArgument.String()
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType:
		return connect.CodeUnimplemented.String()
	default:
		return connect.CodeUnknown.String()
	}
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

func codeOf(err error) string {
	if err == nil {
		return codeOK
	}
	return connect.CodeOf(err).String()
}
