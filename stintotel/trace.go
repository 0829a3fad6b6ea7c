package stintotel

import (
	"context"

	"go.opentelemetry.io/otel/propagation"

	"github.com/stint-tasks/stint/internal/traceheaders"
)

// Headers returns what the field Headers of [stint.Options], and of the options of a client, takes:
// a function that returns the headers by which tasks carry the trace of whoever inserts them, as a
// propagator of OpenTelemetry writes them. W3C Trace Context writes traceparent and tracestate.
//
//	store, err := stint.New(pool, stint.Options{Headers: stintotel.Headers(nil)})
//
// So the spans of tasks link to the span that was in the context of their insert, such as that of a
// request, or of a task that inserts others: see package worker, whose option Propagator has the
// same default. Nil stands for the global propagator of package otel or, if none was set, for W3C
// Trace Context.
func Headers(propagator propagation.TextMapPropagator) func(context.Context) map[string]string {
	return func(ctx context.Context) map[string]string {
		written := traceheaders.Carrier{}
		traceheaders.Or(propagator).Inject(ctx, written)
		return written
	}
}
