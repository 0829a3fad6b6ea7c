// Package health answers probes of load balancers, Kubernetes and others, by HTTP and by gRPC,
// which ask whether a service works.
//
//	probes := health.New(s.Ready) // s is a *service.Service
//	mux.Handle("/", s)
//	for _, path := range health.Paths() {
//		mux.Handle(path, probes)
//	}
//	...
//	probes.Drain() // then requests go elsewhere, and the server can be shut down
//
// Probes need no credentials. However many there are, the service is checked once a second at most.
package health

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint/api/stintv1/stintv1connect"
	"github.com/stint-tasks/stint/service/health/internal/healthv1"
)

const (
	// probeMax is how long a probe may take.
	probeMax = 2 * time.Second

	// again is for how long the answer of a probe holds.
	again = time.Second

	// questionMax is how long a request of Check may take to arrive.
	questionMax = 5 * time.Second

	// watchesMax is how many may watch at a time: each is asked for every second.
	watchesMax = 1000

	// questionBytesMax is the size of a request at most: it has the name of a service.
	questionBytesMax = 4 << 10
)

const (
	livePath  = "/healthz"
	readyPath = "/readyz"
	checkPath = "/grpc.health.v1.Health/Check"
	watchPath = "/grpc.health.v1.Health/Watch"
)

// Paths returns the paths that a [Handler] answers.
func Paths() []string { return []string{livePath, readyPath, checkPath, watchPath} }

// A Handler answers probes. It is safe for concurrent use.
//
//   - GET /healthz says 200 as long as the process answers. Restart the process if it does not.
//   - GET /readyz says 200 if requests can be served, or else 503 and why, in a line. Send requests
//     elsewhere then; a restart would not help.
//   - Check and Watch of grpc.health.v1.Health say the same as /readyz, of the names "",
//     "stint.v1.TaskService" and "stint.v1.WorkerService". Watch says it again whenever it changes,
//     and ends when the handler drains.
type Handler struct {
	ready func(ctx context.Context) error
	mux   *http.ServeMux

	draining context.Context //nolint:containedctx // of the handler, not of a call
	drain    context.CancelFunc

	watches chan struct{} // has an item for each call of Watch

	// probing is held while something is probed, so that all who ask meanwhile get one answer.
	probing sync.Mutex
	until   time.Time // when last does not hold any more
	last    error
}

// New returns a handler that says that requests can be served if ready returns nil. The text of its
// error is shown to all who ask, up to the first line break: it must have no secrets. ready is not
// called again within a second, nor while it runs, and must return when its context ends, which is
// after two seconds.
func New(ready func(ctx context.Context) error) *Handler {
	h := &Handler{
		ready: ready, mux: http.NewServeMux(), watches: make(chan struct{}, watchesMax),
	}
	h.draining, h.drain = context.WithCancel(context.Background())
	h.mux.HandleFunc("GET "+livePath, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, "ok")
	})
	h.mux.HandleFunc("GET "+readyPath, h.serveReady)
	limit := connect.WithReadMaxBytes(questionBytesMax)
	h.mux.Handle(checkPath, soon(connect.NewUnaryHandlerSimple(checkPath, h.check, limit)))
	h.mux.Handle(watchPath, connect.NewServerStreamHandlerSimple(watchPath, h.watch, limit))
	return h
}

// soon cuts off callers that take long to send their request.
func soon(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadline := time.Now().Add(questionMax) //nolint:forbidigo // of this connection
		_ = http.NewResponseController(w).SetReadDeadline(deadline)
		next.ServeHTTP(w, r)
	})
}

// ServeHTTP answers a probe. Other paths than those of [Paths] are not found.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// Drain makes the handler say from now on that requests are to go elsewhere, and ends the calls of
// Watch once they have told it. The process is live nevertheless. Call it some seconds before the
// server is shut down, so that whoever probes knows in time.
func (h *Handler) Drain() { h.drain() }

func (h *Handler) serveReady(w http.ResponseWriter, r *http.Request) {
	if err := h.probe(r.Context()); err != nil {
		reason, _, _ := strings.Cut(err.Error(), "\n")
		answer(w, http.StatusServiceUnavailable, reason)
		return
	}
	answer(w, http.StatusOK, "ok")
}

func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
}

var (
	errDraining = errors.New("draining: send requests elsewhere")
	errSlow     = fmt.Errorf("no answer within %v", probeMax)
)

// probe returns nil if requests can be served, or else why they cannot.
func (h *Handler) probe(ctx context.Context) error {
	if h.draining.Err() != nil {
		return errDraining
	}
	h.probing.Lock()
	defer h.probing.Unlock()
	now := time.Now() //nolint:forbidigo // how old an answer of this process is
	if !now.Before(h.until) {
		h.last = h.ask(context.WithoutCancel(ctx)) // others want to know even if the caller leaves
		h.until = time.Now().Add(again)            //nolint:forbidigo // the same
	}
	if h.draining.Err() != nil {
		return errDraining
	}
	return h.last
}

func (h *Handler) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeMax)
	defer cancel()
	err := h.ready(ctx)
	if err != nil && ctx.Err() != nil {
		return errSlow
	}
	return err
}

func (h *Handler) check(
	ctx context.Context, r *healthv1.HealthCheckRequest,
) (*healthv1.HealthCheckResponse, error) {
	status := h.statusOf(ctx, r.GetService())
	if status == healthv1.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("no such service"))
	}
	return &healthv1.HealthCheckResponse{Status: status}, nil
}

// watch says what check says, whenever it changes.
func (h *Handler) watch(
	ctx context.Context, r *healthv1.HealthCheckRequest,
	stream *connect.ServerStream[healthv1.HealthCheckResponse],
) error {
	select {
	case h.watches <- struct{}{}:
		defer func() { <-h.watches }()
	default:
		return connect.NewError(connect.CodeResourceExhausted, errors.New("too many watch"))
	}
	look := time.NewTicker(again)
	defer look.Stop()
	said := healthv1.HealthCheckResponse_UNKNOWN // which statusOf never says
	for {
		last := h.draining.Err() != nil
		if status := h.statusOf(ctx, r.GetService()); status != said {
			err := stream.Send(&healthv1.HealthCheckResponse{Status: status})
			if err != nil {
				return err
			}
			said = status
		}
		if last {
			return nil
		}
		select {
		case <-look.C:
		case <-h.draining.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (h *Handler) statusOf(
	ctx context.Context, service string,
) healthv1.HealthCheckResponse_ServingStatus {
	switch service {
	case "", stintv1connect.TaskServiceName, stintv1connect.WorkerServiceName:
	default:
		return healthv1.HealthCheckResponse_SERVICE_UNKNOWN
	}
	if h.probe(ctx) != nil {
		return healthv1.HealthCheckResponse_NOT_SERVING
	}
	return healthv1.HealthCheckResponse_SERVING
}
