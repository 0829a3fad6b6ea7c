package stint_test

import (
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// The tests of this file are the defects found in the implementation that these concepts come from,
// as far as they are not about dependencies. Each happened there.

// There, a task whose lease expired on its last try stayed in progress for ever.
// Proves R13.
func TestDefect_LastTryExpires(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{ID: "a", Action: "act", MaxTries: 1})
	ownOne(t, store)
	expireLeases(t, pool)
	if got := own(t, store, 1); len(got) != 0 { // what a lonely worker does all the time
		t.Errorf("a task without tries left was fetched: %v", got)
	}
	maintain(t, store) // which that worker's store does, too
	got := info(t, store, "a")
	if got.State != stint.StateAborted || got.AbortCause != stint.CauseTries {
		t.Errorf("GetTasks = %+v", got)
	}
}

// There, a task could be inserted that no return would accept, for what its texts held.
// Proves R11.
func TestDefect_TaskThatCannotBeReturned(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "'\\\u0001\u2028", Action: "act", PostResult: true})
	task := ownOne(t, store)
	err := store.ReturnTask(
		t.Context(), task.ID, task.Token, "\x00\xff\u0000", stint.StatusCompleted)
	if err != nil {
		t.Errorf("ReturnTask = %v", err)
	}
}

// There, a statement prepared while the queue was empty fetched more than LIMIT.
// Proves R7.
func TestDefect_LimitIsNoLimit(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	exec(t, pool, "ANALYZE")
	for range 7 { // custom plans first, then a generic one
		own(t, store, 10)
	}
	for i := range 50 {
		insert(t, store, stint.Task{ID: numbered("t", 50)[i].ID, Action: "act"})
	}
	for range 5 {
		if got := own(t, store, 10); len(got) != 10 {
			t.Errorf("OwnTasks(10) gave %d tasks", len(got))
		}
	}
}

// There, a temporary table of the caller's session took the place of the store's.
// Proves G154.
func TestDefect_SearchPathIsHijacked(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	for _, table := range []string{"tasks", "ready", "leased", "leases", "finished", "positions"} {
		if _, err := tx.Exec(t.Context(), "CREATE TEMP TABLE "+table+" (key int)"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tx.Exec(t.Context(), "SET LOCAL search_path = pg_temp"); err != nil {
		t.Fatal(err)
	}
	inside := store.WithTx(tx)
	insert(t, inside, stint.Task{ID: "a", Action: "act"})
	insert(t, inside, numbered("t", 100)...)
	task := ownOne(t, inside)
	err = inside.ReturnTask(t.Context(), task.ID, task.Token, "", stint.StatusCompleted)
	if err != nil {
		t.Errorf("ReturnTask = %v", err)
	}
}

// There, an extension revived what others could own already, shortened leases and took negative
// durations.
// Proves R9.
func TestDefect_ExtensionRevivesAndShortens(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	first := ownOne(t, store)
	extend := func(task stint.OwnedTask, lease time.Duration) bool {
		t.Helper()
		kept, err := store.ExtendTasksOwnership(
			t.Context(), "actor", []stint.OwnedTask{task}, lease)
		if err != nil {
			t.Fatalf("ExtendTasksOwnership = %v", err)
		}
		return kept[0]
	}
	before := info(t, store, "a").LeaseUntil
	if !extend(first, time.Second) || !info(t, store, "a").LeaseUntil.Equal(before) {
		t.Error("a shorter lease shortened the longer one")
	}
	_, err := store.ExtendTasksOwnership(
		t.Context(), "actor", []stint.OwnedTask{first}, -time.Hour)
	wantErr(t, "ExtendTasksOwnership", err, stint.ErrInvalidArgument)
	expireLeases(t, pool)
	second := ownOne(t, store)
	if extend(first, time.Hour) {
		t.Error("a lease was extended that somebody else had been given")
	}
	if !extend(second, time.Hour) {
		t.Error("the owner was refused an extension")
	}
}

// There, OwnTasks looked at every task that was ever inserted, finished ones included.
func TestDefect_FetchLooksAtAllTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	fill(t, pool, 20_000)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	read := func() (tuples int64) {
		t.Helper()
		err := tx.QueryRow(t.Context(), "SELECT sum(pg_stat_get_xact_tuples_returned(oid)) "+
			"FROM pg_class WHERE relnamespace = 'stint'::regnamespace").Scan(&tuples)
		if err != nil {
			t.Fatal(err)
		}
		return tuples
	}
	before := read()
	if got := own(t, store.WithTx(tx), 10); len(got) != 10 {
		t.Fatalf("OwnTasks gave %d tasks", len(got))
	}
	if got := read() - before; got > 100 {
		t.Errorf("OwnTasks(10) of 20,000 tasks read %d rows and index entries", got)
	}
}
