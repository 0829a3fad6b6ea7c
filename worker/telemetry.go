package worker

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// scope names this package to OpenTelemetry.
const scope = "github.com/stint-tasks/stint/worker"

// An Outcome is how a performance ended.
type Outcome string

// The outcomes.
const (
	OutcomeCompleted Outcome = "completed"
	OutcomeRetried   Outcome = "retried" // given back for another try
	OutcomeSnoozed   Outcome = "snoozed" // given back until later, without a try
	OutcomeAborted   Outcome = "aborted" // by the handler, or since it was the last try
	OutcomeStopped   Outcome = "stopped" // given back because the worker stops
	OutcomeLost      Outcome = "lost"    // nothing was returned
)

const (
	actionKey  = attribute.Key("stint.task.action")
	outcomeKey = attribute.Key("stint.outcome")
)

type telemetry struct {
	metrics   Metrics // or nil
	actor     attribute.KeyValue
	tracer    trace.Tracer
	performed metric.Int64Counter
	duration  metric.Float64Histogram
	running   metric.Int64UpDownCounter
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
		metrics: o.Metrics,
		actor:   attribute.String("stint.actor", string(o.Actor)),
		tracer:  o.TracerProvider.Tracer(scope),
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

// telemetryOf is what the telemetry of all performances of an action has in common. It is made
// once, so that telemetry that nobody uses costs next to nothing.
type telemetryOf struct {
	action  string
	span    []trace.SpanStartOption
	running []metric.AddOption
	counted map[Outcome][]metric.AddOption
	timed   map[Outcome][]metric.RecordOption
}

func (t *telemetry) of(name string) telemetryOf {
	action := actionKey.String(name)
	all := telemetryOf{
		action: name,
		span: []trace.SpanStartOption{
			trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(action, t.actor),
		},
		running: []metric.AddOption{metric.WithAttributes(action)},
		counted: map[Outcome][]metric.AddOption{}, timed: map[Outcome][]metric.RecordOption{},
	}
	for _, o := range []Outcome{
		OutcomeCompleted, OutcomeRetried, OutcomeSnoozed, OutcomeAborted, OutcomeStopped,
		OutcomeLost,
	} {
		both := metric.WithAttributes(action, outcomeKey.String(string(o)))
		all.counted[o] = []metric.AddOption{both}
		all.timed[o] = []metric.RecordOption{both}
	}
	return all
}

// begin notes that a performance begins. The context that it returns has the span of the
// performance.
func (t *telemetry) begin(
	ctx context.Context, of *telemetryOf, task *Task,
) (context.Context, trace.Span) {
	ctx, span := t.tracer.Start(ctx, "stint.perform", of.span...)
	if span.IsRecording() {
		span.SetAttributes(attribute.String("stint.task.id", string(task.ID)),
			attribute.Int("stint.task.try", task.Try))
	}
	t.running.Add(ctx, 1, of.running...)
	if t.metrics != nil {
		t.metrics.Begin(of.action)
	}
	return ctx, span
}

// end notes that a performance ended, with the error of the handler, if it had one.
func (t *telemetry) end(
	ctx context.Context, of *telemetryOf, span trace.Span, begun time.Time, o Outcome, err error,
) {
	took := now().Sub(begun)
	t.running.Add(ctx, -1, of.running...)
	t.performed.Add(ctx, 1, of.counted[o]...)
	t.duration.Record(ctx, took.Seconds(), of.timed[o]...)
	if t.metrics != nil {
		t.metrics.End(of.action, o, took)
	}
	if span.IsRecording() {
		span.SetAttributes(outcomeKey.String(string(o)))
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
	}
	span.End()
}

// now is only for measuring how long something takes in this process. The times of tasks are those
// of the database.
func now() time.Time {
	return time.Now() //nolint:forbidigo // durations of this process
}
