package worker

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"

	"github.com/stint-tasks/stint/internal/traceheaders"
)

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

// errCutShort is how a step ends whose function neither returns nor has an error.
var errCutShort = errors.New("the step panicked, or ended its goroutine")

// traced calls the function of a step in a span of its own, below that of the performance.
func traced[T any](
	ctx context.Context, task *Task, name string, do func(ctx context.Context) (T, error),
) (value T, err error) {
	ctx, span := task.telemetry.beginStep(ctx, task, name)
	err = errCutShort
	defer func() { task.telemetry.endStep(span, err) }()
	value, err = do(ctx)
	return value, err
}

func (t *telemetry) beginStep(
	ctx context.Context, task *Task, name string,
) (context.Context, trace.Span) {
	in, span := ctx, trace.SpanFromContext(context.Background())
	t.tell(t.tracing, 1, func(int) {
		inside, begun := t.tracer.Start(ctx, "stint.step", trace.WithAttributes(
			actionKey.String(task.Action), attribute.String("stint.task.id", string(task.ID)),
			attribute.String("stint.step", name)))
		if inside != nil && begun != nil {
			in, span = inside, begun
		}
	})
	return in, span
}

func (t *telemetry) endStep(span trace.Span, err error) {
	t.tell(t.tracing, 1, func(int) {
		defer span.End()
		failSpan(span, err)
	})
}
