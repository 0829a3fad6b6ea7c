package stint_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// ownShared owns 100 tasks that share one row of the table leased.
func ownShared(tb testing.TB, store *stint.Store, pool *pgxpool.Pool) []stint.OwnedTask {
	tb.Helper()
	const spans, size = 16, 100
	insert(tb, store, numbered(fmt.Sprintf("s%d ", rand.Uint32()), spans*size)...)
	before := yields[int](tb, pool, "SELECT count(*) FROM stint.leased")
	owned := own(tb, store, size)
	rows := yields[int](tb, pool, "SELECT count(*) FROM stint.leased") - before
	if len(owned) != size || rows != 1 {
		tb.Fatalf("%d tasks share %d rows, want %d in one", len(owned), rows, size)
	}
	return owned
}

// A token is good for the task that it was given out with, and for no other of the same fetch.
// Proves R8.
func TestReturnTask_RefusesTheTokenOfANeighbour(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	owned := ownShared(t, store, pool)
	err := store.ReturnTask(
		t.Context(), owned[3].ID, owned[4].Token, "", stint.StatusCompleted)
	wantTasks(t, "ReturnTask", err, stint.ErrInvalidToken, owned[3].ID)
	complete(t, store, owned...)
}

func TestReturnTasks_EndsSomeOfAFetchAndNoOthers(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, keep := range []stint.Retention{{}, {Completed: stint.KeepNone}} {
		store, pool := newStoreAndPool(t, stint.Options{Retention: keep})
		owned := ownShared(t, store, pool)
		var some, others []stint.OwnedTask
		for i, task := range owned {
			if i%10 == 3 || i > 90 {
				some = append(some, task)
			} else {
				others = append(others, task)
			}
		}
		complete(t, store, some...)
		wantState(t, store, stint.StateInProgress, idsOf(others)...)
		if keep.Completed == 0 {
			wantState(t, store, stint.StateCompleted, idsOf(some)...)
		}
		wantChecked(t, store)
		complete(t, store, others...)
		if left := yields[int](t, pool, tasksIn("leased")); left != 0 {
			t.Errorf("%d are left", left)
		}
	}
}

// Of returns in one call, those that say something of their own are recorded so.
func TestReturnTasks_TellsTasksOfAFetchApart(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	owned := ownShared(t, store, pool)
	returns := completed(owned)
	returns[10].Status = "ten"
	returns[20].Result = []byte("twenty")
	returns[30].Code = stint.StatusAborted
	returns[40].Code = stint.StatusPending
	returns[50].Code, returns[50].RetryAfter = stint.StatusPending, time.Hour
	returns[60].Token[0]++
	verdicts, err := store.ReturnTasks(t.Context(), returns)
	wantErr(t, "ReturnTasks", err, nil)
	for i, verdict := range verdicts {
		want := error(nil)
		if i == 60 {
			want = stint.ErrInvalidToken
		}
		wantErr(t, fmt.Sprint("return ", i), verdict, want)
	}
	for i, task := range owned {
		want := stint.StateCompleted
		switch i {
		case 30:
			want = stint.StateAborted
		case 40:
			want = stint.StateReady
		case 50:
			want = stint.StateScheduled
		case 60:
			want = stint.StateInProgress
		}
		wantState(t, store, want, task.ID)
	}
	if got := info(t, store, owned[10].ID).Status; got != "ten" {
		t.Errorf("status is %q", got)
	}
	if got := string(info(t, store, owned[20].ID).Result); got != "twenty" {
		t.Errorf("result is %q", got)
	}
}

func TestReturnTasks_MergesNothingThatComesTwice(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	stale := ownShared(t, store, pool)
	verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{
		{ID: stale[5].ID, Token: stale[5].Token, Code: stint.StatusPending, Release: true},
	})
	wantErr(t, "release", verdicts[0], err)
	fresh := own(t, store, 6400)
	var again stint.OwnedTask
	for _, task := range fresh {
		if task.ID == stale[5].ID {
			again = task
		}
	}
	// Both tokens of the one task, among those of its neighbours.
	verdicts, err = store.ReturnTasks(t.Context(),
		completed([]stint.OwnedTask{stale[4], stale[5], again, stale[6]}))
	wantErr(t, "ReturnTasks", err, nil)
	for i, want := range []error{nil, stint.ErrInvalidToken, nil, nil} {
		wantErr(t, fmt.Sprint("return ", i), verdicts[i], want)
	}
}

// What a transaction does with a task does not hold up those who return others of the fetch.
// Proves G79.
func TestWithTx_LeavesTheNeighboursOfAFetchAlone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, use := range map[string]func(context.Context, *stint.Store, stint.OwnedTask) error{
		"ReturnTask": func(ctx context.Context, s *stint.Store, task stint.OwnedTask) error {
			return s.ReturnTask(ctx, task.ID, task.Token, "", stint.StatusCompleted)
		},
		"HoldOwnership": func(ctx context.Context, s *stint.Store, task stint.OwnedTask) error {
			return s.HoldOwnership(ctx, []stint.OwnedTask{task})
		},
		"SetStatus": func(ctx context.Context, s *stint.Store, task stint.OwnedTask) error {
			return s.SetStatus(ctx, task, "half", 0.5)
		},
		"InsertTasks": func(ctx context.Context, s *stint.Store, task stint.OwnedTask) error {
			return s.InsertTasks(ctx, []stint.Task{after("behind "+task.ID, task.ID)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{})
			owned := ownShared(t, store, pool)
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			var open []pgx.Tx
			for _, task := range owned[:3] {
				tx := begin(t, pool)
				wantErr(t, name, use(ctx, store.WithTx(tx), task), nil)
				open = append(open, tx)
			}
			err := store.ReturnTask(
				ctx, owned[3].ID, owned[3].Token, "", stint.StatusCompleted)
			wantErr(t, "ReturnTask of a neighbour", err, nil)
			kept, err := store.ExtendTasksOwnership(ctx, "actor", owned[4:], time.Hour)
			wantErr(t, "ExtendTasksOwnership of neighbours", err, nil)
			for i, kept := range kept {
				if !kept {
					t.Errorf("%s was not extended", owned[4+i].ID)
				}
			}
			for _, tx := range open {
				wantErr(t, "Commit", tx.Commit(t.Context()), nil)
			}
		})
	}
}

// So it is where a connection takes long to open, as on a busy machine.
func TestWithTx_LeavesTheNeighboursOfAFetchAloneHoweverSlowThePool(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	direct := testdb.New(t)
	slow := poolOf(t, direct, func(config *pgxpool.Config) {
		config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
			<-time.After(300 * time.Millisecond)
			return nil
		}
	})
	opts := stint.Options{Maintenance: stint.MaintainNever, PollOnly: true}
	store, neighbour := openStore(t, slow, opts), openStore(t, direct, opts)
	owned := ownShared(t, neighbour, direct)
	inside := store.WithTx(begin(t, slow))
	wantErr(t, "HoldOwnership", inside.HoldOwnership(t.Context(), owned[:1]), nil)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	err := neighbour.ReturnTask(ctx, owned[1].ID, owned[1].Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask of a neighbour", err, nil)
}

// Where no other connection can be had, the transaction does it all.
func TestWithTx_NeedsNoSecondConnection(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool, full, _, _ := reserved(t, testdb.New(t))
	store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever, PollOnly: true})
	owned := ownShared(t, store, pool)
	full.Store(true)
	tx, err := pool.Begin(t.Context())
	wantErr(t, "Begin", err, nil)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	err = store.WithTx(tx).ReturnTask(
		ctx, owned[7].ID, owned[7].Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask", err, nil)
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	complete(t, store, owned...)
	wantChecked(t, store)
}

func TestAbortTasks_TakesOneOfAFetch(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	owned := ownShared(t, store, pool)
	wantErr(t, "AbortTasks",
		errOf(store.AbortTasks(t.Context(), []stint.TaskID{owned[50].ID}, "")), nil)
	err := errOf(store.DeleteTasks(t.Context(), []stint.TaskID{owned[51].ID}))
	wantTasks(t, "DeleteTasks", err, stint.ErrTaskInProgress, owned[51].ID)
	wantState(t, store, stint.StateAborted, owned[50].ID)
	complete(t, store, append(owned[:50:50], owned[51:]...)...)
}

func TestDeleteTasks_TakesSomeOfThoseThatEndedTogether(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	owned := ownShared(t, store, pool)
	complete(t, store, owned...)
	var group sync.WaitGroup
	for i := 0; i < len(owned); i += 10 {
		group.Go(func() {
			ids := []stint.TaskID{owned[i].ID, owned[i+3].ID}
			if err := errOf(store.DeleteTasks(t.Context(), ids)); err != nil {
				t.Errorf("DeleteTasks(%q) = %v", ids, err)
			}
		})
	}
	group.Wait()
	again := owned[9].ID
	wantErr(t, "ReplaceTasks",
		store.ReplaceTasks(t.Context(), []stint.Task{{ID: again, Action: "act"}}), nil)
	wantState(t, store, stint.StateReady, again)
	left := yields[int](t, pool, tasksIn("finished"))
	if want := len(owned) - len(owned)/10*2 - 1; left != want {
		t.Errorf("%d are finished, want %d", left, want)
	}
	wantState(t, store, stint.StateCompleted, owned[1].ID, owned[99].ID)
}

// A lease on a fetch of which some have tries left, and others not.
func TestMaintain_TellsTasksOfAFetchApart(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	owned := ownShared(t, store, pool)
	exec(t, pool, "UPDATE stint.tasks SET max_tries = 1 WHERE id = ANY ($1)",
		[]stint.TaskID{owned[0].ID, owned[57].ID})
	expireLeases(t, pool)
	maintain(t, store)
	for i, task := range owned {
		want := stint.StateReady
		if i == 0 || i == 57 {
			want = stint.StateAborted
		}
		wantState(t, store, want, task.ID)
	}
	if left := yields[int](t, pool, "SELECT count(*) FROM stint.leases"); left != 0 {
		t.Errorf("%d leases are left", left)
	}
}

// Several return, extend and set the status of tasks of one fetch, one by one, all at once.
func TestReturnTask_OfOneFetchByManyAtOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	stores := make([]*stint.Store, 4) // whose calls do not share statements
	for i := range stores {
		stores[i] = openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	}
	for range 2 {
		owned := ownShared(t, stores[0], pool)
		var group sync.WaitGroup
		for i, store := range stores {
			group.Go(func() {
				for j := i; j < len(owned); j += len(stores) {
					task := owned[j]
					if err := store.SetStatus(t.Context(), task, "x", 0.5); err != nil {
						t.Errorf("SetStatus of %s = %v", task.ID, err)
					}
					kept, err := store.ExtendTasksOwnership(
						t.Context(), "actor", []stint.OwnedTask{task}, time.Hour)
					if err != nil || !kept[0] {
						t.Errorf("ExtendTasksOwnership of %s = %v, %v", task.ID, kept, err)
					}
					err = store.ReturnTask(
						t.Context(), task.ID, task.Token, "", stint.StatusCompleted)
					if err != nil {
						t.Errorf("ReturnTask of %s = %v", task.ID, err)
					}
				}
			})
		}
		group.Wait()
		wantState(t, stores[0], stint.StateCompleted, idsOf(owned)...)
	}
	wantChecked(t, stores[0])
}

func TestMaintain_PrunesWhatEndedTogether(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	owned := ownShared(t, store, pool)
	insert(t, store, stint.Task{
		ID: "behind", Action: "other", After: []stint.TaskID{owned[5].ID, owned[60].ID},
	})
	complete(t, store, owned[:50]...)
	complete(t, store, owned[50:60]...)
	exec(t, pool, "UPDATE stint.finished SET finished_at = finished_at - interval '2 days'")
	maintain(t, store)
	// A dependent may ask for the result of one of the first 50.
	if left := yields[int](t, pool, tasksIn("finished")); left != 50 {
		t.Errorf("%d are left, want 50", left)
	}
	complete(t, store, owned[60:]...)
	wantState(t, store, stint.StateReady, "behind")
}
