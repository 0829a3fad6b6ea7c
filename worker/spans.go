package worker

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/stint-tasks/stint/internal/traceheaders"
)

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

// origin returns the context of a performance, with the baggage that the task has brought, and the
// options of its span, which links to the span in which the task was inserted: it is no child of
// that one, which may have ended long ago, as OpenTelemetry's conventions for messages have it.
func (t *telemetry) origin(p *performance) (context.Context, []trace.SpanStartOption) {
	ctx, options := p.ctx, p.of.telemetry.span
	if len(p.task.Headers) == 0 {
		return ctx, options
	}
	from := traceheaders.Or(t.propagator).Extract(
		context.Background(), traceheaders.Carrier(p.task.Headers))
	if brought := baggage.FromContext(from); brought.Len() > 0 {
		ctx = baggage.ContextWithBaggage(ctx, brought)
	}
	if inserted := trace.SpanContextFromContext(from); inserted.IsValid() {
		options = append(slices.Clip(options),
			trace.WithLinks(trace.Link{SpanContext: inserted}))
	}
	return ctx, options
}
