package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

func TestNew_RefusesOptionsThatCannotBe(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	for name, options := range map[string]worker.Options{
		"actor too long":       {Actor: stint.ActorID(strings.Repeat("a", 256))},
		"actor with NUL":       {Actor: "a\x00"},
		"actor not UTF-8":      {Actor: "\xff"},
		"negative concurrency": {Concurrency: -1},
		"negative lease":       {Lease: -1},
		"short lease":          {Lease: time.Millisecond},
		"endless lease":        {Lease: stint.NoExpiry},
		"negative grace":       {StopGrace: -1},
		"negative pause":       {Retry: worker.Retry{Base: -1}},
		"negative long pause":  {Retry: worker.Retry{Max: -1}},
		"pause over Max":       {Retry: worker.Retry{Base: 2, Max: 1}},
		"pause of a century":   {Retry: worker.Retry{Max: 100 * 365 * 24 * time.Hour}},
		"nil middleware":       {Middleware: []worker.Middleware{nil}},
	} {
		_, err := worker.New(store, options, worker.Handle("a", done))
		wantArgumentErr(t, name, err)
	}
	_, err := worker.New(nil, worker.Options{}, worker.Handle("a", done))
	wantArgumentErr(t, "no store", err)
}

func TestNew_RefusesHandlersThatCannotBe(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	for name, handler := range map[string]worker.Registration{
		"no action":         worker.Handle("", done),
		"action too long":   worker.Handle(strings.Repeat("a", 256), done),
		"action with NUL":   worker.Handle("a\x00", done),
		"action not UTF-8":  worker.Handle("\xff", done),
		"spontaneous":       worker.Handle(stint.Spontaneous, done),
		"external":          worker.Handle(stint.External, done),
		"no handler":        worker.Handle("a", nil),
		"no JSON handler":   worker.HandleJSON[int, int]("a", nil),
		"second handler":    worker.Handle("taken", done),
		"no concurrency":    worker.Handle("a", done, worker.WithConcurrency(0)),
		"negative":          worker.Handle("a", done, worker.WithConcurrency(-1)),
		"no time":           worker.Handle("a", done, worker.WithTimeout(0)),
		"negative time-out": worker.Handle("a", done, worker.WithTimeout(-1)),
		"negative pause":    worker.Handle("a", done, worker.WithRetry(worker.Retry{Base: -1})),
	} {
		_, err := worker.New(store, worker.Options{}, worker.Handle("taken", done), handler)
		wantArgumentErr(t, name, err)
	}
	_, err := worker.New(store, worker.Options{})
	wantArgumentErr(t, "no handlers", err)
}

func wantArgumentErr(t *testing.T, what string, err error) {
	t.Helper()
	var argument *stint.ArgumentError
	if !errors.As(err, &argument) || !errors.Is(err, stint.ErrInvalidArgument) {
		t.Errorf("%s: error = %v, want an ArgumentError", what, err)
	}
}

func TestRun_IsForOnce(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	w := newWorker(t, store, worker.Options{}, worker.Handle("a", done))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Run(ctx); err != nil {
		t.Fatalf("Run = %v", err)
	}
	wantErr(t, "second Run", w.Run(ctx), worker.ErrStarted)
}

func TestRun_EndsOnWhatCannotHeal(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t)

	t.Run("store closed", func(t *testing.T) {
		t.Parallel()
		closed := newStore(t, pool)
		w := newWorker(t, closed, worker.Options{}, worker.Handle("a", done))
		ended := make(chan error, 1)
		go func() { ended <- w.Run(t.Context()) }()
		if err := closed.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "Run", receive(t, "the end of Run", ended), stint.ErrClosed)
	})
	t.Run("store in a transaction", func(t *testing.T) {
		t.Parallel()
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		w := newWorker(t, store.WithTx(tx), worker.Options{}, worker.Handle("a", done))
		wantArgumentErr(t, "Run", w.Run(t.Context()))
	})
	t.Run("no schema", func(t *testing.T) {
		t.Parallel()
		unmigrated, err := stint.New(pool, stint.Options{Schema: "nowhere"})
		if err != nil {
			t.Fatal(err)
		}
		w := newWorker(t, unmigrated, worker.Options{}, worker.Handle("a", done))
		wantErr(t, "Run", w.Run(t.Context()), stint.ErrSchemaVersion)
	})
}

func TestWorker_CompletesTasksWithTheResultOfTheHandler(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "upper", Body: []byte("hello")})
	w := newWorker(t, store, worker.Options{Actor: "me"},
		worker.Handle("upper", func(_ context.Context, task *worker.Task) (worker.Result, error) {
			shouted := strings.ToUpper(string(task.Body))
			return worker.Result{Bytes: []byte(shouted), Status: fmt.Sprint("try ", task.Try)}, nil
		}))
	run(t, w)
	got := finished(t, store, "a")[0]
	if got.StatusCode != stint.StatusCompleted || string(got.Result) != "HELLO" ||
		got.Status != "try 1" || got.Actor != "me" || got.Tries != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestWorker_TriesAgainAfterAnError(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	insert(t, store,
		stint.Task{ID: "third time lucky", Action: "a"},
		stint.Task{ID: "never", Action: "a", MaxTries: 2})
	w := newWorker(t, store, worker.Options{},
		worker.Handle("a", func(_ context.Context, task *worker.Task) (worker.Result, error) {
			if task.ID == "never" || task.Try < 3 {
				return worker.Result{Bytes: []byte("dropped")}, fmt.Errorf("try %d: no", task.Try)
			}
			return worker.Result{}, nil
		}))
	run(t, w)
	infos := finished(t, store, "third time lucky", "never")
	if got := infos[0]; got.StatusCode != stint.StatusCompleted || got.Tries != 3 {
		t.Errorf("got %+v, want it completed at its third try", got)
	}
	if got := infos[1]; got.AbortCause != stint.CauseTries || got.Tries != 2 ||
		got.Status != "try 2: no" || got.Result != nil {
		t.Errorf("got %+v, want it aborted after two tries, with the text of its error", got)
	}
}

func TestWorker_PausesAsItsRetrySays(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	insert(t, store,
		stint.Task{ID: "of the worker", Action: "a"}, stint.Task{ID: "of the action", Action: "b"},
		stint.Task{ID: "of the error", Action: "c"})
	hours := func(n time.Duration) worker.Retry {
		return worker.Retry{Base: n * time.Hour, Max: n * time.Hour}
	}
	logger, logged := recorder(t)
	fail := func(context.Context, *worker.Task) (worker.Result, error) {
		return worker.Result{}, errors.New("no")
	}
	w := newWorker(t, store, worker.Options{Retry: hours(1), Logger: logger},
		worker.Handle("a", fail),
		worker.Handle("b", fail, worker.WithRetry(hours(1000))),
		worker.Handle("c", func(context.Context, *worker.Task) (worker.Result, error) {
			return worker.Result{}, fmt.Errorf("closed: %w", worker.RetryAfter(10_000*time.Hour))
		}))
	stop := run(t, w)
	for range 3 {
		logged(t, "handler failed")
	}
	if err := stop(); err != nil {
		t.Fatalf("Run = %v", err)
	}
	a, b := info(t, store, "of the worker"), info(t, store, "of the action")
	c := info(t, store, "of the error")
	if wait := a.NotBefore.Sub(a.InsertedAt); wait > 2*time.Hour {
		t.Errorf("the pause of the worker took %v, want an hour at most", wait)
	}
	if wait := b.NotBefore.Sub(b.InsertedAt); wait > 1001*time.Hour || wait < time.Second {
		t.Errorf("the pause of the action took %v, want up to a thousand hours", wait)
	}
	if wait := c.NotBefore.Sub(c.InsertedAt); wait < 10_000*time.Hour {
		t.Errorf("the pause of the error took %v, want ten thousand hours", wait)
	}
	if c.Status != "closed: retry after 10000h0m0s" || c.Tries != 1 {
		t.Errorf("got %+v", c)
	}
}

func TestRetryAfter_TakesAnyTime(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "back", Action: "a"}, stint.Task{ID: "far", Action: "a"})
	logger, logged := recorder(t)
	w := newWorker(t, store, worker.Options{Logger: logger},
		worker.Handle("a", func(_ context.Context, task *worker.Task) (worker.Result, error) {
			switch {
			case task.ID == "far":
				return worker.Result{}, worker.RetryAfter(1<<63 - 1)
			case task.Try == 1:
				return worker.Result{}, worker.RetryAfter(-time.Hour)
			}
			return worker.Result{}, nil
		}))
	run(t, w)
	if got := finished(t, store, "back")[0]; got.Tries != 2 {
		t.Errorf("got %+v, want a second try at once", got)
	}
	logged(t, "handler failed")
	logged(t, "handler failed")
	if got := info(t, store, "far"); got.State != stint.StateScheduled {
		t.Errorf("got %+v, want it scheduled", got)
	}
}

func TestWorker_AbortsTasksThatTheHandlerGivesUp(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	errBroken := errors.New("file is broken")
	given := map[stint.TaskID]error{
		"plain":   worker.Abort(errBroken),
		"wrapped": fmt.Errorf("copy: %w", worker.Abort(errBroken)),
		"nothing": worker.Abort(nil),
	}
	want := map[stint.TaskID]string{
		"plain": "file is broken", "wrapped": "copy: file is broken", "nothing": "aborted",
	}
	wantErr(t, "Abort", given["wrapped"], errBroken)
	for id := range given {
		insert(t, store, stint.Task{ID: id, Action: "a"})
	}
	w := newWorker(t, store, worker.Options{},
		worker.Handle("a", func(_ context.Context, task *worker.Task) (worker.Result, error) {
			return worker.Result{}, given[task.ID]
		}))
	run(t, w)
	for id := range given {
		got := finished(t, store, id)[0]
		if got.AbortCause != stint.CauseReturned || got.Status != want[id] || got.Tries != 1 {
			t.Errorf("got %+v, want it aborted with status %q", got, want[id])
		}
	}
}

// A nilError is an error whose text cannot be had.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// Proves G109.
func TestWorker_SurvivesHandlersThatDoNotReturn(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	for _, id := range []stint.TaskID{"panic", "nil panic", "exit", "nil error"} {
		insert(t, store, stint.Task{ID: id, Action: "a", MaxTries: 1})
	}
	w := newWorker(t, store, worker.Options{Concurrency: 1},
		worker.Handle("a", func(_ context.Context, task *worker.Task) (worker.Result, error) {
			switch task.ID {
			case "panic":
				panic("ouch")
			case "nil panic":
				panic(nil)
			case "exit":
				runtime.Goexit()
			}
			var none *nilError
			return worker.Result{}, none
		}))
	run(t, w)
	for id, want := range map[stint.TaskID]string{
		"panic": "panic: ouch\n", "nil panic": "panic: panic called with nil",
		"exit": "handler called runtime.Goexit", "nil error": "panic: runtime error",
	} {
		got := finished(t, store, id)[0]
		if got.AbortCause != stint.CauseTries || !strings.HasPrefix(got.Status, want) {
			t.Errorf("got %+v, want it aborted after its only try with status %q", got, want)
		}
		if strings.HasPrefix(want, "panic") && !strings.Contains(got.Status, "worker_test.go") {
			t.Errorf("status %q has no stack", got.Status)
		}
	}
}

func TestWorker_EndsTheHandlersContextWhenItsTimeoutPasses(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	insert(t, store,
		stint.Task{ID: "a", Action: "slow", MaxTries: 1}, stint.Task{ID: "b", Action: "late"})
	causes := make(chan error, 1)
	w := newWorker(t, store, worker.Options{},
		worker.Handle("slow", func(ctx context.Context, _ *worker.Task) (worker.Result, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return worker.Result{}, ctx.Err()
		}, worker.WithTimeout(time.Millisecond)),
		worker.Handle("late", func(ctx context.Context, _ *worker.Task) (worker.Result, error) {
			<-ctx.Done()
			return worker.Result{}, nil
		}, worker.WithTimeout(time.Millisecond)))
	run(t, w)
	wantErr(t, "cause", receive(t, "the cause", causes), worker.ErrTimeout)
	infos := finished(t, store, "a", "b")
	const want = "time-out of the handler passed: context deadline exceeded"
	if got := infos[0]; got.AbortCause != stint.CauseTries || got.Status != want {
		t.Errorf("got %+v, want status %q", got, want)
	}
	if got := infos[1]; got.StatusCode != stint.StatusCompleted {
		t.Errorf("got %+v, want what was done late completed", got)
	}
}

func TestWorker_AbortsATaskWhoseResultIsTooLarge(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	w := newWorker(t, store, worker.Options{},
		worker.Handle("a", func(context.Context, *worker.Task) (worker.Result, error) {
			return worker.Result{Bytes: make([]byte, 64<<20+1)}, nil
		}))
	run(t, w)
	got := finished(t, store, "a")[0]
	if got.AbortCause != stint.CauseReturned || !strings.Contains(got.Status, "too large") {
		t.Errorf("got %+v, want it aborted because its result is too large", got)
	}
}

func TestWorker_GivesHandlersInputsAndRecordsTheirStatus(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	insert(t, store,
		stint.Task{ID: "first", Action: "first"},
		stint.Task{ID: "second", Action: "second", After: []stint.TaskID{"first"}})
	w := newWorker(t, store, worker.Options{},
		worker.Handle("first", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			if err := task.SetStatus(ctx, "half", 0.5); err != nil {
				return worker.Result{}, err
			}
			got := info(t, store, "first")
			text := fmt.Sprint(got.Status, " ", got.Progress)
			return worker.Result{Bytes: []byte(text)}, nil
		}),
		worker.Handle("second", func(
			ctx context.Context, task *worker.Task,
		) (worker.Result, error) {
			inputs, err := task.Inputs(ctx)
			if err != nil {
				return worker.Result{}, err
			}
			return worker.Result{Bytes: inputs[0].Result}, nil
		}))
	run(t, w)
	if got := finished(t, store, "second")[0]; string(got.Result) != "half 0.5" {
		t.Errorf("result = %q, want that of the first task", got.Result)
	}
}

func TestMiddleware_IsPutAroundInOrder(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	around := func(name string) worker.Middleware {
		return func(next worker.Handler) worker.Handler {
			return func(ctx context.Context, task *worker.Task) (worker.Result, error) {
				result, err := next(ctx, task)
				result.Status = name + "(" + result.Status + ")"
				return result, err
			}
		}
	}
	w := newWorker(t, store, worker.Options{
		Middleware: []worker.Middleware{around("outer"), around("inner")},
	},
		worker.Handle("a", func(context.Context, *worker.Task) (worker.Result, error) {
			return worker.Result{Status: "core"}, nil
		}))
	run(t, w)
	if got := finished(t, store, "a")[0]; got.Status != "outer(inner(core))" {
		t.Errorf("status = %q", got.Status)
	}
}

// Proves G112.
func TestSnooze_PutsOffATaskWithoutATry(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a", MaxTries: 1})
	logger, logged := recorder(t)
	pause := time.Duration(0)
	w := newWorker(t, store, worker.Options{Logger: logger},
		worker.Handle("a", func(_ context.Context, task *worker.Task) (worker.Result, error) {
			return worker.Result{}, fmt.Errorf("try %d: %w", task.Try, worker.Snooze(pause))
		}))
	for _, pause = range []time.Duration{0, time.Hour} {
		performed, ok, err := w.PerformNext(t.Context())
		if err != nil || !ok || performed.Outcome != worker.OutcomeSnoozed {
			t.Fatalf("PerformNext = %+v, %v, %v, want it snoozed", performed, ok, err)
		}
		if record := logged(t, "task snoozed"); record.Level != slog.LevelDebug {
			t.Errorf("logged at %v, want Debug", record.Level)
		}
	}
	got := info(t, store, "a")
	if got.State != stint.StateScheduled || got.Tries != 0 ||
		got.Status != "try 1: snoozed for 1h0m0s" || got.NotBefore.Sub(got.InsertedAt) < time.Hour {
		t.Errorf("got %+v, want it scheduled in an hour, with its try", got)
	}
}

func TestWorker_LogsTheBeginningOfALongError(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a", MaxTries: 1})
	logger, logged := recorder(t)
	text := strings.Repeat("é", 10_000)
	w := newWorker(t, store, worker.Options{Logger: logger},
		worker.Handle("a", func(context.Context, *worker.Task) (worker.Result, error) {
			return worker.Result{}, errors.New(text)
		}))
	if _, _, err := w.PerformNext(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := attr(logged(t, "handler failed"), "error").String()
	if want := strings.Repeat("é", 1024) + "... (20000 bytes)"; got != want {
		t.Errorf("logged %q, want %q", got, want)
	}
	if got := info(t, store, "a").Status; got != text {
		t.Errorf("the status has %d bytes, want all %d", len(got), len(text))
	}
}
