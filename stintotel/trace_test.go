package stintotel_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/migrations"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/stintotel"
	"github.com/stint-tasks/stint/stintsql"
	"github.com/stint-tasks/stint/worker"
)

// A traced is a store whose tasks carry the traces of whoever inserts them.
type traced struct {
	*stint.Store
	pool     *pgxpool.Pool
	exporter *tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider
	carries  propagation.TextMapPropagator
}

func newTraced(t *testing.T) *traced {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	s := &traced{
		pool: testdb.New(t), exporter: exporter,
		provider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)),
		carries: propagation.NewCompositeTextMapPropagator(
			propagation.TraceContext{}, propagation.Baggage{}),
	}
	var err error
	s.Store, err = stint.New(s.pool, stint.Options{Headers: stintotel.Headers(s.carries)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

// spans returns the spans of a name, in the order in which they have begun.
func (s *traced) spans(name string) []tracetest.SpanStub {
	return s.spansIf(func(span tracetest.SpanStub) bool { return span.Name == name })
}

// tries returns the spans of the tries of a task, or of all tasks.
func (s *traced) tries(id stint.TaskID) []tracetest.SpanStub {
	of := attribute.String("stint.task.id", string(id))
	return s.spansIf(func(span tracetest.SpanStub) bool {
		return strings.HasPrefix(span.Name, "perform ") &&
			(id == "" || slices.Contains(span.Attributes, of))
	})
}

func (s *traced) spansIf(is func(tracetest.SpanStub) bool) []tracetest.SpanStub {
	found := slices.DeleteFunc(s.exporter.GetSpans(), func(span tracetest.SpanStub) bool {
		return !is(span)
	})
	slices.SortFunc(found, func(a, b tracetest.SpanStub) int {
		return a.StartTime.Compare(b.StartTime)
	})
	return found
}

// request is a span such as that of an HTTP request, in which work is done.
func (s *traced) request(
	t *testing.T, name string, work func(ctx context.Context) error,
) trace.SpanContext {
	t.Helper()
	ctx, span := s.provider.Tracer("app").Start(t.Context(), name)
	defer span.End()
	if err := work(ctx); err != nil {
		t.Fatalf("%s = %v", name, err)
	}
	return span.SpanContext()
}

// perform performs the tasks of a queue that are ready.
func (s *traced) perform(t *testing.T, queue worker.Queue, handlers ...worker.Registration) {
	t.Helper()
	w, err := worker.New(queue, worker.Options{
		TracerProvider: s.provider, Propagator: s.carries,
		Retry: worker.Retry{Base: time.Nanosecond, Max: time.Nanosecond},
	}, handlers...)
	if err != nil {
		t.Fatal(err)
	}
	for {
		done, ok, err := w.PerformNext(t.Context())
		switch {
		case err != nil:
			t.Fatalf("PerformNext = %+v, %v", done, err)
		case !ok:
			return
		}
	}
}

// wantLink checks that a span begins a trace of its own, and links to another one.
func wantLink(t *testing.T, what string, span tracetest.SpanStub, to trace.SpanContext) {
	t.Helper()
	if len(span.Links) != 1 || span.Links[0].SpanContext.TraceID() != to.TraceID() ||
		span.Links[0].SpanContext.SpanID() != to.SpanID() {
		t.Errorf("%s links to %+v, want %v", what, span.Links, to)
	}
	if span.Parent.IsValid() || span.SpanContext.TraceID() == to.TraceID() {
		t.Errorf("%s is a child of %v, and part of that trace", what, span.Parent)
	}
}

// As in asynq#321 and taskq#69: a request inserts a task, which fails once; its tries link to the
// request, and what it does is below them. The task inserts another one, which links to it.
// Proves G235.
func TestHeaders_TracesCrossTheQueue(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newTraced(t)
	request := s.request(t, "POST /orders", func(ctx context.Context) error {
		return s.InsertTasks(ctx, []stint.Task{{ID: "charge", Action: "charge"}})
	})
	charge := func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		_, err := worker.Step(ctx, task, "reserve", func(ctx context.Context) (int, error) {
			_, span := s.provider.Tracer("app").Start(ctx, "SELECT")
			span.End()
			return 1, nil
		})
		if err != nil {
			return worker.Result{}, err
		}
		_, err = worker.Step(ctx, task, "capture", func(context.Context) (int, error) {
			if task.Try == 1 {
				return 0, errors.New("declined")
			}
			return 1, nil
		})
		if err != nil {
			return worker.Result{}, err
		}
		mail := stint.Task{ID: "mail", Action: "mail"}
		return worker.Result{}, s.InsertTasks(ctx, []stint.Task{mail})
	}
	mail := func(context.Context, *worker.Task) (worker.Result, error) {
		return worker.Result{}, nil
	}
	for len(s.tries("")) < 3 { // a second try has to wait for its time
		s.perform(t, s.Store, worker.Handle("charge", charge), worker.Handle("mail", mail))
	}
	tries := s.tries("charge")
	if len(tries) != 2 || len(s.tries("")) != 3 {
		t.Fatalf("%d spans of tries, want 2", len(tries))
	}
	for i, span := range tries {
		wantLink(t, "a try", span, request)
		if !slices.Contains(span.Attributes, attribute.Int("stint.task.try", i+1)) {
			t.Errorf("try %d has the attributes %v", i+1, span.Attributes)
		}
	}
	successor := s.tries("mail")[0]
	wantLink(t, "the successor", successor, tries[1].SpanContext)
	steps := s.spans("stint.step")
	if len(steps) != 3 { // the first one is recorded at the second try
		t.Fatalf("%d spans of steps, want 3", len(steps))
	}
	for i, want := range []struct {
		name   string
		within tracetest.SpanStub
		status codes.Code
	}{
		{"reserve", tries[0], codes.Unset},
		{"capture", tries[0], codes.Error},
		{"capture", tries[1], codes.Unset},
	} {
		step := steps[i]
		if step.Parent.SpanID() != want.within.SpanContext.SpanID() ||
			step.Status.Code != want.status ||
			!slices.Contains(step.Attributes, attribute.String("stint.step", want.name)) {
			t.Errorf("step %d is %+v", i, step)
		}
	}
	if inner := s.spans("SELECT"); inner[0].Parent.SpanID() != steps[0].SpanContext.SpanID() {
		t.Errorf("the span within a step is %+v", inner)
	}
}

// As in apalis#664, in whichever way a task gets into the store and out of it.
// Proves G235.
func TestHeaders_TracesCrossByEveryWay(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newTraced(t)
	functions, err := migrations.Functions(migrations.DefaultSchema)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), functions); err != nil {
		t.Fatal(err)
	}
	address, _ := testservice.Start(t, s.pool, s.Store, service.Options{})
	remote := testservice.Client(t, address,
		client.Options{Headers: stintotel.Headers(s.carries)})
	db := stdlib.OpenDBFromPool(s.pool)
	t.Cleanup(func() { _ = db.Close() })
	one := func(id stint.TaskID) []stint.Task { return []stint.Task{{ID: id, Action: "act"}} }
	want := map[stint.TaskID]trace.SpanContext{}
	for id, insert := range map[stint.TaskID]func(ctx context.Context) error{
		"store": func(ctx context.Context) error { return s.InsertTasks(ctx, one("store")) },
		"service": func(ctx context.Context) error {
			return remote.InsertTasks(ctx, one("service"))
		},
		"stream": func(ctx context.Context) error {
			_, err := remote.InsertTasksFrom(ctx, func(yield func(stint.Task, error) bool) {
				yield(one("stream")[0], nil)
			})
			return err
		},
		"transact": func(ctx context.Context) error {
			_, err := remote.Transact(ctx, client.Transaction{Insert: one("transact")})
			return err
		},
		"debounce": func(ctx context.Context) error {
			return remote.Debounce(ctx, one("debounce")[0], time.Microsecond, time.Microsecond)
		},
		"function": func(ctx context.Context) error {
			written := propagation.MapCarrier{}
			s.carries.Inject(ctx, written)
			_, err := s.pool.Exec(ctx,
				"SELECT stint.add_task('act', id => 'function', headers => $1)", written)
			return err
		},
		"stintsql": func(ctx context.Context) error {
			return s.insertBySQL(ctx, db, one("stintsql"))
		},
	} {
		want[id] = s.request(t, string(id), insert)
	}
	seen := map[stint.TaskID]bool{}
	act := func(_ context.Context, task *worker.Task) (worker.Result, error) {
		seen[task.ID] = true
		return worker.Result{}, nil
	}
	for len(seen) < len(want) {
		for _, queue := range []worker.Queue{remote, s.Store} {
			s.perform(t, queue, worker.Handle("act", act))
		}
	}
	for id, request := range want {
		spans := s.tries(id)
		if len(spans) != 1 {
			t.Errorf("%q has %d spans", id, len(spans))
			continue
		}
		wantLink(t, string(id), spans[0], request)
	}
}

func (s *traced) insertBySQL(ctx context.Context, db *sql.DB, tasks []stint.Task) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	bound, err := stintsql.PgxTx(ctx, tx)
	if err == nil {
		err = s.WithTx(bound).InsertTasks(ctx, tasks)
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Baggage that comes with the trace is the handler's, and goes on to the tasks that it inserts.
// Without a trace there are no headers, and no link.
// Proves G235.
func TestHeaders_CarryBaggageAndNothingWhereThereIsNone(t *testing.T) {
	t.Parallel()
	s := newTraced(t)
	member, err := baggage.NewMember("tenant", "acme")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	s.request(t, "POST", func(ctx context.Context) error {
		ctx = baggage.ContextWithBaggage(ctx, bag)
		return s.InsertTasks(ctx, []stint.Task{{ID: "with", Action: "act"}})
	})
	err = s.InsertTasks(t.Context(), []stint.Task{{ID: "without", Action: "act"}})
	if err != nil {
		t.Fatal(err)
	}
	brought := map[stint.TaskID]string{}
	s.perform(t, s.Store, worker.Handle("act",
		func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			brought[task.ID] = baggage.FromContext(ctx).Member("tenant").Value()
			if task.ID == "without" && task.Headers != nil {
				t.Errorf("without a trace the headers are %q", task.Headers)
			}
			return worker.Result{}, nil
		}))
	if brought["with"] != "acme" || brought["without"] != "" {
		t.Errorf("handlers have the baggage %q", brought)
	}
	without := s.tries("without")
	if len(without) != 1 || len(without[0].Links) > 0 {
		t.Errorf("without a trace the spans are %+v", without)
	}
}

// Of tasks that are performed together, each has a span that links to its insert, and its baggage.
// Proves G235.
func TestHeaders_TracesOfABatchStayApart(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newTraced(t)
	requests := map[stint.TaskID]trace.SpanContext{}
	for _, id := range []stint.TaskID{"acme", "other"} {
		bag, err := baggage.Parse("tenant=" + string(id))
		if err != nil {
			t.Fatal(err)
		}
		requests[id] = s.request(t, "POST", func(ctx context.Context) error {
			return s.InsertTasks(baggage.ContextWithBaggage(ctx, bag),
				[]stint.Task{{ID: id, Action: "act"}})
		})
	}
	tenant := func(ctx context.Context) string {
		return baggage.FromContext(ctx).Member("tenant").Value()
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w, err := worker.New(s.Store, worker.Options{TracerProvider: s.provider, Propagator: s.carries},
		worker.HandleBatch("act", worker.Batch{Size: 2, Wait: time.Hour},
			func(ctx context.Context, tasks []*worker.BatchTask) error {
				defer stop()
				if len(tasks) != 2 || tenant(ctx) != "" {
					t.Errorf("%d tasks, with the baggage of %q", len(tasks), tenant(ctx))
				}
				for _, task := range tasks {
					if got := tenant(task.Context()); got != string(task.ID) {
						t.Errorf("%q has the baggage of %q", task.ID, got)
					}
				}
				return nil
			}))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for id, request := range requests {
		spans := s.tries(id)
		if len(spans) != 1 {
			t.Fatalf("%q has %d spans", id, len(spans))
		}
		wantLink(t, string(id), spans[0], request)
	}
}

// Without a global propagator, that of W3C is the default of both sides; what no header can be
// leaves a task as it is.
// Proves G235.
func TestHeaders_DefaultToW3CTraceContext(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newTraced(t)
	s.request(t, "GET", func(ctx context.Context) error {
		written := stintotel.Headers(nil)(ctx)
		var names []string
		for name := range written {
			names = append(names, name)
		}
		if !slices.Equal(names, []string{"traceparent"}) {
			t.Errorf("the headers are %q", written)
		}
		return nil
	})
	wrong := stint.Task{ID: "wrong", Action: "act", Headers: map[string]string{
		"traceparent": "nonsense", "baggage": ";;;=,",
	}}
	if err := s.InsertTasks(t.Context(), []stint.Task{wrong}); err != nil {
		t.Fatal(err)
	}
	s.perform(t, s.Store, worker.Handle("act",
		func(context.Context, *worker.Task) (worker.Result, error) {
			return worker.Result{}, nil
		}))
	spans := s.tries("")
	if len(spans) != 1 || len(spans[0].Links) > 0 {
		t.Errorf("the spans are %+v", spans)
	}
}
