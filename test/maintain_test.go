package stint_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Proves R13.
func TestMaintain_AbortsWhatExpiredOnItsLastTry(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	tasks := numbered("t", 100)
	for i := range tasks {
		tasks[i].MaxTries = 1 + i%2
	}
	tasks[4].Deadline = tomorrow() // which is not why it ends
	insert(t, store, tasks...)
	owned := own(t, store, 100)
	slices.SortFunc(owned, func(a, b stint.OwnedTask) int { return cmp.Compare(a.ID, b.ID) })
	if err := store.SetStatus(t.Context(), owned[0], "last words", 0.5); err != nil {
		t.Fatal(err)
	}
	expireLeases(t, pool)
	maintain(t, store)
	for i, task := range owned {
		got := info(t, store, task.ID)
		want := []stint.State{stint.StateAborted, stint.StateReady}[i%2]
		if got.State != want || i%2 == 0 && got.AbortCause != stint.CauseTries {
			t.Fatalf("task %d with %d tries: GetTasks = %+v", i, 1+i%2, got)
		}
		err := store.ReturnTask(t.Context(), task.ID, task.Token, "", stint.StatusCompleted)
		if i%2 == 0 {
			wantErr(t, "ReturnTask of an aborted task", err, stint.ErrInvalidToken)
		} else if err != nil {
			t.Errorf("ReturnTask = %v", err)
		}
	}
	got := info(t, store, owned[0].ID)
	if !strings.HasSuffix(got.Status, "\nlast words") || got.Actor != "actor" {
		t.Errorf("GetTasks = %+v", got)
	}
}

// Proves R6.
func TestMaintain_AbortsWhatIsPastItsDeadline(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	tasks := withDeadlines(4)
	tasks[3].NotBefore = time.Now().Add(time.Minute)
	insert(t, store, tasks...)
	insert(t, store, numbered("free", 100)...)
	owned := own(t, store, 2)
	err := store.ReturnTask(t.Context(), owned[1].ID, owned[1].Token, "", stint.StatusCompleted)
	if err != nil {
		t.Fatal(err)
	}
	maintain(t, store) // too early
	if got := info(t, store, "t000000").State; got != stint.StateInProgress {
		t.Errorf("before its deadline the task is %s", got)
	}
	for _, table := range []string{"deadlines", "tasks", "ready"} {
		exec(t, pool, "UPDATE stint."+table+" SET deadline = deadline - interval '2 hours'")
	}
	if got := own(t, store, 3); len(got) != 3 || got[0].ID != "free000000" {
		t.Errorf("OwnTasks gave %v, want nothing past its deadline", idsOf(got))
	}
	for range 2 {
		maintain(t, store)
		for _, id := range []stint.TaskID{"t000000", "t000002", "t000003"} {
			got := info(t, store, id)
			if got.State != stint.StateAborted || got.AbortCause != stint.CauseExpired {
				t.Errorf("GetTasks = %+v", got)
			}
		}
	}
	if got := info(t, store, "t000001").State; got != stint.StateCompleted {
		t.Errorf("a completed task is %s after its deadline", got)
	}
	err = store.ReturnTask(t.Context(), "t000000", owned[0].Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask", err, stint.ErrInvalidToken)
}

func TestMaintain_AbortsATaskInsertedPastItsDeadline(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "act", Deadline: time.Unix(0, 0)})
	if got := own(t, store, 1); len(got) != 0 {
		t.Error("a task past its deadline was fetched")
	}
	maintain(t, store)
	if got := info(t, store, "a").AbortCause; got != stint.CauseExpired {
		t.Errorf("AbortCause = %q, want %q", got, stint.CauseExpired)
	}
}

// Proves R18.
func TestMaintain_PrunesByAge(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		keep    stint.Retention
		age     time.Duration
		pruned  []stint.TaskID
		remains int
	}{
		"default, young": {stint.Retention{}, 23 * time.Hour, nil, 4},
		"default, a day": {
			stint.Retention{}, 25 * time.Hour, []stint.TaskID{"completed", "posted"}, 2,
		},
		"default, a week": {
			stint.Retention{},
			8 * day,
			[]stint.TaskID{"completed", "posted", "aborted"},
			1,
		},
		"for ever": {stint.Retention{
			Completed: stint.KeepForever, Aborted: stint.KeepForever,
		}, 1000 * day, nil, 4},
		"completed for ever": {stint.Retention{
			Completed: stint.KeepForever, Aborted: time.Minute,
		}, time.Hour, []stint.TaskID{"aborted"}, 3},
		"short, but posted for an hour": {stint.Retention{
			Completed: time.Minute, Aborted: time.Minute,
		}, 50 * time.Minute, []stint.TaskID{"completed", "aborted"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{Retention: test.keep})
			for _, id := range []stint.TaskID{"completed", "aborted", "posted"} {
				insert(t, store, stint.Task{ID: id, Action: "act", PostResult: id == "posted"})
				code := stint.StatusCompleted
				if id == "aborted" {
					code = stint.StatusAborted
				}
				err := store.ReturnTask(t.Context(), id, ownOne(t, store).Token, "", code)
				if err != nil {
					t.Fatal(err)
				}
			}
			insert(t, store, stint.Task{ID: "unfinished", Action: "act"})
			exec(t, pool, "UPDATE stint.finished SET finished_at = finished_at - $1::interval",
				test.age)
			maintain(t, store)
			for _, id := range test.pruned {
				_, err := store.GetTasks(t.Context(), []stint.TaskID{id})
				wantErr(t, "GetTasks of "+string(id), err, stint.ErrTaskNotFound)
			}
			list, err := listTasks(t.Context(), store, stint.Filter{})
			if err != nil || len(list) != test.remains {
				t.Errorf("%d tasks remain, want %d, %v", len(list), test.remains, err)
			}
		})
	}
}

// Proves R18.
func TestPrune_TellsHowManyTasksAreGone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	store, pool := newStoreAndPool(t, stint.Options{
		Retention: stint.Retention{Completed: time.Hour, Aborted: stint.KeepForever},
	})
	const n = 6000 // more than one transaction prunes
	insert(t, store, numbered("t", n)...)
	if _, err := store.ReturnTasks(ctx, completed(own(t, store, n))); err != nil {
		t.Fatal(err)
	}
	insert(t, store, stint.Task{ID: "asked for", Action: "act"})
	finish(t, store, "asked for", stint.StatusCompleted)
	insert(t, store, stint.Task{
		ID: "asks", Action: "act", After: []stint.TaskID{"asked for"},
		NotBefore: time.Now().Add(time.Hour),
	}, stint.Task{ID: "aborted", Action: "act"})
	wantErr(t, "AbortTasks", errOf(store.AbortTasks(ctx, []stint.TaskID{"aborted"}, "")), nil)
	prunes := func(store *stint.Store, want int64) {
		t.Helper()
		if got, err := store.Prune(ctx); got != want || err != nil {
			t.Errorf("Prune = %d, %v, want %d", got, err, want)
		}
	}
	prunes(store, 0)
	exec(t, pool, "UPDATE stint.finished SET finished_at = finished_at - interval '2 hours'")
	tx := begin(t, pool)
	prunes(store.WithTx(tx), n)
	wantErr(t, "Rollback", tx.Rollback(ctx), nil)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if got, err := store.Prune(ended); got != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("Prune with a context that has ended = %d, %v", got, err)
	}
	prunes(store, n)
	prunes(store, 0)
	wantState(t, store, stint.StateCompleted, "asked for")
	wantState(t, store, stint.StateAborted, "aborted")
}

func TestMaintain_WorksThroughMoreThanOneBatch(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{
		Retention: stint.Retention{Completed: time.Hour},
	})
	const n = 5500
	insert(t, store, later("act", n)...)
	makeDue(t, pool)
	maintain(t, store)
	for range 250 {
		own(t, store, 10)
	}
	expireLeases(t, pool)
	maintain(t, store)
	owned := own(t, store, n)
	if len(owned) != n {
		t.Fatalf("%d tasks can be owned, want %d", len(owned), n)
	}
	if _, err := store.ReturnTasks(t.Context(), completed(owned)); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "UPDATE stint.finished SET finished_at = finished_at - interval '2 hours'")
	maintain(t, store)
	var left int
	err := pool.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM stint.tasks) + "+
		"(SELECT count(*) FROM stint.finished) + (SELECT count(*) FROM stint.leased)").Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("%d rows are left, %v", left, err)
	}
}

// A lease goes with its last task, or when its deadline passes, or is swept if it has none.
func TestMaintain_DropsLeasesThatHoldNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	leases := func() (n int) {
		t.Helper()
		err := pool.QueryRow(t.Context(), "SELECT count(*) FROM stint.leases").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	insert(t, store, numbered("t", 9)...)
	for _, lease := range []time.Duration{time.Hour, stint.NoExpiry} {
		owned, err := store.OwnTasks(t.Context(), "actor", 3, []string{"act"}, lease)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range owned {
			maintain(t, store)
			if got := leases(); got != 1 {
				t.Errorf("%d leases while tasks are owned, want 1", got)
			}
			err := store.ReturnTask(t.Context(), task.ID, task.Token, "", stint.StatusCompleted)
			if err != nil {
				t.Fatal(err)
			}
		}
		if lease != stint.NoExpiry {
			expireLeases(t, pool)
		}
		maintain(t, store)
		if got := leases(); got != 0 {
			t.Errorf("%d leases when nothing is owned, want 0", got)
		}
	}
	owned := own(t, store, 1)
	err := store.ReturnTask(t.Context(), owned[0].ID, owned[0].Token, "", stint.StatusCompleted)
	if err != nil || leases() != 0 {
		t.Errorf("%d leases after the return of all, want 0, %v", leases(), err)
	}
}

func TestMaintain_MayRunManyTimesAtOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	const n = 900
	insert(t, store, numbered("t", n)...)
	seen := map[stint.TaskID]int{}
	for range 3 {
		for got := 0; got < n; {
			owned := own(t, store, 30)
			got += len(owned)
			for _, task := range owned {
				seen[task.ID]++
			}
		}
		expireLeases(t, pool)
		var wait sync.WaitGroup
		for range 6 {
			wait.Go(func() { maintain(t, store) })
		}
		wait.Wait()
	}
	for id, times := range seen {
		if times != 3 {
			t.Errorf("%s was fetched %d times in 3 rounds", id, times)
		}
	}
}

// With any worker alive, though it finds nothing to do.
// Proves R13.
func TestStore_MaintainsItselfOnceItOwns(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	for _, mode := range []stint.Maintenance{stint.MaintainWhenOwning, stint.MaintainAlways} {
		store, err := stint.New(pool, stint.Options{Maintenance: mode})
		if err != nil {
			t.Fatal(err)
		}
		id := stint.TaskID("t" + string(rune('0'+mode)))
		insert(t, store, stint.Task{ID: id, Action: "act", Deadline: time.Unix(0, 0)})
		if mode == stint.MaintainWhenOwning {
			own(t, store, 1)
		}
		deadline := time.After(soon)
		for info(t, store, id).State != stint.StateAborted {
			select {
			case <-deadline:
				t.Fatalf("mode %d: nobody maintained", mode)
			case <-time.After(50 * time.Millisecond):
			}
		}
		if err := store.Close(t.Context()); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
}

//nolint:paralleltest // the goroutines of other tests would count
func TestClose_EndsTheBackgroundWork(t *testing.T) {
	testrun.Long(t)
	pool := testdb.New(t)
	ignore := goleak.IgnoreCurrent()
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainAlways})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := store.Close(t.Context()); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
	if _, err := store.OwnTasks(t.Context(), "a", 1, []string{"a"}, time.Hour); err == nil {
		t.Error("OwnTasks works on a closed store")
	}
	goleak.VerifyNone(t, ignore)
}

// Proves G165.
func TestStore_LogsWhatGoesWrongInTheBackgroundAndNoToken(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.NewEmpty(t)
	var lines lockedBuffer
	store, err := stint.New(pool, stint.Options{
		Maintenance: stint.MaintainAlways,
		Logger:      slog.New(slog.NewTextHandler(&lines, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.After(soon)
	for !strings.Contains(lines.String(), "schema version does not match this release") {
		select {
		case <-deadline:
			t.Fatalf("the log is %q", lines.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
	if err := store.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("Close = %v", err)
	}
	slog.New(slog.NewTextHandler(&lines, nil)).Info("owned", "token", stint.Token{0xab, 0xcd})
	if strings.Contains(lines.String(), "abcd") {
		t.Errorf("a token shows in the log: %s", lines.String())
	}
}

// No lease is taken back ahead of its deadline, of tasks with tries left and of others.
func TestMaintain_TakesNoLeaseBackEarly(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	const leases = 40
	for i, task := range numbered("t", leases) {
		task.MaxTries = 1 + i%2
		insert(t, store, task)
		ownOne(t, store)
	}
	exec(t, pool, `WITH due AS (
			SELECT claim, row_number() OVER (ORDER BY claim) * interval '15 ms' AS later
			FROM stint.leases
		)
		UPDATE stint.leases SET deadline = statement_timestamp() + due.later
		FROM due WHERE leases.claim = due.claim`)
	exec(t, pool, "CREATE TABLE due AS SELECT claim, deadline FROM stint.leases")
	for left := leases; left > 0; {
		maintain(t, store)
		early := yields[int](t, pool, `SELECT count(*) FROM due
			WHERE deadline > clock_timestamp() AND claim NOT IN (SELECT claim FROM stint.leased)`)
		if early > 0 {
			t.Fatalf("%d tasks are taken back ahead of the deadlines of their leases", early)
		}
		left = yields[int](t, pool, "SELECT count(*) FROM stint.leased")
	}
}
