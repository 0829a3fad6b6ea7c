package worker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/outage"
	"github.com/stint-tasks/stint/internal/safely"
)

// Options adjust a [Worker]. The zero value is a good default.
type Options struct {
	// Actor names the worker for people to read. It should be unique to this worker. Default: the
	// host, the process ID and a random part.
	Actor stint.ActorID

	// Concurrency is the most tasks that are performed at once, over all actions. Default: 100,
	// which suits handlers that mostly wait for something. If handlers compute, limit their action
	// to the number of processors. If handlers take only milliseconds, the worker owns some tasks
	// more, which begin in a moment: see "Cycles".
	Concurrency int

	// Lease is how long tasks are owned. The worker extends leases after a third of that time, so
	// the length matters only when the worker or its connection dies: then another worker may be
	// given the task after that time, unless the death is noticed earlier. Between 100 ms and 24
	// hours. Default: 30 s.
	Lease time.Duration

	// StopGrace is how long handlers may continue when the worker stops, and how long it tries to
	// return what they have done where the server does not answer. If that does not end even then,
	// Run returns a second later, and no more than five seconds after that, which all that is left
	// to ask of the server may take together. Default: 20 s, less than the 30 s that Kubernetes
	// gives.
	StopGrace time.Duration

	// Retry says when a task whose handler failed is tried again. [WithRetry] overrides it for an
	// action.
	Retry Retry

	// Middleware is put around each handler, the first outermost.
	Middleware []Middleware

	// Logger gets the records that the package comment lists. Default: warnings and errors go to
	// [slog.Default], as it is when the worker is made, and the rest is dropped.
	Logger *slog.Logger

	// TracerProvider and MeterProvider receive the telemetry that the package comment lists.
	// Default: the global ones of package otel, which drop it unless they were set.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider

	// Propagator reads from the headers of a task of which trace it is a part, as package stintotel
	// writes them. Default: the global one of package otel or, if none was set, W3C Trace Context.
	Propagator propagation.TextMapPropagator

	// Metrics also receives the performances, for example stintprom.WorkerMetrics, which counts
	// them for Prometheus. Default: none.
	Metrics Metrics
}

const (
	concurrencyDefault = 100
	leaseDefault       = 30 * time.Second
	leaseShortest      = 100 * time.Millisecond // a shorter one would expire in any short delay
	leaseLongest       = 24 * time.Hour         // else tasks of a dead worker would wait for ever
	stopGraceDefault   = 20 * time.Second
	nameBytesMax       = 255
)

// A Worker performs tasks with handlers. [New] makes it, and [Worker.Run] runs it once.
type Worker struct {
	queue     Queue
	options   Options
	telemetry *telemetry
	actions   map[string]*handling
	failures  *outage.Tallies
	// joined is sent to when a task joins others for a call and all slots are taken.
	joined  chan struct{}
	started atomic.Bool
}

// New returns a worker that performs tasks of queue, which is a *[stint.Store] or a client of a
// service, with handlers, which [Handle] and [HandleJSON] make, one for each action. It does not
// contact the database yet.
//
// New refuses invalid options, no handlers, a nil handler, an action that no task can have, and a
// second handler of an action, with a [*stint.ArgumentError].
func New(queue Queue, options Options, handlers ...Registration) (*Worker, error) {
	w, err := newWorker(queue, options, handlers)
	if err != nil {
		return nil, fmt.Errorf("new worker: %w", err)
	}
	return w, nil
}

func newWorker(queue Queue, options Options, handlers []Registration) (*Worker, error) {
	if store, ok := queue.(*stint.Store); queue == nil || ok && store == nil {
		return nil, argumentError("queue", "must not be nil")
	}
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	telemetry, err := newTelemetry(options)
	if err != nil {
		return nil, err
	}
	w := &Worker{
		queue: queue, options: options, telemetry: telemetry, actions: map[string]*handling{},
		failures: outage.NewTallies(options.Logger), joined: make(chan struct{}, 1),
	}
	if len(handlers) == 0 {
		return nil, argumentError("handlers", "must not be empty")
	}
	for _, registration := range handlers {
		if err := w.register(registration); err != nil {
			return nil, fmt.Errorf("handle action %.80q: %w", registration.action, err)
		}
	}
	return w, nil
}

func (o Options) withDefaults() (_ Options, err error) {
	if o.Actor == "" {
		o.Actor = randomActor()
	}
	if o.Concurrency == 0 {
		o.Concurrency = concurrencyDefault
	}
	if o.Lease == 0 {
		o.Lease = leaseDefault
	}
	if o.StopGrace == 0 {
		o.StopGrace = stopGraceDefault
	}
	o.Logger = safely.LoggerOr(o.Logger)
	if err := checkName("Options.Actor", string(o.Actor)); err != nil {
		return o, err
	}
	switch {
	case o.Concurrency < 0:
		return o, argumentError("Options.Concurrency", "must not be negative")
	case o.Lease < leaseShortest:
		return o, argumentError("Options.Lease", "must be at least 100 ms")
	case o.Lease > leaseLongest:
		return o, argumentError("Options.Lease", "must not exceed 24 hours; leases are extended")
	case o.StopGrace < 0:
		return o, argumentError("Options.StopGrace", "must not be negative")
	case slices.ContainsFunc(o.Middleware, func(m Middleware) bool { return m == nil }):
		return o, argumentError("Options.Middleware", "must not be nil")
	}
	o.Middleware = slices.Clone(o.Middleware)
	o.Retry, err = o.Retry.withDefaults("Options.Retry")
	return o, err
}

// randomActor returns a name by which people can find the process, and which no other process has.
func randomActor() stint.ActorID {
	const hostBytesMax = 100
	host, err := os.Hostname()
	if err != nil || checkName("host", host) != nil {
		host = "unknown"
	}
	host = strings.ToValidUTF8(host[:min(len(host), hostBytesMax)], "")
	return stint.ActorID(host + "-" + strconv.Itoa(os.Getpid()) + "-" + uuid.NewString()[:8])
}

// checkName checks the name of an actor or an action.
func checkName(argument, name string) error {
	switch {
	case name == "":
		return argumentError(argument, "must not be empty")
	case len(name) > nameBytesMax:
		return argumentError(argument, "must not exceed 255 bytes")
	case !utf8.ValidString(name):
		return argumentError(argument, "must be valid UTF-8")
	case strings.IndexByte(name, 0) >= 0:
		return argumentError(argument, "must not contain a NUL byte")
	}
	return nil
}

func (w *Worker) register(r Registration) error {
	if err := checkName("action", r.action); err != nil {
		return err
	}
	switch {
	case r.action == stint.Spontaneous:
		return argumentError("action", "spontaneous tasks are never fetched")
	case r.handler == nil:
		return argumentError("handler", "must not be nil")
	case w.actions[r.action] != nil:
		return argumentError("action", "must not have two handlers")
	}
	h := &handling{
		handler: r.handler, retry: w.options.Retry, telemetry: w.telemetry.of(r.action),
	}
	for _, option := range r.options {
		if err := option(h); err != nil {
			return err
		}
	}
	if h.grace > 0 && h.timeout == 0 {
		return argumentError("WithTimeoutGrace", "must come with WithTimeout")
	}
	h.grace = cmp.Or(h.grace, timeoutGraceDefault)
	if h.gatherer != nil {
		h.gatherer.telemetry, h.gatherer.joined = w.telemetry, w.joined
		if err := h.gatherer.size(w.slotsOf(h)); err != nil {
			return err
		}
	}
	for _, middleware := range slices.Backward(w.options.Middleware) {
		h.handler = middleware(h.handler)
		if h.handler == nil {
			return argumentError("Options.Middleware", "must not return a nil handler")
		}
	}
	w.actions[r.action] = h
	return nil
}

// Run performs tasks until ctx ends, and then stops as the package comment says. It returns nil
// after that, or [ErrStillRunning].
//
// While the database cannot be reached, Run tries again, with growing pauses. It also stops, in the
// same orderly way, on an error that cannot be fixed by trying again: a schema of the wrong version
// ([stint.ErrSchemaVersion]), a store that was closed ([stint.ErrClosed]), or a store that was
// derived with WithTx ([*stint.ArgumentError]). Run refuses a second call with [ErrStarted].
//
// Handlers get the values of ctx.
func (w *Worker) Run(ctx context.Context) error {
	if w.started.Swap(true) {
		return fmt.Errorf("run worker: %w", ErrStarted)
	}
	defer w.failures.Flush()
	if err := newExecution(w).run(ctx); err != nil {
		return fmt.Errorf("run worker: %w", err)
	}
	return nil
}

// names returns the actions that have handlers.
func (w *Worker) names() []string { return slices.Sorted(maps.Keys(w.actions)) }
