package stint_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
)

// However many expired leases an open transaction holds the tasks of, the others are handed on.
func TestMaintain_HandsOnWhatIsBehindLeasesThatAreHeld(t *testing.T) {
	t.Parallel()
	for _, held := range []int{99, 100, 2000} {
		t.Run(fmt.Sprint(held), func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{})
			insert(t, store, numbered("t", held+5)...)
			owned := make([]stint.OwnedTask, held+5)
			for i := range owned {
				owned[i] = ownOne(t, store)
			}
			expireOneByOne(t, pool)
			tx := begin(t, pool)
			_, err := store.WithTx(tx).ReturnTasks(t.Context(), completed(owned[:held]))
			wantErr(t, "ReturnTasks", err, nil)
			for range 1 + held/1000 {
				maintain(t, store)
			}
			if n := yields[int](t, pool, tasksIn("ready")); n != 5 {
				t.Errorf("%d tasks are handed on, want 5", n)
			}
			wantErr(t, "Commit", tx.Commit(t.Context()), nil)
			maintain(t, store)
			if n := yields[int](t, pool, "SELECT count(*) FROM stint.leases"); n != 0 {
				t.Errorf("%d leases are left, want none", n)
			}
		})
	}
}

// So it is with deadlines that have passed, and with scheduled tasks that are due.
func TestMaintain_EndsWhatIsBehindTasksThatAreHeld(t *testing.T) {
	t.Parallel()
	const held = 2000
	store, pool := newStoreAndPool(t, stint.Options{})
	tasks := numbered("t", held+5)
	for i := range tasks {
		tasks[i].Deadline = time.Now().Add(time.Hour)
	}
	insert(t, store, tasks...)
	owned := own(t, store, held)
	passDeadlines(t, pool)
	tx := begin(t, pool)
	_, err := store.WithTx(tx).ReturnTasks(t.Context(), completed(owned))
	wantErr(t, "ReturnTasks", err, nil)
	maintain(t, store)
	maintain(t, store)
	for _, task := range tasks[held:] {
		if got := info(t, store, task.ID); got.AbortCause != stint.CauseExpired {
			t.Errorf("GetTasks = %+v, want it aborted", got)
		}
	}
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	maintain(t, store)
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.deadlines"); n != 0 {
		t.Errorf("%d deadlines are left, want none", n)
	}
}

func TestMaintain_PromotesWhatIsBehindTasksThatAreHeld(t *testing.T) {
	t.Parallel()
	const held = 2000
	store, pool := newStoreAndPool(t, stint.Options{})
	tasks := numbered("t", held+5)
	for i := range tasks {
		tasks[i].NotBefore = time.Now().Add(time.Hour)
	}
	insert(t, store, tasks...)
	makeDue(t, pool)
	tx := begin(t, pool)
	err := store.WithTx(tx).AbortTasks(t.Context(), named(tasks[:held]), "")
	wantErr(t, "AbortTasks", err, nil)
	maintain(t, store)
	if n := yields[int](t, pool, tasksIn("ready")); n != 5 {
		t.Errorf("%d tasks are ready, want 5", n)
	}
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	maintain(t, store)
	if n := yields[int](t, pool, tasksIn("ready")); n != held+5 {
		t.Errorf("%d tasks are ready, want %d", n, held+5)
	}
}

// Some tasks of one hand-out have tries left, and some have not; some leases are of such ones only.
func TestMaintain_EndsAndHandsOnOutOfOneLease(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	tasks := numbered("t", 3000)
	for i := range tasks {
		switch {
		case i < 1000:
			tasks[i].MaxTries = 1
		case i < 2000:
			tasks[i].MaxTries = 1 + i%2
		}
	}
	insert(t, store, tasks...)
	own(t, store, 1500)
	own(t, store, 1500)
	expireLeases(t, pool)
	maintain(t, store)
	infos, err := store.GetTasks(t.Context(), named(tasks))
	wantErr(t, "GetTasks", err, nil)
	for i, task := range infos {
		want := stint.StateReady
		if tasks[i].MaxTries == 1 {
			want = stint.StateAborted
		}
		if task.State != want {
			t.Fatalf("task %d is %s, want %s", i, task.State, want)
		}
	}
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.leases"); n != 0 {
		t.Errorf("%d leases are left, want none", n)
	}
}

// What comes due at once costs as much each as a few of it do.
func TestMaintain_CostsWhatIsDue(t *testing.T) {
	t.Parallel()
	const few, many, pagesMost = 400, 2000, 100
	for name, prepare := range map[string]func(*testing.T, *stint.Store, *pgxpool.Pool, int){
		"leases": func(t *testing.T, store *stint.Store, pool *pgxpool.Pool, n int) {
			t.Helper()
			insert(t, store, numbered("t", n)...)
			for range n {
				ownOne(t, store)
			}
			expireOneByOne(t, pool)
		},
		"leases without tries": func(t *testing.T, store *stint.Store, pool *pgxpool.Pool, n int) {
			t.Helper()
			tasks := numbered("t", n)
			for i := range tasks {
				tasks[i].MaxTries = 1
			}
			insert(t, store, tasks...)
			for range n {
				ownOne(t, store)
			}
			expireOneByOne(t, pool)
		},
		"a lease of many rows": func(t *testing.T, store *stint.Store, pool *pgxpool.Pool, n int) {
			t.Helper()
			tasks := numbered("t", n)
			for i := range tasks {
				tasks[i].Deadline = time.Now().Add(time.Hour)
			}
			insert(t, store, tasks...)
			own(t, store, n)
			expireLeases(t, pool)
		},
		"scheduled": func(t *testing.T, store *stint.Store, pool *pgxpool.Pool, n int) {
			t.Helper()
			tasks := numbered("t", n)
			for i := range tasks {
				tasks[i].NotBefore = time.Now().Add(time.Hour)
			}
			insert(t, store, tasks...)
			makeDue(t, pool)
		},
		"spontaneous": func(t *testing.T, store *stint.Store, pool *pgxpool.Pool, n int) {
			t.Helper()
			tasks := numbered("t", n)
			for i := range tasks {
				tasks[i].Action, tasks[i].NotBefore = stint.Spontaneous, time.Now().Add(time.Hour)
			}
			insert(t, store, tasks...)
			makeDue(t, pool)
		},
		"deadlines": func(t *testing.T, store *stint.Store, pool *pgxpool.Pool, n int) {
			t.Helper()
			tasks := numbered("t", n)
			for i := range tasks {
				tasks[i].Deadline = time.Now().Add(time.Hour)
			}
			insert(t, store, tasks...)
			passDeadlines(t, pool)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var each [2]float64
			for i, n := range []int{few, many} {
				store, pool := newUncheckedStore(t, stint.Options{}) // nothing is done
				prepare(t, store, pool, n)
				if n == many { // with new statistics, and without
					exec(t, pool, "ANALYZE")
				}
				read := pages(t, pool, func(store *stint.Store) { maintain(t, store) })
				each[i] = float64(read) / float64(n)
			}
			t.Logf("%.1f pages for each of %d, %.1f for each of %d", each[0], few, each[1], many)
			if each[1] > 1.5*each[0]+1 || each[1] > pagesMost {
				t.Errorf("%.1f pages for each of %d, %.1f for each of %d",
					each[0], few, each[1], many)
			}
		})
	}
}

// Leases that never expire are not looked through every second.
func TestStore_SeldomLooksThroughLeasesWithoutADeadline(t *testing.T) {
	t.Parallel()
	_, pool := newStoreAndPool(t, stint.Options{})
	_, spy := watches(t, pool)
	spy.sees(t, "promote_scheduled", 4)
	if n := spy.count("sweep_leases"); n > 1 {
		t.Errorf("%d times within some seconds", n)
	}
}

// expireOneByOne lets leases expire in the order in which they were given.
func expireOneByOne(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	exec(tb, pool, `UPDATE stint.leases
		SET deadline = statement_timestamp() - interval '1 h' + place * interval '1 us'
		FROM (SELECT claim, row_number() OVER (ORDER BY owned_at) AS place
		      FROM stint.leases) AS lease
		WHERE leases.claim = lease.claim`)
}

// makeDue lets the time of scheduled tasks come.
func makeDue(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	exec(tb, pool, "UPDATE stint.scheduled SET not_before = statement_timestamp() - interval '1 s'")
}

// passDeadlines lets the deadlines of all tasks pass.
func passDeadlines(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	for _, table := range []string{"tasks", "deadlines", "ready"} {
		exec(tb, pool, "UPDATE stint."+table+" SET deadline = '2020-01-01Z'")
	}
}

func named(tasks []stint.Task) []stint.TaskID {
	ids := make([]stint.TaskID, len(tasks))
	for i := range tasks {
		ids[i] = tasks[i].ID
	}
	return ids
}

// What somebody holds deep behind a task that is to end keeps no others from ending that are tried
// together with it.
func TestMaintain_EndsWhatIsTriedTogetherWithWhatIsHeld(t *testing.T) {
	t.Parallel()
	const others = 7
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{ID: "a", Action: "act", MaxTries: 1},
		after("b", "a"), after("c", "b"), after("x"))
	own(t, store, 2)
	tx := begin(t, pool)
	wantErr(t, "AddDependencies", addDependency(t, store.WithTx(tx), "x", "c"), nil)
	for i := range others {
		id := stint.TaskID(fmt.Sprint("other", i))
		insert(t, store, stint.Task{ID: id, Action: "act", MaxTries: 1})
		ownOne(t, store)
	}
	expireLeases(t, pool)
	eventually(t, soon, "the others have ended", func() bool {
		maintain(t, store)
		return yields[int](t, pool, `SELECT count(*) FROM stint.finished
			JOIN stint.tasks ON key BETWEEN lo AND hi
			WHERE id LIKE 'other%' AND cause = 2`) == others
	})
}
