package worker

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/stint-tasks/stint/internal/outage"
	"github.com/stint-tasks/stint/internal/safely"
	"github.com/stint-tasks/stint/internal/traceheaders"
)

// scope names this package to OpenTelemetry.
const scope = "github.com/stint-tasks/stint/worker"

const (
	actionKey  = attribute.Key("stint.task.action")
	outcomeKey = attribute.Key("stint.outcome")
)

type telemetry struct {
	metrics Metrics // or nil
	// What has failed of the tracer, the meter and metrics.
	tracing, metering, counting *outage.Log

	actor  attribute.KeyValue
	tracer trace.Tracer
	// propagator is that of Options, or nil.
	propagator propagation.TextMapPropagator
	performed  metric.Int64Counter
	duration   metric.Float64Histogram
	running    metric.Int64UpDownCounter
}

// telemetryOf is what the telemetry of all performances of an action has in common. It is made
// once, so that telemetry that nobody uses costs next to nothing.
type telemetryOf struct {
	name    string // of spans
	span    []trace.SpanStartOption
	running []metric.AddOption
	counted map[Outcome][]metric.AddOption
	timed   map[Outcome][]metric.RecordOption
}

func (t *telemetry) of(name string) telemetryOf {
	action := actionKey.String(name)
	all := telemetryOf{
		name: perform + " " + name,
		span: []trace.SpanStartOption{
			trace.WithSpanKind(trace.SpanKindConsumer),
			trace.WithAttributes(append(t.processing(perform, name), action, t.actor)...),
		},
		running: []metric.AddOption{metric.WithAttributes(action)},
		counted: map[Outcome][]metric.AddOption{}, timed: map[Outcome][]metric.RecordOption{},
	}
	for _, o := range []Outcome{
		OutcomeCompleted, OutcomeRetried, OutcomeSnoozed, OutcomeAborted, OutcomeStopped,
		OutcomeLost, OutcomeOverdue,
	} {
		both := metric.WithAttributes(action, outcomeKey.String(string(o)))
		all.counted[o] = []metric.AddOption{both}
		all.timed[o] = []metric.RecordOption{both}
	}
	return all
}

// failSpan has a span tell of an error, unless it is one that puts a task off: that is no failure.
func failSpan(span trace.Span, err error) {
	if err == nil || !span.IsRecording() {
		return
	}
	if _, putOff := find[*snoozeError](err); putOff {
		return
	}
	span.SetAttributes(attribute.String("error.type", traceheaders.ClassOf(err)))
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
}

// The operations of OpenTelemetry's conventions for messages: a try of a task, and a call for
// several tasks. The name of a span is that of its operation with the action.
const (
	perform      = "perform"
	performBatch = "perform_batch"
)

// processing is what these conventions say of all spans of an operation and an action.
func (t *telemetry) processing(operation, action string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("messaging.system", "stint"),
		attribute.String("messaging.operation.name", operation),
		attribute.String("messaging.operation.type", "process"),
		attribute.String("messaging.destination.name", action),
		attribute.String("messaging.client.id", t.actor.Value.AsString()),
	}
}

// tell calls f for each of n performances. If a call panics or ends its goroutine, the others are
// made all the same, and the log says so.
func (t *telemetry) tell(failures *outage.Log, n int, f func(i int)) {
	if failure := safely.Each(n, f); failure != nil {
		failures.Failed(context.Background(), failure)
	}
}
