package stintotel_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/stintotel"
	"github.com/stint-tasks/stint/worker"
)

// An insert has a span of a producer, below that of the caller, to which the tries of the tasks
// link: by a store, in a transaction until its commit, and over the service.
// Proves G318.
func TestInsert_MakesASpanToWhichTheTriesLink(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newTraced(t)
	address, _ := testservice.Start(t, s.pool, s.Store, service.Options{})
	remote := testservice.Client(t, address,
		client.Options{Headers: stintotel.Headers(s.carries)})
	var committed time.Time
	ways := map[string]func(ctx context.Context, tasks []stint.Task) error{
		"store":  s.InsertTasks,
		"client": remote.InsertTasks,
		"ensure": func(ctx context.Context, tasks []stint.Task) error {
			_, err := s.EnsureTasks(ctx, tasks)
			return err
		},
		"tx": func(ctx context.Context, tasks []stint.Task) error {
			err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
				return s.WithTx(tx).InsertTasks(ctx, tasks)
			})
			committed = time.Now()
			return err
		},
	}
	ids := map[string]stint.TaskID{}
	requests := map[string]trace.SpanContext{}
	var handlers []worker.Registration
	for action, insert := range ways {
		requests[action] = s.request(t, action, func(ctx context.Context) error {
			tasks := []stint.Task{{Action: action}}
			err := stintotel.Insert(ctx, s.provider, tasks, insert)
			ids[action] = tasks[0].ID
			return err
		})
		handlers = append(handlers, worker.Handle(action,
			func(context.Context, *worker.Task) (worker.Result, error) {
				return worker.Result{}, nil
			}))
	}
	s.perform(t, s.Store, handlers...)
	for action, id := range ids {
		spans, tries := s.spans("insert "+action), s.tries(id)
		if len(spans) != 1 || len(tries) != 1 {
			t.Fatalf("%s: %d spans of the insert, %d of tries", action, len(spans), len(tries))
		}
		span := spans[0]
		wantLink(t, action, tries[0], span.SpanContext)
		if span.SpanKind != trace.SpanKindProducer || span.Status.Code != codes.Unset ||
			span.Parent.SpanID() != requests[action].SpanID() ||
			action == "tx" && span.EndTime.Before(committed) {
			t.Errorf("%s: the span is %+v", action, span)
		}
		wantAttributes(t, span.Attributes, map[attribute.Key]string{
			"messaging.destination.name": action, "messaging.message.id": string(id),
		})
	}
}

// The span says how many tasks there are, and of which action if it is one; it tells of an error,
// which is the caller's.
// Proves G318.
func TestInsert_TellsWhatIsInserted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newTraced(t)
	err := s.InsertTasks(t.Context(), []stint.Task{{ID: "there", Action: "act"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		tasks []stint.Task
		err   error
		want  map[attribute.Key]string
	}{
		"insert act": {
			[]stint.Task{{Action: "act"}, {Action: "act"}}, nil, map[attribute.Key]string{
				"messaging.destination.name": "act", "messaging.batch.message_count": "2",
			},
		},
		"insert": {
			[]stint.Task{{Action: "act"}, {Action: "other"}}, nil, map[attribute.Key]string{
				"messaging.batch.message_count": "2",
			},
		},
		"insert taken": {
			[]stint.Task{{ID: "there", Action: "taken"}},
			stint.ErrTaskExists,
			map[attribute.Key]string{
				"messaging.destination.name": "taken", "messaging.message.id": "there",
				"error.type": "*stint.TaskError",
			},
		},
	} {
		err := stintotel.Insert(t.Context(), s.provider, test.tasks, s.InsertTasks)
		if !errors.Is(err, test.err) {
			t.Errorf("%s = %v, want %v", name, err, test.err)
		}
		spans := s.spans(name)
		if len(spans) != 1 {
			t.Errorf("%d spans named %q", len(spans), name)
			continue
		}
		wantAttributes(t, spans[0].Attributes, test.want)
		status, events := spans[0].Status, spans[0].Events
		if err != nil && (status.Code != codes.Error || status.Description != err.Error() ||
			len(events) != 1) || err == nil && (status.Code != codes.Unset || len(events) > 0) {
			t.Errorf("%s: %+v, events %v", name, status, events)
		}
	}
	if err := stintotel.Insert(t.Context(), s.provider, nil, s.InsertTasks); err != nil {
		t.Errorf("Insert of nothing = %v", err)
	}
}

// wantAttributes checks that the span of an insert has these attributes besides those that all
// have, and no other.
func wantAttributes(t *testing.T, is []attribute.KeyValue, want map[attribute.Key]string) {
	t.Helper()
	got := map[attribute.Key]string{}
	for _, a := range is {
		got[a.Key] = a.Value.String()
	}
	want["messaging.system"] = "stint"
	want["messaging.operation.name"], want["messaging.operation.type"] = "insert", "send"
	if !maps.Equal(got, want) {
		t.Errorf("the attributes are %v, want %v", got, want)
	}
}
