package worker

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
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
	// OutcomeOverdue is that of a task that was given back, for another try if there was one, since
	// its handler had not returned within the grace of its time-out.
	OutcomeOverdue Outcome = "overdue"
)

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

// begin notes that performances begin, and gives them contexts with their spans. Tracers and meters
// are not ours, as handlers are not, and no task depends on them: see [telemetry.tell].
func (t *telemetry) begin(begun []*performance) {
	t.tell(t.tracing, len(begun), func(i int) {
		p := begun[i]
		p.span = trace.SpanFromContext(context.Background()) // one of nothing, if the tracer fails
		within, options := t.origin(p)
		ctx, span := t.tracer.Start(within, p.of.telemetry.name, options...)
		if span == nil || ctx == nil {
			return
		}
		p.ctx, p.span = ctx, span
		if span.IsRecording() {
			span.SetAttributes(attribute.String("stint.task.id", string(p.task.ID)),
				attribute.String("messaging.message.id", string(p.task.ID)),
				attribute.Int("stint.task.try", p.task.Try))
		}
	})
	t.tell(t.metering, len(begun), func(i int) {
		t.running.Add(begun[i].ctx, 1, begun[i].of.telemetry.running...)
	})
	if t.metrics != nil {
		t.tell(t.counting, len(begun), func(i int) {
			t.metrics.Begin(&begun[i].task.OwnedTask)
		})
	}
}

// end notes that performances have ended.
func (t *telemetry) end(over []*performance) {
	took := make([]time.Duration, len(over))
	for i, p := range over {
		took[i] = now().Sub(p.begun)
	}
	t.tell(t.metering, len(over), func(i int) {
		of, o := &over[i].of.telemetry, over[i].outcome
		ctx := context.WithoutCancel(over[i].ctx)
		t.running.Add(ctx, -1, of.running...)
		t.performed.Add(ctx, 1, of.counted[o]...)
		t.duration.Record(ctx, took[i].Seconds(), of.timed[o]...)
	})
	if t.metrics != nil {
		t.tell(t.counting, len(over), func(i int) {
			t.metrics.End(&over[i].task.OwnedTask, over[i].outcome, took[i])
		})
	}
	t.tell(t.tracing, len(over), func(i int) { endSpan(over[i]) })
}

// beginBatch returns the context of a call for several tasks, with a span that links to those of
// the tasks.
func (t *telemetry) beginBatch(tasks []*BatchTask) (ctx context.Context, span trace.Span) {
	span = trace.SpanFromContext(context.Background())
	ctx = trace.ContextWithSpan(context.WithoutCancel(tasks[0].ctx), span)
	ctx = baggage.ContextWithoutBaggage(ctx) // which is that of one task
	t.tell(t.tracing, 1, func(int) {
		links := make([]trace.Link, len(tasks))
		for i, task := range tasks {
			links[i] = trace.LinkFromContext(task.ctx)
		}
		action := tasks[0].Action
		of, begun := t.tracer.Start(ctx, performBatch+" "+action, trace.WithLinks(links...),
			trace.WithSpanKind(trace.SpanKindConsumer),
			trace.WithAttributes(append(t.processing(performBatch, action),
				actionKey.String(action), t.actor,
				attribute.Int("messaging.batch.message_count", len(tasks)))...))
		if of != nil && begun != nil {
			ctx, span = of, begun
		}
	})
	return ctx, span
}

// endBatch ends the span of a call for several tasks, which has failed if err is not nil.
func (t *telemetry) endBatch(span trace.Span, err error) {
	t.tell(t.tracing, 1, func(int) {
		defer span.End()
		failSpan(span, err)
	})
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

func endSpan(p *performance) {
	if p.span.IsRecording() {
		p.span.SetAttributes(outcomeKey.String(string(p.outcome)))
		// A task that is put off, or given back since the worker stops, has not failed.
		wentOn := p.outcome == OutcomeSnoozed || p.outcome == OutcomeStopped
		if end := &p.ending; end.kind != endedWell && !wentOn {
			p.span.SetAttributes(attribute.String("error.type", end.class))
			// What RecordError writes, which asks the error again.
			p.span.AddEvent("exception", trace.WithAttributes(
				attribute.String("exception.type", end.class),
				attribute.String("exception.message", end.text)))
			p.span.SetStatus(codes.Error, end.text)
		}
	}
	p.span.End()
}

// tell calls f for each of n performances. If a call panics or ends its goroutine, the others are
// made all the same, and the log says so.
func (t *telemetry) tell(failures *outage.Log, n int, f func(i int)) {
	if failure := safely.Each(n, f); failure != nil {
		failures.Failed(context.Background(), failure)
	}
}

// now is only for measuring how long something takes in this process. The times of tasks are those
// of the database.
func now() time.Time {
	return time.Now() //nolint:forbidigo // durations of this process
}
