package stint_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// What waits for a final task may be waited for by that task's predecessor: no cycle, until the
// task is opened again.
// Proves R4.
func TestRetryTasks_RefusesWhatWouldWaitForItself(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	ctx := t.Context()
	insert(t, store, after("x"), after("down", "x"), anyway("y", "down"))
	wantErr(t, "AbortTasks", errOf(store.AbortTasks(ctx, []stint.TaskID{"down"}, "")), nil)
	wantErr(t, "AddDependencies", addDependency(t, store, "y", "x"), nil)
	wantErr(t, "RetryTasks", errOf(store.RetryTasks(ctx, []stint.TaskID{"down"})), stint.ErrCycle)
	wantState(t, store, stint.StateAborted, "down")
	if got := completeAll(t, store); len(got) != 2 {
		t.Errorf("completed %q, want y and x", got)
	}
	wantErr(t, "RetryTasks", errOf(store.RetryTasks(ctx, []stint.TaskID{"down"})), nil)
	if got := completeAll(t, store); len(got) != 1 {
		t.Errorf("completed %q, want the task that was down", got)
	}
}

// The result of a predecessor is kept for a task that is opened at the same moment.
// Proves R18.
func TestRetryTasks_KeepsWhatTheTaskMayAskFor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	pruner := openStore(t, pool, stint.Options{
		Maintenance: stint.MaintainNever,
		Retention:   stint.Retention{Completed: time.Microsecond, Aborted: stint.KeepForever},
	})
	insert(t, store, after("a"), after("b", "a"))
	finish(t, store, "a", stint.StatusCompleted)
	fail(t, store, "b")
	tx := begin(t, pool)
	retry(t, store.WithTx(tx), "b")
	pruning := start(func() (int64, error) { return pruner.Prune(t.Context()) })
	if n, err := ends(t, "Prune", pruning); n > 0 || err != nil {
		t.Errorf("Prune = %d, %v, want none pruned", n, err)
	}
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	b := ownOne(t, store)
	if inputs, err := store.Inputs(t.Context(), b); err != nil || len(inputs) != 1 {
		t.Errorf("Inputs = %v, %v, want one, told of %d", inputs, err, b.Completed)
	}
	returnWith(t, store, b, stint.Return{Code: stint.StatusCompleted})
	if n, err := pruner.Prune(t.Context()); n != 2 || err != nil {
		t.Errorf("Prune = %d, %v, want both pruned", n, err)
	}
}

// A task that completed has aborted nothing: who waited for another one, too, and was aborted for
// that one, stays down.
func TestRetryTasks_LeavesDownWhatACompletedTaskDidNotBringDown(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, after("a"), after("b"), after("both", "a", "b"))
	fail(t, store, "b")
	finish(t, store, "a", stint.StatusCompleted)
	wantErr(t, "DeleteTasks", errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"b"})), nil)
	retry(t, store, "a")
	wantState(t, store, stint.StateAborted, "both")
}

// A stricter transaction than READ COMMITTED fails, rather than overlook that an end was taken
// back, or that somebody counts on it.
// Proves G74.
func TestRetryTasks_OverlooksNothingInAStricterTransaction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, calls := range map[string]struct{ other, strict func(*stint.Store) error }{
		"insert": {
			func(s *stint.Store) error {
				return errOf(s.RetryTasks(t.Context(), []stint.TaskID{"a"}))
			},
			func(s *stint.Store) error {
				return s.InsertTasks(t.Context(), []stint.Task{after("n", "a")})
			},
		},
		"retry": {
			func(s *stint.Store) error {
				return s.InsertTasks(t.Context(), []stint.Task{after("n", "a")})
			},
			func(s *stint.Store) error {
				return errOf(s.RetryTasks(t.Context(), []stint.TaskID{"a"}))
			},
		},
		"delete": {
			func(s *stint.Store) error {
				return errOf(s.RetryTasks(t.Context(), []stint.TaskID{"a"}))
			},
			func(s *stint.Store) error {
				return errOf(s.DeleteTasks(t.Context(), []stint.TaskID{"a"}))
			},
		},
		"retry twice": {
			func(s *stint.Store) error {
				return errOf(s.RetryTasks(t.Context(), []stint.TaskID{"a"}))
			},
			func(s *stint.Store) error {
				return errOf(s.RetryTasks(t.Context(), []stint.TaskID{"b"}))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{})
			insert(t, store, after("a"), after("b"), after("c", "a", "b"))
			finish(t, store, "a", stint.StatusCompleted)
			fail(t, store, "b")
			tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
			wantErr(t, "BeginTx", err, nil)
			inside := store.WithTx(tx)
			_, err = inside.ListTasks(t.Context(), stint.Filter{}) // takes the snapshot
			wantErr(t, "ListTasks", err, nil)
			wantErr(t, "the other", calls.other(store), nil)
			err = calls.strict(inside)
			if err == nil {
				err = tx.Commit(t.Context())
			} else {
				_ = tx.Rollback(t.Context())
			}
			var pgErr *pgconn.PgError
			refused := errors.As(err, &pgErr) && pgErr.Code == "40001"
			if !refused && !errors.Is(err, stint.ErrInvalidArgument) {
				t.Errorf("%v, want a serialization failure, or a refusal", err)
			}
		})
	}
}
