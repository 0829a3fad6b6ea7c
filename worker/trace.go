package worker

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"
)

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
