package worker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

// A traced is one way in which a try of a task ends, and what its span tells of that.
type traced struct {
	perform func(ctx context.Context, task *worker.Task) error
	options []worker.HandlerOption
	last    bool // the task has no other try

	outcome worker.Outcome
	// The status, error.type and the event of an exception, if it is an error.
	text, class string
}

// plain is the class of an error that errors.New has made.
const plain = "*errors.errorString"

// waysToEnd are the ways by the names of their actions. A handler that hangs does so until the
// test ends.
func waysToEnd(store *stint.Store, over <-chan struct{}) map[string]traced {
	errNo := errors.New("no")
	fails := func(err error) func(context.Context, *worker.Task) error {
		return func(context.Context, *worker.Task) error { return err }
	}
	waits := func(ctx context.Context, _ *worker.Task) error {
		<-ctx.Done()
		return ctx.Err()
	}
	loses := func(says error) func(ctx context.Context, task *worker.Task) error {
		return func(ctx context.Context, task *worker.Task) error {
			_, err := store.AbortTasks(
				context.WithoutCancel(ctx), []stint.TaskID{task.ID}, "by somebody else")
			<-ctx.Done()
			return errors.Join(err, says)
		}
	}
	return map[string]traced{
		"complete": {perform: fails(nil), outcome: worker.OutcomeCompleted},
		"snooze": {
			perform: fails(worker.Snooze(time.Hour)), outcome: worker.OutcomeSnoozed,
		},
		"stop": {perform: waits, outcome: worker.OutcomeStopped},
		"fail": {
			perform: fails(fmt.Errorf("say: %w", errNo)),
			outcome: worker.OutcomeRetried, text: "say: no", class: plain,
		},
		"fail-last": {
			perform: fails(errNo), last: true,
			outcome: worker.OutcomeAborted, text: "no", class: plain,
		},
		"retry-after": {
			perform: fails(errors.Join(errNo, worker.RetryAfter(time.Hour))),
			outcome: worker.OutcomeRetried, text: "no", class: "*errors.joinError",
		},
		"abort": {
			perform: fails(worker.Abort(errNo)),
			outcome: worker.OutcomeAborted, text: "no", class: "*worker.abortError",
		},
		"panic": {
			perform: func(context.Context, *worker.Task) error { panic("oh") },
			outcome: worker.OutcomeRetried, text: "panic: oh", class: "*worker.panicError",
		},
		"exit": {
			perform: func(context.Context, *worker.Task) error {
				runtime.Goexit()
				return nil
			},
			outcome: worker.OutcomeRetried, text: "handler called runtime.Goexit",
			class: plain,
		},
		"time-out": {
			perform: waits, options: []worker.HandlerOption{worker.WithTimeout(1)},
			outcome: worker.OutcomeRetried,
			text:    "context deadline exceeded", class: "context.deadlineExceededError",
		},
		"overdue": {
			perform: func(context.Context, *worker.Task) error {
				<-over
				return nil
			},
			options: []worker.HandlerOption{worker.WithTimeout(1), worker.WithTimeoutGrace(1)},
			outcome: worker.OutcomeOverdue, text: "handler did not return", class: plain,
		},
		"lose": {perform: loses(nil), outcome: worker.OutcomeLost},
		"lose-and-fail": {
			perform: loses(errNo), outcome: worker.OutcomeLost, text: "no",
			class: "*errors.joinError",
		},
	}
}

// The origin is what the headers of a task say of the span of its insert.
const origin = "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01"

// Whichever way a try ends: its span has the name, the kind, the attributes and the link of
// OpenTelemetry's conventions for messages, and tells of an error where there was one. A task that
// is put off, or given back since the worker stops, is none.
// Proves G318.
func TestWorker_TracesEachWayToEnd(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	over := make(chan struct{})
	ways := waysToEnd(store, over)
	var handlers []worker.Registration
	for action, way := range ways {
		task := stint.Task{
			ID: stint.TaskID(action + "/1"), Action: action,
			Headers: map[string]string{"traceparent": origin},
		}
		if way.last {
			task.MaxTries = 1
		}
		insert(t, store, task)
		handler := func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			return worker.Result{}, way.perform(ctx, task)
		}
		handlers = append(handlers, worker.Handle(action, handler, way.options...))
	}
	spans := tracetest.NewSpanRecorder()
	stop := run(t, newWorker(t, store, worker.Options{
		Actor: "me", Concurrency: len(ways),
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
		Retry:          worker.Retry{Base: time.Hour, Max: time.Hour},
	}, handlers...))
	endedSpans(spans, len(ways)-1) // all but the one that waits for the stop
	close(over)
	if err := stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
	for _, span := range spans.Ended() {
		action := strings.TrimPrefix(span.Name(), "perform ")
		way, ok := ways[action]
		if delete(ways, action); !ok {
			t.Errorf("a span of %q, or another one", span.Name())
			continue
		}
		wantAttributes(t, span, messaging("perform", action, map[attribute.Key]string{
			"messaging.message.id": action + "/1",
			"stint.task.id":        action + "/1", "stint.task.try": "1",
			"stint.outcome": string(way.outcome),
		}), way.class)
		wantError(t, span, way.text)
		links := span.Links()
		if len(links) != 1 || links[0].SpanContext.SpanID() != [8]byte{1, 2, 3, 4, 5, 6, 7, 8} ||
			span.Parent().IsValid() || span.SpanKind() != trace.SpanKindConsumer {
			t.Errorf("%s: %v, in %v, links to %v", span.Name(), span.SpanKind(), span.Parent(),
				links)
		}
	}
	if len(ways) > 0 {
		t.Errorf("no spans of %v", slices.Collect(maps.Keys(ways)))
	}
}

// A call for several tasks has a span of its own, which links to those of the tasks and fails as
// the call does; the span of a task fails as the task does.
// Proves G318.
func TestWorker_TracesCallsForSeveralTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	spans := tracetest.NewSpanRecorder()
	var handlers []worker.Registration
	calls := map[string]worker.BatchHandler{
		"whole": func(context.Context, []*worker.BatchTask) error { return errors.New("no") },
		"part": func(_ context.Context, tasks []*worker.BatchTask) error {
			tasks[0].End(worker.Result{}, errors.New("no"))
			return nil
		},
	}
	for action, call := range calls {
		for _, task := range several(2, action) {
			task.Headers = map[string]string{"traceparent": origin}
			insert(t, store, task)
		}
		handlers = append(handlers,
			worker.HandleBatch(action, worker.Batch{Size: 2, Wait: time.Hour}, call))
	}
	stop := run(t, newWorker(t, store, worker.Options{
		Actor:          "me",
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
		Retry:          worker.Retry{Base: time.Hour, Max: time.Hour},
	}, handlers...))
	endedSpans(spans, 6)
	if err := stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
	failed := map[string]int{}
	tries := map[trace.SpanID]string{}
	for _, span := range spans.Ended() {
		if span.Status().Code == codes.Error {
			failed[span.Name()]++
		}
		if action, ok := strings.CutPrefix(span.Name(), "perform "); ok {
			tries[span.SpanContext().SpanID()] = action
		}
	}
	want := map[string]int{"perform_batch whole": 1, "perform whole": 2, "perform part": 1}
	if !maps.Equal(failed, want) || len(tries) != 4 {
		t.Errorf("%v have failed, want %v; %d tries", failed, want, len(tries))
	}
	for _, span := range spans.Ended() {
		action, ok := strings.CutPrefix(span.Name(), "perform_batch ")
		if !ok {
			continue
		}
		class := ""
		if action == "whole" {
			class = "*errors.errorString"
		}
		wantAttributes(t, span, messaging("perform_batch", action, map[attribute.Key]string{
			"messaging.batch.message_count": "2",
		}), class)
		for _, link := range span.Links() {
			if tries[link.SpanContext.SpanID()] != action {
				t.Errorf("%s links to %v", span.Name(), link)
			}
		}
		if len(span.Links()) != 2 || span.SpanKind() != trace.SpanKindConsumer {
			t.Errorf("%s: %v, links to %v", span.Name(), span.SpanKind(), span.Links())
		}
	}
}

// endedSpans waits until so many spans have ended.
func endedSpans(spans *tracetest.SpanRecorder, n int) {
	for len(spans.Ended()) < n {
		<-time.After(10 * time.Millisecond)
	}
}

// messaging returns the attributes of all spans of an operation and an action, and more.
func messaging(
	operation, action string, more map[attribute.Key]string,
) map[attribute.Key]string {
	all := map[attribute.Key]string{
		"messaging.system":         "stint",
		"messaging.operation.name": operation, "messaging.operation.type": "process",
		"messaging.destination.name": action, "messaging.client.id": "me",
		"stint.task.action": action, "stint.actor": "me",
	}
	maps.Copy(all, more)
	return all
}

// wantAttributes checks that a span has these attributes, error.type if it is given, and no other.
func wantAttributes(
	t *testing.T, span sdktrace.ReadOnlySpan, want map[attribute.Key]string, class string,
) {
	t.Helper()
	got := map[attribute.Key]string{}
	for _, a := range span.Attributes() {
		got[a.Key] = a.Value.String()
	}
	if class != "" {
		want["error.type"] = class
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s has the attributes %v, want %v", span.Name(), got, want)
	}
}

// wantError checks that a span tells of an error that has the text, or of none.
func wantError(t *testing.T, span sdktrace.ReadOnlySpan, text string) {
	t.Helper()
	status, events := span.Status(), span.Events()
	if text == "" {
		if status.Code != codes.Unset || len(events) > 0 {
			t.Errorf("%s: %v, events %v, want no error", span.Name(), status, events)
		}
		return
	}
	if status.Code != codes.Error || !strings.Contains(status.Description, text) ||
		len(events) != 1 || events[0].Name != "exception" {
		t.Errorf("%s: %v, events %v, want the error %q", span.Name(), status, events, text)
	}
}
