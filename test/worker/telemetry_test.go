package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

// ends runs a worker over one task for each way to end, and stops it.
func ends(t *testing.T, options worker.Options) {
	t.Helper()
	store, _ := newStoreAndPool(t)
	for _, id := range []stint.TaskID{"complete", "fail", "abort", "panic", "lose"} {
		insert(t, store, stint.Task{ID: id, Action: "a", MaxTries: 1})
	}
	w := newWorker(t, store, options,
		worker.Handle("a", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			span := trace.SpanFromContext(ctx).SpanContext()
			if !span.IsValid() && options.TracerProvider != nil {
				t.Error("the handler's context has no span")
			}
			switch task.ID {
			case "fail":
				return worker.Result{}, errors.New("no")
			case "abort":
				return worker.Result{}, worker.Abort(errors.New("never"))
			case "panic":
				panic(task.ID)
			case "lose":
				_, err := store.AbortTasks(context.WithoutCancel(ctx), []stint.TaskID{"lose"}, "")
				<-ctx.Done()
				return worker.Result{}, err
			}
			return worker.Result{}, nil
		}))
	stop := run(t, w)
	finished(t, store, "complete", "fail", "abort", "panic", "lose")
	if err := stop(); err != nil {
		t.Fatalf("Run = %v", err)
	}
}

func TestWorker_MakesASpanOfEachPerformance(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	spans := tracetest.NewSpanRecorder()
	ends(t, worker.Options{
		Actor:          "me",
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
	})
	want := map[string]struct {
		outcome string
		status  codes.Code
	}{
		"complete": {"completed", codes.Unset}, "fail": {"aborted", codes.Error},
		"abort": {"aborted", codes.Error}, "panic": {"aborted", codes.Error},
		"lose": {"lost", codes.Unset},
	}
	if n := len(spans.Ended()); n != len(want) {
		t.Fatalf("%d spans, want %d", n, len(want))
	}
	for _, span := range spans.Ended() {
		got := map[attribute.Key]string{}
		for _, a := range span.Attributes() {
			got[a.Key] = a.Value.String()
		}
		id := got["stint.task.id"]
		if span.Name() != "perform a" || span.SpanKind() != trace.SpanKindConsumer ||
			got["stint.task.action"] != "a" || got["stint.task.try"] != "1" ||
			got["stint.actor"] != "me" || got["stint.outcome"] != want[id].outcome ||
			span.Status().Code != want[id].status {
			t.Errorf("task %s: %s %v %v, want %v", id, span.Name(), got, span.Status(), want[id])
		}
	}
}

func TestWorker_CountsPerformances(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	reader := metric.NewManualReader()
	ends(t, worker.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	var collected metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &collected); err != nil {
		t.Fatal(err)
	}
	performed, timed := map[string]int{}, map[string]int{}
	outcome := func(set attribute.Set) string {
		value, _ := set.Value("stint.outcome")
		if action, _ := set.Value("stint.task.action"); action.AsString() != "a" {
			t.Errorf("action = %q", action.AsString())
		}
		return value.AsString()
	}
	running := false
	for _, m := range collected.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, point := range data.DataPoints {
				switch m.Name {
				case "stint.worker.performances":
					performed[outcome(point.Attributes)] += int(point.Value)
				case "stint.worker.running":
					running = true
					if point.Value != 0 {
						t.Errorf("%d running at the end", point.Value)
					}
				}
			}
		case metricdata.Histogram[float64]:
			for _, point := range data.DataPoints {
				timed[outcome(point.Attributes)] += int(point.Count)
			}
		}
	}
	want := map[string]int{"completed": 1, "aborted": 3, "lost": 1}
	for name, n := range want {
		if performed[name] != n || timed[name] != n {
			t.Errorf("%s: %d performed, %d timed, want %d", name, performed[name], timed[name], n)
		}
	}
	if len(performed) != len(want) || !running {
		t.Errorf("performed %v, want %v; running: %v", performed, want, running)
	}
}

// A page is a log that goroutines may write and read.
type page struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (p *page) Write(text []byte) (int, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.text.Write(text)
}

func (p *page) String() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.text.String()
}

// Proves G165.
func TestWorker_LogsWhatBecomesOfTasksAndNoToken(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	var log page
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var mutex sync.Mutex
	var tokens []string
	remember := func(next worker.Handler) worker.Handler {
		return func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			mutex.Lock()
			tokens = append(tokens, task.Token.String())
			mutex.Unlock()
			return next(ctx, task)
		}
	}
	ends(t, worker.Options{Middleware: []worker.Middleware{remember}, Logger: logger})
	lines := strings.Split(log.String(), "\n")
	for _, want := range [][]string{
		{"level=INFO", `msg="worker starts"`, "actor=", "actions=[a]"},
		{"level=DEBUG", `msg="task begins"`, "task=complete", "action=a", "try=1"},
		{"level=DEBUG", `msg="task completed"`, "task=complete"},
		{"level=WARN", `msg="handler failed"`, "task=fail", "error=no", "outcome=aborted"},
		{"level=WARN", `msg="handler failed"`, "task=abort", "error=never", "outcome=aborted"},
		{"level=ERROR", `msg="handler panicked"`, "task=panic", "panic=panic", "telemetry_test.go"},
		{"level=DEBUG", `msg="task lost"`, "task=lose", "cause="},
		{"level=INFO", `msg="worker stops"`},
		{"level=INFO", `msg="worker has stopped"`},
	} {
		hasAll := func(line string) bool {
			return !slices.ContainsFunc(want, func(part string) bool {
				return !strings.Contains(line, part)
			})
		}
		if !slices.ContainsFunc(lines, hasAll) {
			t.Errorf("no line has %q in\n%s", want, log.String())
		}
	}
	if len(tokens) != 5 {
		t.Errorf("%d performances, want 5", len(tokens))
	}
	for _, token := range tokens {
		if strings.Contains(log.String(), token) {
			t.Error("the log has a token")
		}
	}
}

// Without a logger, failures and panics show in the default logger of log/slog.
// Proves G114.
func TestOptions_WarningsGoToTheDefaultLogger(t *testing.T) { //nolint:paralleltest // sets it
	before := slog.Default()
	defer slog.SetDefault(before)
	logger, logged := recorder(t)
	slog.SetDefault(logger)
	store := newStore(t, testdb.New(t))
	w := newWorker(t, store, worker.Options{},
		worker.Handle("fail", func(context.Context, *worker.Task) (worker.Result, error) {
			return worker.Result{}, worker.Abort(errors.New("broken"))
		}),
		worker.Handle("panic", func(_ context.Context, task *worker.Task) (worker.Result, error) {
			if task.Try == 1 {
				panic("lost my head")
			}
			return worker.Result{}, nil
		}))
	insert(t, store, stint.Task{ID: "f", Action: "fail"}, stint.Task{ID: "p", Action: "panic"})
	run(t, w)
	if got := attr(logged(t, "handler failed"), "error").String(); got != "broken" {
		t.Errorf("the error in the log is %q", got)
	}
	logged(t, "handler panicked")
}

// A handler that does not return when its time is over is told of while it goes on.
// Proves G114.
func TestWithTimeout_WarnsOfAHandlerThatGoesOn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t, testdb.New(t))
	logger, logged := recorder(t)
	release := make(chan struct{})
	w := newWorker(t, store, worker.Options{Logger: logger},
		worker.Handle("deaf", func(context.Context, *worker.Task) (worker.Result, error) {
			<-release
			return worker.Result{}, nil
		}, worker.WithTimeout(time.Millisecond)))
	insert(t, store, stint.Task{ID: "t", Action: "deaf"})
	run(t, w)
	record := logged(t, "handler still runs after its time-out")
	close(release)
	if got := attr(record, "task").String(); got != "t" {
		t.Errorf("the record is about task %q", got)
	}
	if got := attr(record, "timeout").Duration(); got != time.Millisecond {
		t.Errorf("the record has a time-out of %v", got)
	}
}
