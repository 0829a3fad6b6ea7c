package stint_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// keyedTasks are n tasks with IDs that begin with a key each, one key after the other.
func keyedTasks(n int, keys ...string) []stint.Task {
	tasks := make([]stint.Task, 0, n)
	for i := range n {
		id := fmt.Sprintf("%s/%06d", keys[i%len(keys)], i)
		tasks = append(tasks, stint.Task{ID: stint.TaskID(id), Action: "act"})
	}
	return tasks
}

// wantCounted checks that so many tasks count as in progress, and that so many have one slot each.
func wantCounted(t *testing.T, store *stint.Store, pool *pgxpool.Pool, tasks, slots int) {
	t.Helper()
	if got, _ := limitsOf(t, store); got.InProgress != tasks {
		t.Errorf("%d tasks count, want %d", got.InProgress, tasks)
	}
	got := yields[string](t, pool, `SELECT count(*) || ' slots of ' || count(DISTINCT tasks.key)
		FROM stint.slots
		JOIN stint.tasks USING (key, action, limit_key)
		JOIN stint.leased
		  ON tasks.key BETWEEN leased.lo AND leased.hi AND leased.claim = slots.claim`)
	if want := fmt.Sprintf("%d slots of %d", slots, slots); got != want {
		t.Errorf("there are %s tasks, want %s", got, want)
	}
}

// Proves L1.
func TestSetLimits_CountsTasksThatWereHandedOutBefore(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	const n = 7000 // more than one statement gives slots to
	for part := range 7 {
		tasks := keyedTasks(n/7, "a", "b")
		for i := range tasks {
			tasks[i].ID += stint.TaskID(fmt.Sprint("/", part))
		}
		insert(t, store, tasks...)
	}
	insert(t, store, stint.Task{ID: "a/other", Action: "other"})
	giveKeys(t, pool)
	exec(t, pool, "UPDATE stint.tasks SET limit_key = NULL WHERE id = 'a/000000/0'")
	if owned := own(t, store, n); len(owned) != n {
		t.Fatalf("%d tasks are owned", len(owned))
	}
	_, err := store.OwnTasks(t.Context(), "actor", 1, []string{"other"}, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
	for range 2 { // the call repeated changes nothing
		setLimits(t, store, stint.Limits{Concurrency: 5, ConcurrencyPerKey: 1})
		wantCounted(t, store, pool, n, n-1)
	}
	slots := yields[string](t, pool, `SELECT min(slot) || ' to ' || max(slot) || ' of ' || count(*)
		FROM stint.slots WHERE limit_key = 'b'`)
	if want := fmt.Sprintf("0 to %d of %d", n/2-1, n/2); slots != want {
		t.Errorf("the slots of b are %s, want %s", slots, want)
	}
}

// Proves L1.
func TestSetLimits_GivesSlotsBehindThoseThatAreThere(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, keyedTasks(2, "a")...)
	giveKeys(t, pool)
	own(t, store, 2)
	// A slot of another performance is free, and one that is held counts.
	exec(t, pool, "INSERT INTO stint.slots (action, limit_key, slot, key, claim) "+
		"SELECT 'act', 'a', 3, lo, claim FROM stint.leased ORDER BY lo LIMIT 1")
	exec(t, pool, "INSERT INTO stint.slots (action, limit_key, slot, key, claim) "+
		"SELECT 'act', 'a', 7, hi, claim - 1 FROM stint.leased ORDER BY lo DESC LIMIT 1")
	setLimits(t, store, stint.Limits{ConcurrencyPerKey: 1})
	wantCounted(t, store, pool, 2, 2)
	slots := yields[string](t, pool, "SELECT string_agg(slot::text, ' ' ORDER BY slot) "+
		"FROM stint.slots")
	if slots != "3 7 8" {
		t.Errorf("the slots are %s", slots)
	}
}

// spiedStore returns a store whose statements are counted.
func spiedStore(t *testing.T) (*stint.Store, *pgxpool.Pool, *spy) {
	t.Helper()
	pool := testdb.New(t)
	spied, spy := spyOn(t, pool, 4)
	return openStore(t, spied, stint.Options{Maintenance: stint.MaintainNever}), pool, spy
}

// A fetch that does not see the limits may be committed after them.
// Proves L1.
func TestSetLimits_WaitsForFetchesThatAreUnderWay(t *testing.T) {
	t.Parallel()
	store, pool, spy := spiedStore(t)
	insert(t, store, keyedTasks(3, "a", "b")...)
	giveKeys(t, pool)
	tx := begin(t, pool)
	if owned := own(t, store.WithTx(tx), 3); len(owned) != 3 {
		t.Fatalf("%d tasks are owned", len(owned))
	}
	limits := stint.Limits{Concurrency: 1, ConcurrencyPerKey: 1}
	setting := start(func() (bool, error) {
		return true, store.SetLimits(t.Context(), "act", limits)
	})
	spy.sees(t, "leased_writers", 3)
	wantGoingOn(t, "SetLimits", setting)
	if got, _ := limitsOf(t, store); got.Limits != limits {
		t.Errorf("the limits are not in force: %+v", got)
	}
	// It waits for those that were there, and for no others.
	later := begin(t, pool)
	insert(t, store, stint.Task{ID: "later", Action: "other"})
	_, err := store.WithTx(later).OwnTasks(t.Context(), "actor", 1, []string{"other"}, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	_, err = ends(t, "SetLimits", setting)
	wantErr(t, "SetLimits", err, nil)
	wantCounted(t, store, pool, 3, 3)
}

// Proves G37.
func TestSetLimits_SaysThatOwnedTasksMayNotCountIfItIsCutOff(t *testing.T) {
	t.Parallel()
	store, pool, spy := spiedStore(t)
	insert(t, store, keyedTasks(1, "a")...)
	tx := begin(t, pool)
	own(t, store.WithTx(tx), 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	setting := start(func() (bool, error) {
		return true, store.SetLimits(ctx, "act", stint.Limits{Concurrency: 1})
	})
	spy.sees(t, "leased_writers", 2)
	cancel()
	_, err := ends(t, "SetLimits", setting)
	wantErr(t, "SetLimits", err, context.Canceled)
	wantText(t, err.Error(), "in force", "call again", "are open: 1 (the oldest ones: stint check)")
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	if got, _ := limitsOf(t, store); got.Limits.Concurrency != 1 || got.InProgress != 0 {
		t.Errorf("ListLimits = %+v", got)
	}
	setLimits(t, store, stint.Limits{Concurrency: 1})
	wantCounted(t, store, pool, 1, 0)
}

// Whoever changes a task in progress does not wait for SetLimits, nor the other way round, but the
// task counts in the end.
// Proves L1.
func TestSetLimits_ComesBackToTasksThatSomebodyLocks(t *testing.T) {
	t.Parallel()
	store, pool, spy := spiedStore(t)
	for range 2 { // a row each
		insert(t, store, stint.Task{Action: "act"})
	}
	owned := own(t, store, 2)
	tx := begin(t, pool)
	_, err := tx.Exec(t.Context(), "SELECT FROM stint.leased ORDER BY lo LIMIT 1 FOR UPDATE")
	wantErr(t, "SELECT", err, nil)
	setting := start(func() (bool, error) {
		return true, store.SetLimits(t.Context(), "act", stint.Limits{Concurrency: 1})
	})
	spy.sees(t, "mark_leased", 4)
	wantGoingOn(t, "SetLimits", setting)
	if got, _ := limitsOf(t, store); got.InProgress != 1 {
		t.Errorf("%d tasks count, want the one that nobody locks", got.InProgress)
	}
	wantErr(t, "SetStatus", store.SetStatus(t.Context(), owned[1], "goes on", 0), nil)
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	_, err = ends(t, "SetLimits", setting)
	wantErr(t, "SetLimits", err, nil)
	wantCounted(t, store, pool, 2, 0)
}

// A fetch that found no limits to lock meets them behind that, without a lock: nobody else would
// count what it takes. SetLimits waits until it has ended.
// Proves L1.
func TestSetLimits_WaitsForFetchesThatFoundNothingToLock(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool, spy := spiedStore(t)
	insert(t, store, numbered("t", 3)...)
	tx := begin(t, pool)
	run(t, tx, "lock_limits('{act}')")
	setting := start(func() (bool, error) {
		return true, store.SetLimits(t.Context(), "act", stint.Limits{Concurrency: 1})
	})
	spy.sees(t, "leased_writers", 3)
	wantGoingOn(t, "SetLimits", setting)
	run(t, tx, "own_limited("+ownAll+")")
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	_, err := ends(t, "SetLimits", setting)
	wantErr(t, "SetLimits", err, nil)
	wantFetch(t, store, 10)
	wantCounted(t, store, pool, 1, 0)
}

// Two calls at once give each task one slot, though tasks get slots between their looks.
func TestSetLimits_AtOnceGivesEachTaskOneSlot(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCutStore(t, stint.Options{})
	insert(t, c.truth, ofKey("a", 3)...)
	own(t, c.truth, 3)
	trap := c.proxy.Hold(pgcut.AtRequest, pgcut.Executes("give_slots"))
	second := hold(t, trap, func() error {
		return c.SetLimits(t.Context(), "act", stint.Limits{ConcurrencyPerKey: 1})
	})
	pausedBehind(t, c.truthPool, "give_slots", "summed.lo, summed.hi,", "'{act}', 0, 10, 10",
		func() {
			for _, slot := range []int{0, 5} {
				exec(t, c.truthPool, `INSERT INTO stint.slots (action, limit_key, slot, key, claim)
					VALUES ('act', 'a', $1, -1, -1)`, slot)
			}
			trap.Release()
			awaitWaiting(t, c.truthPool, 2, second)
		}, statements(t)["lock_limiting"])
	wantErr(t, "SetLimits", <-second, nil)
	wantCounted(t, c.truth, c.truthPool, 3, 3)
}
