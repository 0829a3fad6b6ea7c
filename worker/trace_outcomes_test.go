package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

// A task that is put off, or given back since the worker stops, is no error in the trace; a call
// for several tasks that fails is one; and all say what OpenTelemetry's conventions for messages
// ask for.
// Proves G318.
func TestWorker_TracesWhatPeopleLookFor(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	for _, action := range []string{"snooze", "stop", "batch"} {
		insert(t, store, stint.Task{ID: stint.TaskID(action + "/1"), Action: action})
	}
	spans := tracetest.NewSpanRecorder()
	begun, failed := make(chan string, 3), errors.New("no")
	w := newWorker(t, store, worker.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
	},
		worker.Handle("snooze", func(context.Context, *worker.Task) (worker.Result, error) {
			begun <- "snooze"
			return worker.Result{}, worker.Snooze(time.Hour)
		}),
		worker.Handle("stop", func(ctx context.Context, _ *worker.Task) (worker.Result, error) {
			begun <- "stop"
			<-ctx.Done()
			return worker.Result{}, ctx.Err()
		}),
		worker.HandleBatch("batch", worker.Batch{Size: 1},
			func(context.Context, []*worker.BatchTask) error {
				begun <- "batch"
				return failed
			}))
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	for range 3 {
		<-begun
	}
	for len(spans.Ended()) < 3 { // the snoozed one, the batch and its task
		<-time.After(10 * time.Millisecond)
	}
	cancel()
	if err := <-ran; err != nil {
		t.Errorf("Run = %v", err)
	}
	want := map[string]codes.Code{
		"stint.perform snooze": codes.Unset, "stint.perform stop": codes.Unset,
		"stint.perform batch": codes.Error, "stint.perform_batch batch": codes.Error,
	}
	for _, span := range spans.Ended() {
		got := map[attribute.Key]string{}
		for _, a := range span.Attributes() {
			got[a.Key] = a.Value.String()
		}
		action := got["messaging.destination.name"]
		name := span.Name() + " " + action
		status, ok := want[name]
		if delete(want, name); !ok || span.Status().Code != status ||
			(status == codes.Unset) != (len(span.Events()) == 0) {
			t.Errorf("%s: %v, events %v, want %v", name, span.Status(), span.Events(), status)
		}
		ofBatch := span.Name() == "stint.perform_batch"
		if span.SpanKind() != trace.SpanKindConsumer || got["messaging.system"] != "stint" ||
			got["messaging.operation.name"] != "perform" ||
			got["messaging.operation.type"] != "process" ||
			!ofBatch && got["messaging.message.id"] != action+"/1" ||
			ofBatch && got["messaging.batch.message_count"] != "1" {
			t.Errorf("%s: %v %v", name, span.SpanKind(), got)
		}
	}
	if len(want) > 0 {
		t.Errorf("no spans of %v", want)
	}
}
