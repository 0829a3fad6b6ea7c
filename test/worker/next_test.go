package worker_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

func next(t *testing.T, w *worker.Worker) worker.Performed {
	t.Helper()
	performed, ok, err := w.PerformNext(t.Context())
	if err != nil || !ok {
		t.Fatalf("PerformNext = %+v, %v, %v", performed, ok, err)
	}
	return performed
}

func TestPerformNext_PerformsByPriorityAndAge(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	w := newWorker(t, store, worker.Options{},
		worker.Handle("a", done),
		worker.Handle("b", done))
	insert(t, store, stint.Task{ID: "1", Action: "a"})
	insert(t, store, stint.Task{ID: "2", Action: "b"}, stint.Task{ID: "3", Action: "other"})
	insert(t, store, stint.Task{ID: "0", Action: "a", Priority: 1})
	for _, want := range []stint.TaskID{"0", "1", "2"} {
		if got := next(t, w); got.Task.ID != want || got.Outcome != worker.OutcomeCompleted {
			t.Errorf("PerformNext performed %q, %s; want %q", got.Task.ID, got.Outcome, want)
		}
	}
	if got, ok, err := w.PerformNext(t.Context()); ok || err != nil {
		t.Errorf("PerformNext = %+v, %v, %v, but nothing is ready", got, ok, err)
	}
}

func TestPerformNext_TellsWhatCameOfIt(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t)
	failure := errors.New("no")
	for name, test := range map[string]struct {
		handler worker.Handler
		outcome worker.Outcome
		err     error
		state   stint.State
	}{
		"retried": {
			func(context.Context, *worker.Task) (worker.Result, error) {
				return worker.Result{}, failure
			}, worker.OutcomeRetried, failure, stint.StateScheduled,
		},
		"last try": {
			func(context.Context, *worker.Task) (worker.Result, error) {
				return worker.Result{}, failure
			}, worker.OutcomeAborted, failure, stint.StateAborted,
		},
		"aborted": {
			func(context.Context, *worker.Task) (worker.Result, error) {
				return worker.Result{}, worker.Abort(failure)
			}, worker.OutcomeAborted, failure, stint.StateAborted,
		},
		"lost": {
			func(ctx context.Context, task *worker.Task) (worker.Result, error) {
				_, err := store.AbortTasks(context.WithoutCancel(ctx), []stint.TaskID{task.ID}, "")
				if err == nil {
					<-ctx.Done()
					err = context.Cause(ctx)
				}
				return worker.Result{}, err
			}, worker.OutcomeLost, stint.ErrInvalidToken, stint.StateAborted,
		},
		"in a transaction": {
			func(ctx context.Context, task *worker.Task) (worker.Result, error) {
				return worker.Result{}, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					return task.ReturnIn(ctx, tx, worker.Result{})
				})
			}, worker.OutcomeCompleted, nil, stint.StateCompleted,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorker(t, store, worker.Options{Retry: worker.Retry{Base: 1000 * time.Hour}},
				worker.Handle(name, test.handler))
			id := stint.TaskID(name)
			task := stint.Task{ID: id, Action: name}
			if name == "last try" {
				task.MaxTries = 1
			}
			insert(t, store, task)
			got := next(t, w)
			if got.Task.ID != id || got.Outcome != test.outcome || !errors.Is(got.Err, test.err) {
				t.Errorf("PerformNext = %+v, want %s, %v", got, test.outcome, test.err)
			}
			if got := info(t, store, id).State; got != test.state {
				t.Errorf("the task is %s, want %s", got, test.state)
			}
		})
	}
}

func TestPerformNext_EndsTheHandlerWithItsContext(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorker(t, store, worker.Options{},
		worker.Handle("act", func(ctx context.Context, _ *worker.Task) (worker.Result, error) {
			cancel()
			<-ctx.Done()
			return worker.Result{}, context.Cause(ctx)
		}))
	insert(t, store, stint.Task{ID: "task", Action: "act"})
	got, ok, err := w.PerformNext(ctx)
	if err != nil || !ok || got.Outcome != worker.OutcomeStopped ||
		!errors.Is(got.Err, worker.ErrStopping) {
		t.Errorf("PerformNext = %+v, %v, %v, want stopped", got, ok, err)
	}
	if got := info(t, store, "task").State; got != stint.StateReady {
		t.Errorf("the task is %s, want ready", got)
	}
}

// A handler that calls FailNow of its test ends the goroutine that it shares with the test.
func TestPerformNext_ReturnsTheTaskOfAHandlerThatExits(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	w := newWorker(t, store, worker.Options{},
		worker.Handle("act", func(context.Context, *worker.Task) (worker.Result, error) {
			runtime.Goexit()
			return worker.Result{}, nil
		}))
	insert(t, store, stint.Task{ID: "task", Action: "act", MaxTries: 1})
	ended, returned := make(chan struct{}), false
	go func() {
		defer close(ended)
		_, _, _ = w.PerformNext(t.Context())
		returned = true
	}()
	receive(t, "the end of the goroutine", ended)
	if got := info(t, store, "task"); got.AbortCause != stint.CauseTries || returned {
		t.Errorf("the task is %s (%s), PerformNext returned: %v", got.State, got.Status, returned)
	}
}
