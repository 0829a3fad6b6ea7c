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

// otherProcedure stands for paths that are none: they would be as many as anybody makes up.
const otherProcedure = "other"

// observed returns a handler that tells Options.Metrics and Options.AccessLog of each request.
func (s *Service) observed(next http.Handler) http.Handler {
	if s.metrics == nil && s.accessLog == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		of := callOf(r.Context()) // of [Service.EndEvents], which wants to know it, too
		began := time.Now()       //nolint:forbidigo // how long it takes this process
		procedure := r.URL.Path
		if _, known := s.policies[procedure]; !known {
			procedure = otherProcedure
		}
		answer := &observedAnswer{ResponseWriter: w}
		body := &observedBody{ReadCloser: r.Body}
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

// An observedBody counts the bytes of a request.
type observedBody struct {
	io.ReadCloser

	bytes atomic.Int64 // a stream may still be read when its handler has returned
}

func (b *observedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes.Add(int64(n))
	return n, err
}

// An observedAnswer knows its status.
type observedAnswer struct {
	http.ResponseWriter

	status int
}

func (a *observedAnswer) WriteHeader(status int) {
	if a.status == 0 || a.status < http.StatusOK {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Flush is for streams.
func (a *observedAnswer) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

// Unwrap is for [http.ResponseController].
func (a *observedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// code returns the code of an answer that no procedure has given, since what came is no request of
// it, such as wrong JSON. gRPC has it in a header or a trailer; else the status says enough.
func (a *observedAnswer) code() string {
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
