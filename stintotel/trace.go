package stintotel

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/traceheaders"
)

// Headers returns what the field Headers of [stint.Options], and of the options of a client, takes:
// a function that returns the headers by which tasks carry the trace of whoever inserts them, as a
// propagator of OpenTelemetry writes them. W3C Trace Context writes traceparent and tracestate.
//
//	store, err := stint.New(pool, stint.Options{Headers: stintotel.Headers(nil)})
//
// So the spans of tasks link to the span that was in the context of their insert, such as that of a
// request, of [Insert], or of a task that inserts others: see package worker, whose option
// Propagator has the same default. Nil stands for the global propagator of package otel or, if none
// was set, for W3C Trace Context.
func Headers(propagator propagation.TextMapPropagator) func(context.Context) map[string]string {
	return func(ctx context.Context) map[string]string {
		written := traceheaders.Carrier{}
		traceheaders.Or(propagator).Inject(ctx, written)
		return written
	}
}

// Insert calls insert, such as [stint.Store.InsertTasks], in a span of the kind producer, which
// ends when insert does, and returns its error. With [Headers] the spans of the tasks link to this
// one.
//
//	err := stintotel.Insert(ctx, nil, tasks, store.InsertTasks)
//
// It works for a store, in a transaction, and for a client of a service. A function that begins a
// transaction, inserts the tasks and commits makes a span that lasts until the tasks are there.
// Nil stands for the global provider of package otel. The tasks are only told of, not changed.
//
// By OpenTelemetry's conventions for messages the name of the span is "insert mail" for tasks with
// the action mail, "insert" for tasks with several. It has the attributes messaging.system, which
// is stint, messaging.operation.name, which is insert, messaging.operation.type, which is send, and
// messaging.destination.name, which is the action; of one task messaging.message.id, which is its
// ID, of several or none messaging.batch.message_count. If insert fails, the status is Error,
// error.type is the type of the error below those of package fmt, and an event exception has its
// text.
func Insert(
	ctx context.Context, provider trace.TracerProvider, tasks []stint.Task,
	insert func(context.Context, []stint.Task) error,
) error {
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	const operation = "insert"
	name, attributes := operation, []attribute.KeyValue{
		attribute.String("messaging.system", "stint"),
		attribute.String("messaging.operation.name", operation),
		attribute.String("messaging.operation.type", "send"),
	}
	if action, ok := actionOf(tasks); ok {
		name += " " + action
		attributes = append(attributes, attribute.String("messaging.destination.name", action))
	}
	if len(tasks) != 1 {
		attributes = append(attributes,
			attribute.Int("messaging.batch.message_count", len(tasks)))
	}
	ctx, span := provider.Tracer(scope).Start(ctx, name,
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attributes...))
	defer span.End()
	err := insert(ctx, tasks)
	if len(tasks) == 1 && tasks[0].ID != "" { // which the call may have given it
		span.SetAttributes(attribute.String("messaging.message.id", string(tasks[0].ID)))
	}
	if err != nil {
		span.SetAttributes(attribute.String("error.type", traceheaders.ClassOf(err)))
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	return err
}

// actionOf is the action of tasks, if they all have the same.
func actionOf(tasks []stint.Task) (action string, ok bool) {
	for i := range tasks {
		if tasks[i].Action != tasks[0].Action {
			return "", false
		}
	}
	if len(tasks) == 0 {
		return "", false
	}
	return tasks[0].Action, true
}
