package stint_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// R4 is about tasks that would wait for each other. Nobody waits for x here: a, which did, is
// final, and b has its signal.
func TestAddDependencies_FindsNoCycleThroughFinishedTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, after("x"), after("a", "x"), anyway("b", "a"))
	wantErr(t, "AbortTasks", errOf(store.AbortTasks(t.Context(), []stint.TaskID{"a"}, "")), nil)
	wantState(t, store, stint.StateReady, "b")
	wantErr(t, "AddDependencies", addDependency(t, store, "b", "x"), nil)
}

// The same of a task that still waits for another: a does not hold up b any more.
func TestAddDependencies_FindsNoCycleThroughATaskThatEndedAheadOfABlockedOne(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("x"), after("c"), after("a", "x"), anyway("b", "a", "c"))
	wantErr(t, "AbortTasks", errOf(store.AbortTasks(t.Context(), []stint.TaskID{"a"}, "")), nil)
	wantState(t, store, stint.StateBlocked, "b")
	wantErr(t, "AddDependencies", addDependency(t, store, "b", "x"), nil)
	wantState(t, store, stint.StateBlocked, "x")
}

func TestInsertTasks_FindsNoCycleThroughFinishedTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, after("x"), after("a", "x"), anyway("b", "a"))
	wantErr(t, "AbortTasks", errOf(store.AbortTasks(t.Context(), []stint.TaskID{"a"}, "")), nil)
	n := after("n", "b")
	n.ToSignalAfter = []stint.TaskID{"x"}
	wantErr(t, "InsertTasks", store.InsertTasks(t.Context(), []stint.Task{n}), nil)
}

// What a join stands for does not depend on when one began to wait for it.
func TestOwnTasks_TellsTheSameOfAJoinBeforeAndAfterItEnded(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, after("a"), join("left", "a"), join("right", "a"),
		join("both", "left", "right"), after("early", "both"))
	finish(t, store, "a", stint.StatusCompleted)
	insert(t, store, after("late", "both"))
	owned := own(t, store, 2)
	if early, late := owned[0].Completed, owned[1].Completed; early != late {
		t.Errorf("%q is told of %d, %q of %d", owned[0].ID, early, owned[1].ID, late)
	}
}

// That is what makes an insert safe to repeat.
// Proves R1.
func TestInsertTasks_RepeatedNamesTheTasksThatExist(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	t.Run("dependent in progress", func(t *testing.T) {
		t.Parallel()
		store := newStore(t)
		insert(t, store, after("s"))
		n := stint.Task{ID: "n", Action: "first", ToSignalAfter: []stint.TaskID{"s"}}
		insert(t, store, n)
		owned, err := store.OwnTasks(t.Context(), "actor", 1, []string{"first"}, time.Hour)
		wantErr(t, "OwnTasks", err, nil)
		err = store.ReturnTask(t.Context(), "n", owned[0].Token, "", stint.StatusCompleted)
		wantErr(t, "ReturnTask", err, nil)
		ownOne(t, store)
		err = store.InsertTasks(t.Context(), []stint.Task{n})
		wantTasks(t, "InsertTasks", err, stint.ErrTaskExists, "n")
	})
	t.Run("predecessor deleted", func(t *testing.T) {
		t.Parallel()
		store := newStore(t)
		insert(t, store, after("p"))
		insert(t, store, after("n", "p"))
		finish(t, store, "p", stint.StatusCompleted)
		wantErr(t, "DeleteTasks", errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"p"})), nil)
		err := store.InsertTasks(t.Context(), []stint.Task{after("n", "p")})
		wantTasks(t, "InsertTasks", err, stint.ErrTaskExists, "n")
	})
}

// The old task goes and the new one comes at one instant, so there is none at which the join has
// nothing to wait for.
// Proves R5.
func TestReplaceTasks_LetsAJoinWaitForTheNewTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, action := range []string{"act", stint.Spontaneous} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			insert(t, store, after("a"),
				stint.Task{ID: "j", Action: action, After: []stint.TaskID{"a"}})
			n := after("a")
			n.ToSignalAfter = []stint.TaskID{"j"}
			wantErr(t, "ReplaceTasks", store.ReplaceTasks(t.Context(), []stint.Task{n}), nil)
			wantState(t, store, stint.StateBlocked, "j")
		})
	}
}

// A call that saw the way from x to b before a was deleted must not go it afterwards (R17): whoever
// looks in between sees b wait for q alone.
func TestAbortTasks_SparesWhatHasCeasedToWait(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, remove := range map[string]func(context.Context, *stint.Store) error{
		"deleted": func(ctx context.Context, store *stint.Store) error {
			return errOf(store.DeleteTasks(ctx, []stint.TaskID{"a"}))
		},
		"replaced": func(ctx context.Context, store *stint.Store) error {
			return store.ReplaceTasks(ctx, []stint.Task{after("a")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{})
			insert(t, store, after("x"), after("q"), after("a", "x"), after("b", "a", "q"))
			tx := begin(t, pool)
			wantErr(t, name, remove(t.Context(), store.WithTx(tx)), nil)
			done := make(chan error, 1)
			go func() { done <- errOf(store.AbortTasks(t.Context(), []stint.TaskID{"x"}, "")) }()
			awaitWaiting(t, pool, 1, done)
			wantErr(t, "Commit", tx.Commit(t.Context()), nil)
			wantErr(t, "AbortTasks", <-done, nil)
			wantState(t, store, stint.StateBlocked, "b")
		})
	}
}

// expiredBehindTransaction has x, which has expired without tries left and shall signal y, a
// transaction of somebody that holds y, and w, which has expired and has nothing to do with that.
func expiredBehindTransaction(t *testing.T) *stint.Store {
	t.Helper()
	store, pool := newStoreAndPool(t, stint.Options{})
	x := after("x")
	x.MaxTries = 1
	insert(t, store, x, after("z"), after("w"), anyway("y", "x"))
	own(t, store, 3)
	expireLeases(t, pool)
	err := addDependency(t, store.WithTx(begin(t, pool)), "z", "y")
	wantErr(t, "AddDependencies", err, nil)
	return store
}

// OwnTasks never blocks on a locked task.
// Proves R7.
func TestOwnTasks_DoesNotWaitForADependent(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := expiredBehindTransaction(t)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	_, err := store.OwnTasks(ctx, "other", 1, []string{"other"}, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
}

// One transaction that is held open must not stop the upkeep of everybody's tasks.
// Proves R13.
func TestMaintain_HandsOnWhatNobodyHolds(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := expiredBehindTransaction(t)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if err := store.Maintain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		wantErr(t, "Maintain", err, nil)
	}
	wantState(t, store, stint.StateReady, "w")
}

// requireNoDeadlock lets verbs begin one after the other, the first of which waits for a task that
// the test holds, and then lets them all go on.
func requireNoDeadlock(
	t *testing.T, pool *pgxpool.Pool, held stint.TaskID, verbs ...func() error,
) {
	t.Helper()
	tx := begin(t, pool)
	lockBlocked(t, tx, held)
	done := make(chan error, len(verbs))
	for i, verb := range verbs {
		go func() { done <- verb() }()
		awaitWaiting(t, pool, i+1, done)
	}
	began := time.Now()
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	for range verbs {
		wantErr(t, "verb", <-done, nil)
	}
	if n := testdb.Deadlocks(t, pool); n > 0 {
		t.Errorf("%d deadlocks, %v", n, time.Since(began).Round(time.Millisecond))
	}
}

// The dependents of a join are locked in a round of their own, behind those of the task.
func TestReturnTask_ThroughAJoinDoesNotDeadlock(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"), after("c"), after("r"), join("j", "a"), after("m", "j", "r"),
		after("z", "j", "c"), after("k", "a", "c"))
	owned := own(t, store, 2)
	settle := func(task stint.OwnedTask) func() error {
		return func() error {
			return store.ReturnTask(t.Context(), task.ID, task.Token, "", stint.StatusCompleted)
		}
	}
	requireNoDeadlock(t, pool, "m", settle(owned[0]), settle(owned[1]))
}

// What is cancelled is locked before what depends on it, whatever their keys.
// Proves G69.
func TestAbortTasks_AgainstAReturnDoesNotDeadlock(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("x"), anyway("3", "x", "7"), after("5", "x"), after("7", "x"))
	x := ownOne(t, store)
	requireNoDeadlock(t, pool, "5",
		func() error {
			return store.ReturnTask(t.Context(), x.ID, x.Token, "", stint.StatusCompleted)
		},
		func() error { return errOf(store.AbortTasks(t.Context(), []stint.TaskID{"7"}, "")) })
}

// A deadlock that the caller's transaction is part of cannot be resolved by trying again within it:
// the locks that it needs to let go are older than the verb.
func TestWithTx_ReportsADeadlockAtOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("x"), after("w"), anyway("3", "x", "7"), after("7", "x"))
	x := ownOne(t, store)
	spied, spy := spyOn(t, pool, 1)
	tx := begin(t, spied)
	err := addDependency(t, store.WithTx(tx), "w", "7")
	wantErr(t, "AddDependencies", err, nil)
	done := make(chan error, 1)
	go func() {
		done <- store.ReturnTask(t.Context(), x.ID, x.Token, "", stint.StatusCompleted)
	}()
	awaitWaiting(t, pool, 1, done)
	exec(t, pool, "SELECT pg_sleep(1.2)") // until its own search for a deadlock is over
	err = errOf(store.WithTx(tx).AbortTasks(t.Context(), []stint.TaskID{"7"}, ""))
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "40P01" || spy.count("withdraw_tasks") != 1 {
		t.Errorf("AbortTasks = %v, after %d tries", err, spy.count("withdraw_tasks"))
	}
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	wantErr(t, "ReturnTask", <-done, nil)
}

// Between the cut that frees a task from its span and the look at its state, the task may become
// ready in a span with others, which must not share its fate.
func TestAddDependencies_LeavesTheNeighboursOfATaskThatBecomesReady(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, chosen := range []stint.TaskID{"d1", "d2"} {
		store, pool := newStoreAndPool(t, stint.Options{})
		crowd := benchTasks("e", 200)
		insert(t, store, crowd...)
		insert(t, store, after("p"))
		p := ownOne(t, store)
		insert(t, store, after("q"), after("d1", "p"), after("d2", "p"), after("d3", "p"))
		tx := begin(t, pool)
		_, err := store.WithTx(tx).OwnTasks(
			t.Context(), "actor", 200, []string{"bench"}, time.Hour)
		wantErr(t, "OwnTasks", err, nil)
		done := make(chan error, 1)
		go func() {
			done <- store.AddDependencies(t.Context(), []stint.Dependency{
				{Predecessor: "q", Dependent: chosen}, {Predecessor: "q", Dependent: crowd[0].ID},
			})
		}()
		awaitWaiting(t, pool, 1, done)
		err = store.ReturnTask(t.Context(), "p", p.Token, "", stint.StatusCompleted)
		wantErr(t, "ReturnTask", err, nil)
		wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
		wantErr(t, "AddDependencies", <-done, nil)
		for _, id := range []stint.TaskID{"d1", "d2", "d3"} {
			want := stint.StateReady
			if id == chosen {
				want = stint.StateBlocked
			}
			wantState(t, store, want, id)
		}
	}
}

// A stricter transaction than READ COMMITTED fails, rather than overlook an edge.
// Proves G74.
func TestWithTx_AStricterTransactionOverlooksNoEdge(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, end := range map[string]func(*stint.Store, stint.OwnedTask) error{
		"return": func(inside *stint.Store, p stint.OwnedTask) error {
			return inside.ReturnTask(t.Context(), "p", p.Token, "", stint.StatusCompleted)
		},
		"abort": func(inside *stint.Store, _ stint.OwnedTask) error {
			return errOf(inside.AbortTasks(t.Context(), []stint.TaskID{"r"}, ""))
		},
		"abort of what is scheduled": func(inside *stint.Store, _ stint.OwnedTask) error {
			return errOf(inside.AbortTasks(t.Context(), []stint.TaskID{"s"}, ""))
		},
		"cycle": func(inside *stint.Store, _ stint.OwnedTask) error {
			return inside.AddDependencies(t.Context(), []stint.Dependency{
				{Predecessor: "d", Dependent: "r"},
			})
		},
	} {
		store, pool := newStoreAndPool(t, stint.Options{})
		insert(t, store, after("p"), join("j", "p"), stint.Task{ID: "r", Action: "other"},
			after("d", "p"),
			stint.Task{ID: "s", Action: "other", NotBefore: time.Now().Add(time.Hour)})
		p := ownOne(t, store)
		tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		wantErr(t, "BeginTx", err, nil)
		inside := store.WithTx(tx)
		_, err = inside.ListTasks(t.Context(), stint.Filter{}) // takes the snapshot
		wantErr(t, "ListTasks", err, nil)
		insert(t, store, after("behind join", "j"), after("behind ready", "r"),
			after("behind scheduled", "s"))
		wantErr(t, "AddDependencies", addDependency(t, store, "r", "d"), nil)
		err = end(inside, p)
		if err == nil {
			err = tx.Commit(t.Context())
		} else {
			_ = tx.Rollback(t.Context())
		}
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "40001" {
			t.Errorf("%s: %v, want a serialization failure", name, err)
		}
	}
}

// Layers of joins multiply what they pass on, beyond what a column holds.
func TestReturnTask_PassesOnNoMoreThanANumberHolds(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	tasks := []stint.Task{after("a")}
	below := []stint.TaskID{"a"}
	for layer := range 35 {
		var layerIDs []stint.TaskID
		for _, side := range []string{"left", "right"} {
			id := stint.TaskID(fmt.Sprint(side, layer))
			tasks, layerIDs = append(tasks, join(id, below...)), append(layerIDs, id)
		}
		below = layerIDs
	}
	insert(t, store, append(tasks, after("z", below...))...)
	finish(t, store, "a", stint.StatusCompleted)
	if z := ownOne(t, store); z.Completed != math.MaxInt32 {
		t.Errorf("told of %d", z.Completed)
	}
	insert(t, store, after("late", below...))
	if late := ownOne(t, store); late.Completed != math.MaxInt32 {
		t.Errorf("told of %d", late.Completed)
	}
}
