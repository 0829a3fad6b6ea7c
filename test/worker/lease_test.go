package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

// lost is a handler that reports why its context ended.
func lost(entered chan<- stint.TaskID, causes chan<- error) worker.Handler {
	return func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		entered <- task.ID
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return worker.Result{}, ctx.Err()
	}
}

// heartbeats waits for n heartbeats, of which four take longer than a lease.
func heartbeats(t *testing.T, proxy *pgcut.Proxy, n int) {
	t.Helper()
	for range n {
		trap := proxy.Hold(pgcut.AtReply, pgcut.Executes("extend_leases"))
		receive(t, "a heartbeat", trap.Reached())
		trap.Release()
	}
}

// Proves G105.
func TestWorker_CancelsTheHandlerWhenItsTaskIsAborted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	logger, logged := recorder(t)
	entered, causes := make(chan stint.TaskID, 1), make(chan error, 1)
	w := newWorker(t, store, worker.Options{Logger: logger},
		worker.Handle("a", lost(entered, causes)))
	run(t, w)
	receive(t, "the task", entered)
	if _, err := store.AbortTasks(t.Context(), []stint.TaskID{"a"}, "not needed"); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "cause", receive(t, "the cause", causes), stint.ErrInvalidToken)
	logged(t, "task lost")
	got := info(t, store, "a")
	if got.AbortCause != stint.CauseCancelled || got.Status != "not needed" {
		t.Errorf("got %+v, want it as it was aborted", got)
	}
}

// Proves G105.
func TestWorker_CancelsTheHandlerWhenItsTaskWasGivenToAnother(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	entered, causes := make(chan stint.TaskID, 1), make(chan error, 1)
	w := newWorker(t, store, worker.Options{}, worker.Handle("a", lost(entered, causes)))
	stop := run(t, w)
	receive(t, "the task", entered)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), "UPDATE stint.leases SET deadline = statement_timestamp()")
	if err != nil {
		t.Fatal(err)
	}
	owned, err := store.WithTx(tx).OwnTasks(t.Context(), "other", 1, []string{"a"}, time.Hour)
	if err != nil || len(owned) != 1 {
		t.Fatalf("OwnTasks = %v, %v", owned, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "cause", receive(t, "the cause", causes), stint.ErrInvalidToken)
	if err := stop(); err != nil {
		t.Fatalf("Run = %v", err)
	}
	if got := info(t, store, "a"); got.Actor != "other" || got.State != stint.StateInProgress {
		t.Errorf("got %+v, want it owned by the other one", got)
	}
}

func TestWorker_ExtendsAllLeasesWithOneStatement(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	direct, pool := newStoreAndPool(t)
	proxy := pgcut.New(t, pool)
	store := newStore(t, proxy.Pool(t, 20))
	a := newStage()
	w := newWorker(t, store, worker.Options{Lease: 6 * time.Second},
		worker.Handle("a", a.perform))
	run(t, w)
	// Ten fetches, so that there are ten leases.
	for _, task := range several(10, "a") {
		insert(t, store, task)
		receive(t, "a task", a.entered)
	}
	extends := pgcut.Executes("extend_leases")
	before := proxy.Hold(pgcut.AtReply, extends)
	receive(t, "a heartbeat", before.Reached())
	after := proxy.Hold(pgcut.AtReply, extends)
	deadlines := map[stint.TaskID]time.Time{}
	for _, task := range several(10, "a") {
		deadlines[task.ID] = info(t, direct, task.ID).LeaseUntil
	}
	before.Release()
	receive(t, "the next heartbeat", after.Reached())
	for id, deadline := range deadlines {
		if got := info(t, direct, id); got.Tries != 1 || !got.LeaseUntil.After(deadline) {
			t.Errorf("got %+v, want it extended from %v", got, deadline)
		}
	}
	after.Release()
	for range 10 {
		a.cue <- struct{}{}
	}
	for id := range deadlines {
		if got := finished(t, store, id)[0]; got.Tries != 1 {
			t.Errorf("got %+v, want one try", got)
		}
	}
}

// Proves G105.
func TestWorker_CancelsTheHandlerWhenItsLeaseExpires(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	direct, pool := newStoreAndPool(t)
	through, down := fallible(t, pool)
	insert(t, direct, stint.Task{ID: "a", Action: "a"})
	logger, logged := recorder(t)
	entered, causes := make(chan stint.TaskID, 2), make(chan error, 2)
	w := newWorker(t, newStore(t, through), worker.Options{
		Lease: 200 * time.Millisecond, Logger: logger,
	},
		worker.Handle("a", lost(entered, causes)))
	run(t, w)
	receive(t, "the task", entered)
	down.Store(true)
	wantErr(t, "cause", receive(t, "the cause", causes), worker.ErrLeaseExpired)
	logged(t, "could not extend the leases")
	logged(t, "could not own tasks")
	if got := attr(logged(t, "task lost"), "cause").String(); got != "lease expired" {
		t.Errorf("cause = %s", got)
	}
	// Once the database is back, so is the worker, and is given the task again.
	down.Store(false)
	receive(t, "the task again", entered)
	if got := info(t, direct, "a"); got.Tries != 2 {
		t.Errorf("got %+v, want a second try", got)
	}
}

// Proves G117.
func TestWorker_ReturnsWhatWasDoneAsSoonAsTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	direct, pool := newStoreAndPool(t)
	through, down := fallible(t, pool)
	insert(t, direct, stint.Task{ID: "a", Action: "a"})
	logger, logged := recorder(t)
	w := newWorker(t, newStore(t, through), worker.Options{Logger: logger},
		worker.Handle("a", func(context.Context, *worker.Task) (worker.Result, error) {
			down.Store(true)
			return worker.Result{Status: "done"}, nil
		}))
	run(t, w)
	logged(t, "could not own tasks")
	if got := info(t, direct, "a"); got.State != stint.StateInProgress {
		t.Fatalf("got %+v, want it in progress", got)
	}
	down.Store(false)
	if got := finished(t, direct, "a")[0]; got.Status != "done" || got.Tries != 1 {
		t.Errorf("got %+v, want it completed at its first try", got)
	}
}

// Proves G117.
func TestWorker_ReturnsAllThatWasDoneInAnOutage(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	direct, pool := newStoreAndPool(t)
	var down atomic.Bool
	failed := make(chan error, 1000)
	config := pool.Config()
	config.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) {
		if !down.Load() {
			return true, nil
		}
		err := errors.New("the database is down")
		failed <- err
		return true, err
	}
	through, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(through.Close)
	const n = 50
	insert(t, direct, several(n, "a")...)
	store, err := stint.New(through, stint.Options{Maintenance: stint.MaintainNever})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close(context.WithoutCancel(t.Context())) })
	a := newStage()
	w := newWorker(t, store, worker.Options{Concurrency: n, Lease: time.Hour},
		worker.Handle("a", a.perform))
	run(t, w)
	for range n {
		receive(t, "a task", a.entered)
	}
	down.Store(true)
	for range n {
		a.cue <- struct{}{}
	}
	for range 3 {
		receive(t, "an attempt that fails", failed)
	}
	down.Store(false)
	for _, task := range several(n, "a") {
		got := finished(t, direct, task.ID)[0]
		if got.State != stint.StateCompleted || got.Tries != 1 {
			t.Errorf("got %+v, want it completed at its first try", got)
		}
	}
}

func TestWorker_TakesAReturnWhoseAnswerWasCutOffForDone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	_, pool := newStoreAndPool(t)
	proxy := pgcut.New(t, pool)
	store := newStore(t, proxy.Pool(t, 20))
	insert(t, store, stint.Task{ID: "a", Action: "a"}, stint.Task{ID: "b", Action: "a"})
	cut := proxy.Cut(pgcut.AtReply, pgcut.Commits("return_tasks"))
	logger, logged := recorder(t)
	w := newWorker(t, store, worker.Options{Concurrency: 1, Logger: logger},
		worker.Handle("a", func(_ context.Context, task *worker.Task) (worker.Result, error) {
			if task.ID == "b" {
				return worker.Result{}, errors.New("no")
			}
			return worker.Result{}, nil
		}, worker.WithRetry(worker.Retry{Base: time.Hour})))
	run(t, w)
	logged(t, "task completed")
	logged(t, "handler failed")
	if !cut.Sprung() {
		t.Fatal("no return was cut off")
	}
	if got := info(t, store, "a"); got.StatusCode != stint.StatusCompleted || got.Tries != 1 {
		t.Errorf("got %+v, want it completed", got)
	}
}

func TestWorker_GivesUpReturningWhenTheLeaseExpires(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	direct, pool := newStoreAndPool(t)
	through, down := fallible(t, pool)
	insert(t, direct, stint.Task{ID: "a", Action: "a"})
	logger, logged := recorder(t)
	w := newWorker(t, newStore(t, through), worker.Options{
		Lease: 200 * time.Millisecond, Logger: logger,
	},
		worker.Handle("a", func(_ context.Context, task *worker.Task) (worker.Result, error) {
			down.Store(task.Try == 1)
			return worker.Result{}, nil
		}))
	run(t, w)
	logged(t, "could not return task")
	down.Store(false)
	// On a busy machine so short a lease may expire once more.
	if got := finished(t, direct, "a")[0]; got.Tries < 2 {
		t.Errorf("got %+v, want a second try", got)
	}
}

func TestWorker_IsPresentWhileItRuns(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	w := newWorker(t, store, worker.Options{Actor: "me"},
		worker.Handle("b", done),
		worker.Handle("a", func(ctx context.Context, _ *worker.Task) (worker.Result, error) {
			actors, err := store.ListActors(ctx)
			return worker.Result{Status: fmt.Sprintf("%v", actors)}, err
		}))
	stop := run(t, w)
	if got := finished(t, store, "a")[0].Status; !strings.HasPrefix(got, "[{me [a b] 1 ") {
		t.Errorf("actors = %s, want the worker's with one task", got)
	}
	if err := stop(); err != nil {
		t.Fatalf("Run = %v", err)
	}
	if actors, err := store.ListActors(t.Context()); err != nil || len(actors) > 0 {
		t.Errorf("ListActors = %v, %v, want none", actors, err)
	}
}

func TestWorker_StartsWithoutADatabase(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	direct, pool := newStoreAndPool(t)
	through, down := fallible(t, pool)
	down.Store(true)
	insert(t, direct, stint.Task{ID: "a", Action: "a"})
	logger, logged := recorder(t)
	w := newWorker(t, newStore(t, through), worker.Options{Logger: logger},
		worker.Handle("a", done))
	run(t, w)
	logged(t, "could not own tasks")
	down.Store(false)
	finished(t, direct, "a")
	again := ""
	for again != "could not own tasks" { // nor register the actor
		again = attr(logged(t, "works again"), "failure").String()
	}
}
