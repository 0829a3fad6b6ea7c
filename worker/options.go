package worker

import (
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
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

const (
	concurrencyDefault = 100
	leaseDefault       = 30 * time.Second
	leaseShortest      = 100 * time.Millisecond // a shorter one would expire in any short delay
	leaseLongest       = 24 * time.Hour         // else tasks of a dead worker would wait for ever
	stopGraceDefault   = 20 * time.Second
	nameBytesMax       = 255
)

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

func newTelemetry(o Options) (*telemetry, error) {
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	meter := o.MeterProvider.Meter(scope)
	t := &telemetry{
		metrics:  o.Metrics,
		tracing:  outage.New(o.Logger, "Options.TracerProvider fails, and a span is missing"),
		metering: outage.New(o.Logger, "Options.MeterProvider fails, and a count is missing"),
		counting: outage.New(o.Logger, "Options.Metrics fails, and a count is missing"),
		actor:    attribute.String("stint.actor", string(o.Actor)),
		tracer:   o.TracerProvider.Tracer(scope), propagator: o.Propagator,
	}
	var err error
	t.performed, err = meter.Int64Counter("stint.worker.performances",
		metric.WithDescription("Performances that have ended."),
		metric.WithUnit("{performance}"))
	if err != nil {
		return nil, err
	}
	t.duration, err = meter.Float64Histogram("stint.worker.duration",
		metric.WithDescription("How long performances took until the task was returned."),
		metric.WithUnit("s"))
	if err != nil {
		return nil, err
	}
	t.running, err = meter.Int64UpDownCounter("stint.worker.running",
		metric.WithDescription("Performances under way."),
		metric.WithUnit("{performance}"))
	if err != nil {
		return nil, err
	}
	return t, nil
}
