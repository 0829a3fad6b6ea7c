package stint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// wantNone checks that a table is empty.
func wantNone(t *testing.T, pool *pgxpool.Pool, table string) {
	t.Helper()
	if n := yields[int](t, pool, "SELECT count(*) FROM stint."+table); n != 0 {
		t.Fatalf("%d rows of %s are left, want none", n, table)
	}
}

// wantReady checks how many tasks are ready.
func wantReady(t *testing.T, pool *pgxpool.Pool, want int) {
	t.Helper()
	if n := yields[int](t, pool, tasksIn("ready")); n != want {
		t.Fatalf("%d tasks are ready, want %d", n, want)
	}
}

// However many expired leases an open transaction holds the tasks of, the others are handed on.
// Proves G51.
func TestMaintain_HandsOnWhatIsBehindLeasesThatAreHeld(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
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
			wantReady(t, pool, 5)
			wantErr(t, "Commit", tx.Commit(t.Context()), nil)
			maintain(t, store)
			wantNone(t, pool, "leases")
		})
	}
}

// Whoever extends a lease in a transaction holds it as long as that lasts.
// Proves G51.
func TestMaintain_HandsOnWhatIsBehindALeaseThatIsBeingExtended(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 2)...)
	held := ownOne(t, store)
	ownOne(t, store)
	expireOneByOne(t, pool)
	tx := begin(t, pool)
	_, err := store.WithTx(tx).ExtendTasksOwnership(
		t.Context(), "actor", []stint.OwnedTask{held}, longLease)
	wantErr(t, "ExtendTasksOwnership", err, nil)
	maintaining := start(func() (any, error) { return nil, store.Maintain(t.Context()) })
	_, err = ends(t, "Maintain", maintaining)
	wantErr(t, "Maintain", err, nil)
	wantReady(t, pool, 1)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
}

// So it is with deadlines that have passed, and with scheduled tasks that are due.
// Proves G51.
func TestMaintain_EndsWhatIsBehindTasksThatAreHeld(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const held = 2000
	store, pool := newStoreAndPool(t, stint.Options{})
	tasks := withDeadlines(held + 5)
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
	wantNone(t, pool, "deadlines")
}

// Proves G51.
func TestMaintain_PromotesWhatIsBehindTasksThatAreHeld(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const held = 2000
	store, pool := newStoreAndPool(t, stint.Options{})
	tasks := later("act", held+5)
	insert(t, store, tasks...)
	makeDue(t, pool)
	tx := begin(t, pool)
	err := errOf(store.WithTx(tx).AbortTasks(t.Context(), named(tasks[:held]), ""))
	wantErr(t, "AbortTasks", err, nil)
	maintain(t, store)
	wantReady(t, pool, 5)
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	maintain(t, store)
	wantReady(t, pool, held+5)
}

// Some tasks of one fetch have tries left, and some have not; some leases are of such ones only.
func TestMaintain_EndsAndHandsOnOutOfOneLease(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
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
	wantNone(t, pool, "leases")
}

// What comes due at once costs as much each as a few of it do.
// Proves G52.
func TestMaintain_CostsWhatIsDue(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const few, many, pagesMost = 400, 2000, 100
	for _, burst := range testrun.Some(bursts) {
		t.Run(burst.name, func(t *testing.T) {
			t.Parallel()
			var each [2]float64
			for i, n := range []int{few, many} {
				store, pool := newUncheckedStore(t, stint.Options{}) // nothing is done
				burst.prepare(t, store, pool, n)
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
	testrun.Long(t)
	_, pool := newStoreAndPool(t, stint.Options{})
	_, spy := watches(t, pool)
	spy.sees(t, "look_for_work", 4)
	if n := spy.count("sweep_leases"); n > 1 {
		t.Errorf("%d times within some seconds", n)
	}
}

// What somebody holds deep behind a task that is to end keeps no others from ending that are tried
// together with it.
// Proves G51.
func TestMaintain_EndsWhatIsTriedTogetherWithWhatIsHeld(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
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

// What cannot end at all is told, and keeps no others from ending either.
func TestMaintain_EndsWhatIsTriedTogetherWithWhatFails(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const others = 7
	store, pool := newStoreAndPool(t, stint.Options{})
	tasks := withDeadlines(others + 2)
	insert(t, store, tasks...)
	passDeadlines(t, pool)
	for i, constraint := range []string{"first", "last"} {
		key := yields[int64](t, pool, "SELECT key FROM stint.tasks WHERE id = $1",
			tasks[i*(others+1)].ID)
		exec(t, pool, fmt.Sprintf(
			"ALTER TABLE stint.finished ADD CONSTRAINT %s CHECK (%d NOT BETWEEN lo AND hi)",
			constraint, key))
	}
	var told []error
	eventually(t, soon, "the others have ended", func() bool {
		if err := store.Maintain(t.Context()); err != nil {
			told = append(told, err)
		}
		return yields[int](t, pool, "SELECT sum(hi - lo + 1) FROM stint.finished") == others
	})
	for _, constraint := range []string{"first", "last"} {
		exec(t, pool, "ALTER TABLE stint.finished DROP CONSTRAINT "+constraint)
		if all := fmt.Sprint(told); !strings.Contains(all, constraint) {
			t.Errorf("Maintain told %s, want the constraint %q named", all, constraint)
		}
	}
	maintain(t, store)
	wantNone(t, pool, "deadlines")
}

// However much of one kind is due, the others are looked at again before its end.
func TestMaintain_LooksAtAllKindsBehindABacklogOfOne(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const looks, inALook = 20, 1000
	pool := testdb.New(t)
	spied, spy := spyOn(t, pool, 1)
	store := openStore(t, spied, stint.Options{Maintenance: stint.MaintainNever, PollOnly: true})
	insert(t, store, later("act", looks*inALook)...)
	makeDue(t, pool)
	maintain(t, store)
	wantNone(t, pool, "scheduled")
	if n := spy.count("reclaim_leases"); n < 2 {
		t.Errorf("leases were looked at %d times beside %d looks at scheduled tasks",
			n, spy.count("promote_scheduled"))
	}
}

// As long as a transaction is open that is older than them, leases that have ended stay in the
// index. Most looks pass over them and find what has come due lately; the others find all of it.
// Proves G35.
func TestLooks_DoNotWalkLeasesThatEndedLongAgo(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newUncheckedStore(t, stint.Options{Maintenance: stint.MaintainNever})
	pinned, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	wantErr(t, "Begin", err, nil)
	defer func() { _ = pinned.Rollback(t.Context()) }()
	_, err = pinned.Exec(t.Context(), "SELECT 1 FROM stint.tasks") // takes its snapshot
	wantErr(t, "SELECT", err, nil)
	const dead, few = 20_000, 60
	exec(t, pool, fmt.Sprintf(`INSERT INTO stint.leases (claim, actor, deadline, size, spans)
		SELECT n, 'gone', statement_timestamp() - interval '1 h', 1, ARRAY[ARRAY[n, n]]
		FROM generate_series(1::bigint, %d) AS n`, dead))
	exec(t, pool, "DELETE FROM stint.leases")
	insert(t, store, after("a"))
	ownOne(t, store)
	exec(t, pool, "ANALYZE")

	for name, args := range map[string]string{
		"look_for_work": "'stint', '', '', %t, 1", "next_due": "'{}', 0, '{}', '{}', true, %t",
	} {
		if n := pagesOf(t, pool, name, fmt.Sprintf(args, false)); n > few {
			t.Errorf("%s reads %d pages", name, n)
		}
		if n := pagesOf(t, pool, name, fmt.Sprintf(args, true)); n < 3*few {
			t.Errorf("%s of everything reads %d pages, so the test shows nothing", name, n)
		}
	}
	for ago, want := range map[string][2]bool{
		"-1 h": {false, false}, "1 s": {true, true}, "10 s": {false, true},
	} {
		exec(t, pool, "UPDATE stint.leases "+
			"SET deadline = statement_timestamp() - interval '"+ago+"'")
		for i, whole := range []bool{false, true} {
			var overdue bool
			err := pool.QueryRow(t.Context(), statements(t)["next_due"], []string{}, 0, []int64{},
				[]int64{}, true, whole).Scan(nil, &overdue, nil)
			wantErr(t, "next_due", err, nil)
			if overdue != want[i] {
				t.Errorf("overdue for %s: %t, want %t, with whole %t", ago, overdue, want[i], whole)
			}
		}
	}
}
