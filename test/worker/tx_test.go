package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

var errRolledBack = errors.New("rolled back")

// keepsRows makes a table for what handlers write, and counts what it has.
func keepsRows(t *testing.T, pool *pgxpool.Pool) (count func() int) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), "CREATE TABLE kept (try int)"); err != nil {
		t.Fatal(err)
	}
	return func() (n int) {
		t.Helper()
		err := pool.QueryRow(t.Context(), "SELECT count(*) FROM kept").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// keep writes a row and returns the task in one transaction.
func keep(ctx context.Context, tx pgx.Tx, task *worker.Task) error {
	if _, err := tx.Exec(ctx, "INSERT INTO kept VALUES ($1)", task.Try); err != nil {
		return err
	}
	return task.ReturnIn(ctx, tx, worker.Result{Bytes: []byte("kept"), Status: "in tx"})
}

func TestReturnIn_CompletesTheTaskWithTheCommit(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t)
	kept := keepsRows(t, pool)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	logger, logged := recorder(t)
	w := newWorker(t, store, worker.Options{Logger: logger},
		worker.Handle("a", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				if err := keep(ctx, tx, task); err != nil {
					return err
				}
				if task.Try == 1 {
					return errRolledBack
				}
				return nil
			})
			return worker.Result{Status: "dropped"}, err
		}))
	run(t, w)
	got := finished(t, store, "a")[0]
	if string(got.Result) != "kept" || got.Status != "in tx" || got.Tries != 2 || kept() != 1 {
		t.Errorf("got %+v and %d rows, want it completed with one row", got, kept())
	}
	if got := attr(logged(t, "handler failed"), "error").String(); got != errRolledBack.Error() {
		t.Errorf("the first try failed with %q", got)
	}
	logged(t, "task completed")
}

func TestReturnIn_AnErrorAfterTheCommitDoesNotUndoIt(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t)
	kept := keepsRows(t, pool)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	logger, logged := recorder(t)
	w := newWorker(t, store, worker.Options{Logger: logger},
		worker.Handle("a", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return keep(ctx, tx, task) })
			if err != nil {
				t.Errorf("transaction = %v", err)
			}
			return worker.Result{}, errors.New("the commit had no answer")
		}))
	run(t, w)
	record := logged(t, "handler failed")
	if got := attr(record, "outcome").String(); got != "completed" {
		t.Errorf("outcome = %q, want completed", got)
	}
	got := info(t, store, "a")
	if got.StatusCode != stint.StatusCompleted || got.Status != "in tx" || kept() != 1 {
		t.Errorf("got %+v, want it completed by the commit", got)
	}
}

func TestReturnIn_TellsThatTheTaskWasLost(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t)
	kept := keepsRows(t, pool)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	refused := make(chan error, 1)
	w := newWorker(t, store, worker.Options{},
		worker.Handle("a", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			ctx = context.WithoutCancel(ctx)
			if _, err := store.AbortTasks(ctx, []stint.TaskID{"a"}, ""); err != nil {
				t.Errorf("AbortTasks = %v", err)
			}
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return keep(ctx, tx, task) })
			refused <- err
			return worker.Result{}, err
		}))
	run(t, w)
	wantErr(t, "ReturnIn", receive(t, "the error", refused), stint.ErrInvalidToken)
	if n := kept(); n != 0 {
		t.Errorf("%d rows, want none", n)
	}
}

// A handler that takes its time to commit, and to return afterwards, neither loses its context nor
// holds up the leases of others.
func TestReturnIn_DisturbsNobodyWhileTheTransactionIsOpen(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	direct, pool := newStoreAndPool(t)
	proxy := pgcut.New(t, pool)
	store := newStore(t, proxy.Pool(t, 20))
	keepsRows(t, pool)
	insert(t, store, stint.Task{ID: "in tx", Action: "tx"})
	insert(t, store, stint.Task{ID: "other", Action: "other"})
	other, inTx := newStage(), newStage()
	afterwards := make(chan error, 1)
	w := newWorker(t, store, worker.Options{Lease: 6 * time.Second},
		worker.Handle("other", other.perform),
		worker.Handle("tx", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				if err := keep(ctx, tx, task); err != nil {
					return err
				}
				_, err := inTx.perform(ctx, task)
				return err
			})
			if err != nil {
				return worker.Result{}, err
			}
			_, err = inTx.perform(ctx, task)
			afterwards <- err
			return worker.Result{}, err
		}))
	run(t, w)
	receive(t, "the other task", other.entered)
	receive(t, "the open transaction", inTx.entered)
	heartbeats(t, proxy, 4) // longer than the lease
	inTx.cue <- struct{}{}
	task := receive(t, "what is after the commit", inTx.entered)
	heartbeats(t, proxy, 4)
	inTx.cue <- struct{}{}
	if err := receive(t, "the end of the handler", afterwards); err != nil {
		t.Errorf("after the commit, the handler's context ended: %v", err)
	}
	other.cue <- struct{}{}
	for _, got := range finished(t, direct, "in tx", "other") {
		if got.StatusCode != stint.StatusCompleted || got.Tries != 1 {
			t.Errorf("got %+v, want it completed at its first try", got)
		}
	}
	if task.Try != 1 {
		t.Errorf("the transaction was made at try %d", task.Try)
	}
}

// A return that must wait for somebody's transaction holds up neither those that go with it nor
// what comes after.
func TestWorker_AReturnThatMustWaitHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "held up", Action: "a"})
	insert(t, store, stint.Task{ID: "after", Action: "a", After: []stint.TaskID{"held up"}})
	insert(t, store, several(30, "a")...)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "SELECT FROM stint.blocked FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	w := newWorker(t, store, worker.Options{Concurrency: 5}, worker.Handle("a", done))
	run(t, w)
	for _, task := range several(30, "a") {
		finished(t, store, task.ID)
	}
	if got := info(t, store, "held up"); got.State != stint.StateInProgress {
		t.Fatalf("got %+v, want it held up", got)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, got := range finished(t, store, "held up", "after") {
		if got.StatusCode != stint.StatusCompleted || got.Tries != 1 {
			t.Errorf("got %+v, want it completed at its first try", got)
		}
	}
}

// The reply to a commit may be lost. A handler that repeats its transaction then must not commit
// its rows a second time.
func TestReturnIn_RefusesToBeRepeatedAfterTheCommit(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t)
	rows := keepsRows(t, pool)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	var repeated error
	w := newWorker(t, store, worker.Options{},
		worker.Handle("a", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			for range 2 {
				repeated = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					return keep(ctx, tx, task)
				})
			}
			return worker.Result{}, repeated
		}))
	performed, ok, err := w.PerformNext(t.Context())
	if err != nil || !ok || performed.Outcome != worker.OutcomeCompleted {
		t.Fatalf("PerformNext = %+v, %v, %v, want it completed", performed, ok, err)
	}
	wantErr(t, "the second transaction", repeated, stint.ErrAlreadyReturned)
	if n := rows(); n != 1 {
		t.Errorf("%d rows were committed, want 1", n)
	}
}

// A handler that has forgotten to begin a transaction is told, and its task is not completed.
// Proves G295.
func TestReturnIn_RefusesToBeWithoutATransaction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	var forgotten *pgxpool.Tx
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	refused := make(chan error, 8)
	w := newWorker(t, store, worker.Options{},
		worker.Handle("a", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			for _, tx := range []pgx.Tx{nil, forgotten, stint.Quiet(nil), stint.Quiet(forgotten)} {
				refused <- task.ReturnIn(ctx, tx, worker.Result{})
				_, err := worker.StepIn(ctx, task, tx, "step",
					func(context.Context) (int, error) {
						t.Error("the step is taken")
						return 0, nil
					})
				refused <- err
			}
			steps, err := store.Steps(ctx, task.OwnedTask)
			if err != nil || len(steps) != 0 {
				t.Errorf("Steps = %v, %v, want none", steps, err)
			}
			return worker.Result{}, worker.Abort(errRolledBack)
		}))
	run(t, w)
	for range cap(refused) {
		err := receive(t, "the error", refused)
		if wantErr(t, "the error", err, stint.ErrInvalidArgument); !strings.Contains(
			err.Error(), "tx: must not be nil") {
			t.Errorf("%v does not name tx", err)
		}
	}
	if got := finished(t, store, "a")[0]; got.StatusCode != stint.StatusAborted {
		t.Errorf("the task has ended as %v although its handler has aborted it", got.StatusCode)
	}
}
