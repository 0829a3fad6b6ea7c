package worker_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

// Proves G111.
func TestRun_LetsHandlersFinishWithinTheGrace(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	_, pool := newStoreAndPool(t)
	proxy := pgcut.New(t, pool)
	store := newStore(t, proxy.Pool(t, 20))
	insert(t, store, several(3, "a")...)
	logger, logged := recorder(t)
	a := newStage()
	w := newWorker(t, store, worker.Options{
		Concurrency: 2, StopGrace: time.Hour, Lease: 6 * time.Second, Logger: logger,
	}, worker.Handle("a", a.perform))
	stop := run(t, w)
	ended := make(chan error, 1)
	receive(t, "a task", a.entered)
	receive(t, "a task", a.entered)
	go func() { ended <- stop() }()
	logged(t, "worker stops")
	heartbeats(t, proxy, 4) // longer than the lease
	a.cue <- struct{}{}
	a.cue <- struct{}{}
	if err := receive(t, "the end of Run", ended); err != nil {
		t.Errorf("Run = %v", err)
	}
	for i, want := range []stint.State{
		stint.StateCompleted, stint.StateCompleted, stint.StateReady,
	} {
		got := info(t, store, several(3, "a")[i].ID)
		if got.State != want || got.Tries > 1 {
			t.Errorf("got %+v, want it %s", got, want)
		}
	}
}

// Proves G111.
func TestRun_GivesBackWhatIsNotFinishedWithinTheGrace(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a"}, stint.Task{ID: "b", Action: "b"},
		stint.Task{ID: "c", Action: "c"})
	// With no slot left, no question is open that could be answered late.
	entered, causes := make(chan stint.TaskID, 3), make(chan error, 1)
	w := newWorker(t, store, worker.Options{
		Concurrency: 3, Retry: worker.Retry{Base: time.Hour},
	},
		worker.Handle("a", lost(entered, causes)),
		worker.Handle("b", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			entered <- task.ID
			<-ctx.Done()
			return worker.Result{}, worker.Abort(ctx.Err())
		}),
		worker.Handle("c", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			entered <- task.ID
			<-ctx.Done()
			return worker.Result{}, nil
		}))
	stop := run(t, w)
	for range 3 {
		receive(t, "a task", entered)
	}
	if err := stop(); err != nil {
		t.Fatalf("Run = %v", err)
	}
	wantErr(t, "cause", receive(t, "the cause", causes), worker.ErrStopping)
	got := info(t, store, "a")
	if got.State != stint.StateReady || got.Tries != 0 ||
		got.Status != "worker is stopping: context canceled" {
		t.Errorf("got %+v, want it ready for another try at once", got)
	}
	if got := info(t, store, "b"); got.AbortCause != stint.CauseReturned {
		t.Errorf("got %+v, want it aborted as the handler said", got)
	}
	if got := info(t, store, "c"); got.State != stint.StateCompleted {
		t.Errorf("got %+v, want it completed as the handler said", got)
	}
}

// Proves G109.
func TestRun_DoesNotWaitForHandlersThatIgnoreTheirContext(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t)
	keepsRows(t, pool)
	insert(t, store, stint.Task{ID: "a", Action: "a"}, stint.Task{ID: "tx", Action: "tx"})
	a := newStage()
	deaf := func(task *worker.Task) error {
		_, err := a.perform(context.Background(), task)
		return err
	}
	committed := make(chan error, 1)
	w := newWorker(t, store, worker.Options{Concurrency: 2},
		worker.Handle("a", func(_ context.Context, task *worker.Task) (worker.Result, error) {
			return worker.Result{}, deaf(task)
		}),
		worker.Handle("tx", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			ctx = context.WithoutCancel(ctx)
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				if err := keep(ctx, tx, task); err != nil {
					return err
				}
				return deaf(task)
			})
			committed <- err
			return worker.Result{}, err
		}))
	stop := run(t, w)
	receive(t, "a task", a.entered)
	receive(t, "a task", a.entered)
	wantErr(t, "Run", stop(), worker.ErrStillRunning)
	if got := info(t, store, "a"); got.State != stint.StateReady || got.Tries != 0 {
		t.Errorf("got %+v, want it given back", got)
	}
	if got := info(t, store, "tx"); got.State != stint.StateInProgress {
		t.Errorf("got %+v, want it left to its transaction", got)
	}
	a.cue <- struct{}{}
	a.cue <- struct{}{}
	if err := receive(t, "the commit", committed); err != nil {
		t.Errorf("commit = %v", err)
	}
	if got := info(t, store, "tx"); got.State != stint.StateCompleted {
		t.Errorf("got %+v, want it completed by its transaction", got)
	}
}

func TestRun_EndsWithoutADatabase(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	direct, pool := newStoreAndPool(t)
	through, down := fallible(t, pool)
	insert(t, direct, stint.Task{ID: "a", Action: "a"})
	logger, logged := recorder(t)
	w := newWorker(t, newStore(t, through), worker.Options{Logger: logger},
		worker.Handle("a", func(context.Context, *worker.Task) (worker.Result, error) {
			down.Store(true)
			return worker.Result{}, nil
		}))
	stop := run(t, w)
	logged(t, "could not own tasks")
	if err := stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
	logged(t, "could not return task")
	if got := info(t, direct, "a"); got.State != stint.StateInProgress {
		t.Errorf("got %+v, want it left to the end of its lease", got)
	}
}

// One try is one try: who allows no other must not get one by a stop.
func TestRun_EndsATaskWithASingleTryThatIsNotFinished(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a", MaxTries: 1})
	entered, causes := make(chan stint.TaskID, 1), make(chan error, 1)
	var metrics outcomes
	stop := run(t, newWorker(t, store, worker.Options{Metrics: &metrics},
		worker.Handle("a", lost(entered, causes))))
	receive(t, "the task", entered)
	if err := stop(); err != nil {
		t.Fatalf("Run = %v", err)
	}
	if got := metrics.all(); !slices.Equal(got, []worker.Outcome{worker.OutcomeAborted}) {
		t.Errorf("the outcomes are %v, want that it was aborted", got)
	}
	if got := info(t, store, "a"); got.AbortCause != stint.CauseTries || got.Tries != 1 {
		t.Errorf("got %+v, want it aborted after its try", got)
	}
}
