package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

// A hostileError does in each of its methods what it is told to.
type hostileError struct {
	text               func() string
	is, as             func() bool
	unwrap             func() error
	format, log, write func()
}

func (e *hostileError) Error() string {
	if e.text != nil {
		return e.text()
	}
	return "hostile"
}

func (e *hostileError) Is(error) bool { return e.is != nil && e.is() }
func (e *hostileError) As(any) bool   { return e.as != nil && e.as() }

func (e *hostileError) Unwrap() error {
	if e.unwrap != nil {
		return e.unwrap()
	}
	return nil
}

func (e *hostileError) Format(state fmt.State, _ rune) {
	if e.format != nil {
		e.format()
	}
	_, _ = state.Write([]byte("formatted"))
}

func (e *hostileError) LogValue() slog.Value {
	if e.log != nil {
		e.log()
	}
	return slog.StringValue("logged")
}

func (e *hostileError) MarshalJSON() ([]byte, error) {
	if e.write != nil {
		e.write()
	}
	return []byte(`"written"`), nil
}

// A list is an error that cannot be compared, and wraps several.
type list []error

func (l list) Error() string   { return "list" }
func (l list) Unwrap() []error { return l }

// A hiding error passes nothing on but As.
type hiding struct{ err error }

func (h hiding) Error() string      { return "hiding" }
func (h hiding) As(target any) bool { return errors.As(h.err, target) }

// unprintable panics, with itself, when it is printed; leaving ends the goroutine.
type (
	unprintable struct{}
	leaving     struct{}
)

func (u unprintable) Error() string { panic(u) }

func (leaving) String() string {
	runtime.Goexit()
	return ""
}

// endless returns a value that cannot be printed to its end.
func endless() any {
	itself := map[string]any{}
	itself["itself"] = itself
	return itself
}

// A hostileCase is how a handler of the test ends, and how its task ends in its only try.
type hostileCase struct {
	end    func() (worker.Result, error)
	cause  stint.AbortCause
	status string
}

func failing(err error) func() (worker.Result, error) {
	return func() (worker.Result, error) { return worker.Result{}, err }
}

func hostileCases() map[string]hostileCase {
	boom := func() { panic("boom") }
	tries := stint.CauseTries
	cases := map[string]hostileCase{}
	add := func(name string, err error, cause stint.AbortCause, status string) {
		cases[name] = hostileCase{failing(err), cause, status}
	}
	var op *net.OpError
	var path *os.PathError
	var itself hostileError
	itself.unwrap = func() error { return &itself }
	both := make(list, 2)
	both[0], both[1] = both, both
	add("nil *net.OpError", op, tries, "panic: runtime error")
	add("nil *os.PathError", path, tries, "panic: runtime error")
	add("wrapped nil pointer", fmt.Errorf("w: %w", error(op)), tries, "panic: runtime error")
	add("nil pointer that is joined", errors.Join(errors.New("a"), op), tries, "panic: runtime")
	add("Abort of a nil pointer", worker.Abort(path), tries, "panic: runtime error")
	add("wraps itself", &itself, tries, "hostile")
	add("list of itself", both, tries, "list")
	add("list", list{errors.New("a"), worker.Abort(errors.New("b"))}, stint.CauseReturned, "list")
	add("no UTF-8", &os.PathError{Op: "open", Path: "caf\xe9", Err: errors.New("gone")}, tries,
		"open caf\ufffd: gone")
	add("a long text", errors.New(strings.Repeat("no", 1<<20)), tries, "nono")
	add("As alone", hiding{worker.Abort(nil)}, stint.CauseReturned, "hiding")
	for how, do := range map[string]func(){"panic": boom, "Goexit": runtime.Goexit} {
		status := map[string]string{
			"panic": "panic: boom", "Goexit": "handler called runtime.Goexit",
		}[how]
		add("Error: "+how, &hostileError{text: func() string { do(); return "" }}, tries, status)
		add("As: "+how, &hostileError{as: func() bool { do(); return true }}, tries, status)
		add("Unwrap: "+how, &hostileError{unwrap: func() error { do(); return nil }}, tries, status)
		// These are not called.
		add("Is: "+how, &hostileError{is: func() bool { do(); return true }}, tries, "hostile")
		add("Format: "+how, &hostileError{format: do}, tries, "hostile")
		add("LogValue: "+how, &hostileError{log: do}, tries, "hostile")
		add("MarshalJSON: "+how, &hostileError{write: do}, tries, "hostile")
	}
	var recursive *hostileError
	recursive = &hostileError{is: func() bool {
		return errors.Is(recursive, errors.ErrUnsupported)
	}}
	add("Is calls itself", recursive, tries, "hostile")
	add("As of nothing", &hostileError{as: func() bool { return true }}, tries, "hostile")
	for name, value := range map[string]any{
		"an error": unprintable{}, "text": "boom", "a nil pointer": op, "no end": endless(),
		"a hostile error": &hostileError{format: boom},
	} {
		cases["panics with "+name] = hostileCase{
			func() (worker.Result, error) { panic(value) }, tries, "panic: ",
		}
	}
	cases["panics with what ends the goroutine"] = hostileCase{
		func() (worker.Result, error) { panic(leaving{}) }, tries, "handler called runtime.Goexit",
	}
	return cases
}

// All code that is reached through the error of a handler is the handler's: the worker goes on, and
// the task ends as it would have.
// Proves G110.
func TestWorker_SurvivesEveryErrorOfAHandler(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	cases := hostileCases()
	handle := worker.Handle("a", func(_ context.Context, task *worker.Task) (worker.Result, error) {
		if of, ok := cases[string(task.ID)]; ok {
			return of.end()
		}
		return worker.Result{}, nil
	})
	tasks := func() []stint.Task {
		var all []stint.Task
		for name := range cases {
			all = append(all, stint.Task{ID: stint.TaskID(name), Action: "a", MaxTries: 1})
		}
		return append(all, stint.Task{ID: "good", Action: "a", MaxTries: 1})
	}
	check := func(t *testing.T, store *stint.Store) {
		t.Helper()
		for name, want := range cases {
			got := finished(t, store, stint.TaskID(name))[0]
			if got.AbortCause != want.cause || !strings.HasPrefix(got.Status, want.status) {
				t.Errorf("%s: cause %q, status %.200q, want %q, %q", name, got.AbortCause,
					got.Status, want.cause, want.status)
			}
		}
	}
	level := &slog.HandlerOptions{Level: slog.LevelDebug}
	for name, logger := range map[string]*slog.Logger{
		"text": slog.New(slog.NewTextHandler(new(page), level)),
		"json": slog.New(slog.NewJSONHandler(new(page), level)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := newStoreAndPool(t)
			insert(t, store, tasks()...)
			w := newWorker(t, store, worker.Options{Logger: logger}, handle)
			stop := run(t, w)
			check(t, store)
			finished(t, store, "good")
			wantErr(t, "Run", stop(), nil)
		})
	}
	t.Run("PerformNext", func(t *testing.T) {
		t.Parallel()
		store, _ := newStoreAndPool(t)
		insert(t, store, tasks()...)
		w := newWorker(t, store, worker.Options{Logger: slog.New(slog.DiscardHandler)}, handle)
		for more := true; more; {
			performed := make(chan bool, 1)
			go func() { // which a handler may end
				ok := true
				defer func() { performed <- ok }()
				var err error
				if _, ok, err = w.PerformNext(t.Context()); err != nil {
					t.Errorf("PerformNext = %v", err)
				}
			}()
			more = receive(t, "PerformNext", performed)
		}
		check(t, store)
	})
}

// Also where the context of the handler has ended, and the cause is looked for in the error.
// Proves G110.
func TestWorker_SurvivesErrorsBehindATimeout(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	cases := hostileCases()
	for name := range cases {
		insert(t, store, stint.Task{ID: stint.TaskID(name), Action: "a", MaxTries: 1})
	}
	w := newWorker(t, store, worker.Options{Logger: slog.New(slog.DiscardHandler)},
		worker.Handle("a", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			<-ctx.Done()
			return cases[string(task.ID)].end()
		}, worker.WithTimeout(time.Millisecond)))
	run(t, w)
	for name, want := range cases {
		got := finished(t, store, stint.TaskID(name))[0]
		prefixed := worker.ErrTimeout.Error() + ": " + want.status
		if got.AbortCause != want.cause || !strings.HasPrefix(got.Status, prefixed) {
			t.Errorf("%s: cause %q, status %.200q", name, got.AbortCause, got.Status)
		}
	}
}

// hostileMarshaler is a result that cannot be encoded.
type hostileMarshaler struct{ do func() }

func (h hostileMarshaler) MarshalJSON() ([]byte, error) {
	h.do()
	return nil, nil
}

// Results that are encoded, steps, and transactions of the handler's are called where it is.
// Proves G110.
func TestWorker_SurvivesValuesOfAHandler(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	boom := func() { panic("boom") }
	want := map[stint.TaskID]string{
		"json": "panic: boom", "json exit": "handler called runtime.Goexit",
		"step": "panic: boom", "step value": "panic: boom",
		"tx": "without a transaction", "middleware": "panic: boom",
	}
	for id := range want {
		action := "a"
		if strings.HasPrefix(string(id), "json") {
			action = "json"
		}
		insert(t, store, stint.Task{ID: id, Action: action, MaxTries: 1, Body: []byte(`{}`)})
	}
	wrap := func(next worker.Handler) worker.Handler {
		return func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			if task.ID == "middleware" {
				boom()
			}
			return next(ctx, task)
		}
	}
	options := worker.Options{
		Middleware: []worker.Middleware{wrap}, Logger: slog.New(slog.DiscardHandler),
	}
	w := newWorker(t, store, options,
		worker.HandleJSON("json", func(
			_ context.Context, task *worker.Task, _ json.RawMessage,
		) (hostileMarshaler, error) {
			if task.ID == "json exit" {
				return hostileMarshaler{runtime.Goexit}, nil
			}
			return hostileMarshaler{boom}, nil
		}),
		worker.Handle("a", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			var err error
			switch task.ID {
			case "step":
				_, err = worker.Step(ctx, task, "s", func(context.Context) (int, error) {
					boom()
					return 0, nil
				})
			case "step value":
				_, err = worker.Step(ctx, task, "s",
					func(context.Context) (hostileMarshaler, error) {
						return hostileMarshaler{boom}, nil
					})
			case "tx":
				var broken struct{ pgx.Tx }
				err = task.ReturnIn(ctx, broken, worker.Result{})
			}
			return worker.Result{}, err
		}))
	stop := run(t, w)
	for id, status := range want {
		if isRemote() && id == "tx" {
			continue // it has no transactions
		}
		if got := finished(t, store, id)[0]; !strings.Contains(got.Status, status) ||
			got.AbortCause != stint.CauseTries {
			t.Errorf("%s: cause %q, status %.200q, want %q", id, got.AbortCause, got.Status, status)
		}
	}
	wantErr(t, "Run", stop(), nil)
}

// hostileObserver is a logger, metrics, a tracer and a meter that fail in each call.
type hostileObserver struct {
	tracenoop.TracerProvider
	metricnoop.MeterProvider

	do    func()
	calls *atomic.Int64
}

func (h *hostileObserver) fail() {
	h.calls.Add(1)
	h.do()
}

func (h *hostileObserver) Begin(*stint.OwnedTask) { h.fail() }
func (h *hostileObserver) End(
	*stint.OwnedTask, worker.Outcome, time.Duration,
) {
	h.fail()
}
func (h *hostileObserver) Enabled(context.Context, slog.Level) bool  { return true }
func (h *hostileObserver) Handle(context.Context, slog.Record) error { h.fail(); return nil }
func (h *hostileObserver) WithAttrs([]slog.Attr) slog.Handler        { h.fail(); return h }
func (h *hostileObserver) WithGroup(string) slog.Handler             { h.fail(); return h }

func (h *hostileObserver) Tracer(string, ...trace.TracerOption) trace.Tracer {
	return tracer{of: h}
}

func (h *hostileObserver) Meter(string, ...metric.MeterOption) metric.Meter { return meter{of: h} }

type (
	tracer struct {
		tracenoop.Tracer
		of *hostileObserver
	}
	span struct {
		tracenoop.Span
		of *hostileObserver
	}
	meter struct {
		metricnoop.Meter
		of *hostileObserver
	}
	upDown struct {
		metricnoop.Int64UpDownCounter
		of *hostileObserver
	}
)

func (t tracer) Start(
	ctx context.Context, _ string, _ ...trace.SpanStartOption,
) (context.Context, trace.Span) {
	return ctx, span{of: t.of}
}
func (span) IsRecording() bool                     { return true }
func (s span) SetAttributes(...attribute.KeyValue) { s.of.fail() }
func (s span) End(...trace.SpanEndOption)          { s.of.fail() }

func (m meter) Int64UpDownCounter(
	string, ...metric.Int64UpDownCounterOption,
) (metric.Int64UpDownCounter, error) {
	return upDown{of: m.of}, nil
}
func (u upDown) Add(context.Context, int64, ...metric.AddOption) { u.of.fail() }

// Who looks on has no part in it: no task depends on a logger, on metrics or on a tracer.
// Proves G110.
func TestWorker_SurvivesWhoLooksOn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, do := range map[string]func(){
		"panic": func() { panic(unprintable{}) }, "Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := newStoreAndPool(t)
			of := &hostileObserver{do: do, calls: &atomic.Int64{}}
			insert(t, store, several(20, "good")...)
			insert(t, store, several(20, "bad")...)
			w := newWorker(t, store, worker.Options{
				Concurrency: 4, Logger: slog.New(of), Metrics: of, TracerProvider: of,
				MeterProvider: of,
			},
				worker.Handle("good", func(
					_ context.Context, task *worker.Task,
				) (worker.Result, error) {
					task.Logger().Info("hello")
					return worker.Result{}, nil
				}),
				worker.Handle("bad", func(context.Context, *worker.Task) (worker.Result, error) {
					return worker.Result{}, worker.Abort(errors.New("no"))
				}))
			stop := run(t, w)
			for i := range 20 {
				for _, action := range []string{"good", "bad"} {
					id := stint.TaskID(fmt.Sprintf("%s/%03d", action, i))
					if got := finished(t, store, id)[0]; got.Tries != 1 {
						t.Errorf("%s: %+v, want it to have ended at its first try", id, got)
					}
				}
			}
			wantErr(t, "Run", stop(), nil)
			const each = 7 // Begin, End, Add twice, SetAttributes twice and End of the span
			if got := of.calls.Load(); got < 40*(each-2) {
				t.Errorf("%d calls, want all of them to be made whatever the others do", got)
			}
		})
	}
}
