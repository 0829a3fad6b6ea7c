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

// An outcome is how a performance ended, for people who look at many.
type outcome string

const (
	outcomeCompleted outcome = "completed"
	outcomeRetried   outcome = "retried"
	outcomeAborted   outcome = "aborted"
	outcomeStopped   outcome = "stopped"
	outcomeLost      outcome = "lost"
)

const (
	actionKey  = attribute.Key("stint.task.action")
	outcomeKey = attribute.Key("stint.outcome")
)

type telemetry struct {
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
		actor:  attribute.String("stint.actor", string(o.Actor)),
		tracer: o.TracerProvider.Tracer(scope),
	}
	var err error
	t.performed, err = meter.Int64Counter("stint.worker.performed",
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

// begin notes that a performance begins. The context returned has its span; the function returned
// notes its end, with the error of the handler, if it had one.
func (t *telemetry) begin(
	ctx context.Context, task *Task,
) (context.Context, func(outcome, error)) {
	action := actionKey.String(task.Action)
	ctx, span := t.tracer.Start(ctx, "stint.perform",
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(attribute.String("stint.task.id", string(task.ID)), action,
			attribute.Int("stint.task.try", task.Try), t.actor))
	begun := now()
	t.running.Add(ctx, 1, metric.WithAttributes(action))
	return ctx, func(o outcome, err error) {
		ctx := context.WithoutCancel(ctx)
		both := metric.WithAttributes(action, outcomeKey.String(string(o)))
		t.running.Add(ctx, -1, metric.WithAttributes(action))
		t.performed.Add(ctx, 1, both)
		t.duration.Record(ctx, now().Sub(begun).Seconds(), both)
		span.SetAttributes(outcomeKey.String(string(o)))
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// now is for measuring how long something takes in this process, which has nothing to do with the
// times that the store knows.
func now() time.Time {
	return time.Now() //nolint:forbidigo // durations of this process
}
