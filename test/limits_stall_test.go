package stint_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Whoever returns a task in a transaction of its own holds up nobody, however long it lasts, and
// finds itself in no deadlock.
// Proves L4.
func TestWithTx_ReturnsHoldUpNoFetch(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, limits := range map[string]stint.Limits{
		"fair":              {Fair: true},
		"fair, concurrency": {Fair: true, Concurrency: 100},
		"rate per key":      {RatePerKey: stint.Rate{Tasks: 1, Per: time.Second, Burst: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newLimitedStore(t, limits)
			insert(t, store, withKey("a", "a0", "a1")...)
			insert(t, store, withKey("b", "b0", "b1")...)
			owned := map[stint.TaskID]stint.OwnedTask{}
			for range 2 {
				for _, task := range own(t, store, 2) {
					owned[task.ID] = task
				}
			}
			insert(t, store, stint.Task{ID: "urgent", Action: "act", Priority: 1})
			insert(t, store, withKey("a", "a2")...)
			insert(t, store, withKey("b", "b2")...)
			wantFetch(t, store, 1, "urgent")
			tx := begin(t, pool)
			for _, key := range []string{"b", "a"} { // against their order
				id := stint.TaskID(key + "0")
				wantErr(t, "ReturnTask of "+string(id), store.WithTx(tx).ReturnTask(
					t.Context(), id, owned[id].Token, "", stint.StatusCompleted), nil)
				next, other := stint.TaskID(key+"3"), stint.TaskID("other-"+key)
				insert(t, store, withKey(key, next)...)
				insert(t, store, withKey(string(other), other)...)
				missing := map[stint.TaskID]bool{next: true, other: true}
				eventually(t, soon, fmt.Sprintf("%v are fetched", missing), func() bool {
					ctx, cancel := context.WithTimeout(t.Context(), soon)
					defer cancel()
					got, err := store.OwnTasks(ctx, "actor", 10, []string{"act"}, time.Hour)
					wantErr(t, "OwnTasks", err, nil)
					for _, task := range got {
						delete(missing, task.ID)
					}
					return len(missing) == 0
				})
			}
			wantErr(t, "Commit", tx.Commit(t.Context()), nil)
			wantNoDeadlocks(t, pool)
		})
	}
}

// Fetches and returns of several processes lock turns, buckets and slots in the same order.
func TestOwnTasks_UnderLimitsOfKeysDeadlocksWithNobody(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	rate := stint.Rate{Tasks: 50, Per: time.Second, Burst: 5}
	for name, limits := range map[string]stint.Limits{
		"rate":              {RatePerKey: rate},
		"rate, slots":       {RatePerKey: rate, ConcurrencyPerKey: 3},
		"fair, rate":        {Fair: true, RatePerKey: rate},
		"fair, rate, slots": {Fair: true, RatePerKey: rate, ConcurrencyPerKey: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, pool := newUncheckedStore(t, stint.Options{})
			var stores []*stint.Store
			for range 3 {
				stores = append(stores, openStore(t, pool, stint.Options{}))
			}
			setLimits(t, stores[0], limits)
			var group sync.WaitGroup
			for i, store := range stores {
				for w := range 2 {
					group.Go(func() { turnOver(t, store, fmt.Sprint(i, "-", w), i+w) })
				}
			}
			group.Wait()
			wantNoDeadlocks(t, pool)
		})
	}
}

// turnOver inserts tasks of twenty keys, owns and returns what it gets, some times.
func turnOver(t *testing.T, store *stint.Store, name string, first int) {
	t.Helper()
	for round := range testrun.Rounds(100) {
		var tasks []stint.Task
		for i := range 20 {
			tasks = append(tasks, stint.Task{
				Action: "act", Key: fmt.Sprint("key-", (first+round+i*7)%20),
			})
		}
		if err := store.InsertTasks(t.Context(), tasks); err != nil {
			t.Errorf("InsertTasks = %v", err)
			return
		}
		owned, err := store.OwnTasks(
			t.Context(), stint.ActorID(name), 20, []string{"act"}, time.Hour)
		if err != nil {
			t.Errorf("OwnTasks = %v", err)
			return
		}
		var returns []stint.Return
		for _, task := range owned {
			returns = append(returns, stint.Return{
				ID: task.ID, Token: task.Token, Code: stint.StatusCompleted,
			})
		}
		if _, err := store.ReturnTasks(t.Context(), returns); err != nil {
			t.Errorf("ReturnTasks = %v", err)
			return
		}
	}
}

// Fetches of one action wait for its lock, those of another one do not.
// Proves L4.
func TestOwnTasks_OfLockedActionsDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newUncheckedStore(t, stint.Options{})
	for _, action := range []string{"act", "other"} {
		wantErr(t, "SetLimits", store.SetLimits(
			t.Context(), action, stint.Limits{Concurrency: 10}), nil)
		insert(t, store, stint.Task{Action: action}, stint.Task{Action: action})
		ownOf := errOf(store.OwnTasks(t.Context(), "actor", 1, []string{action}, time.Hour))
		wantErr(t, "OwnTasks", ownOf, nil)
	}
	tx := begin(t, pool)
	_, err := tx.Exec(t.Context(), "SELECT FROM stint.limits WHERE action = 'act' FOR UPDATE")
	wantErr(t, "the lock", err, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			actor := stint.ActorID(fmt.Sprint("actor-", i))
			_, err := store.OwnTasks(ctx, actor, 1, []string{"act"}, time.Hour)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("OwnTasks of the locked action = %v", err)
			}
		})
	}
	awaitWaiting(t, pool, 2, nil)
	owned, err := store.OwnTasks(t.Context(), "actor", 1, []string{"other"}, time.Hour)
	if err != nil || len(owned) != 1 {
		t.Errorf("OwnTasks of the other action = %v, %v", owned, err)
	}
	cancel()
	group.Wait()
}

// A task whose deadline has passed takes no turn from others, though nobody has ended it yet.
// Proves L4.
func TestFair_ExpiredTasksTakeNoTurn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newUncheckedStore(t, stint.Options{Maintenance: stint.MaintainNever})
	setLimits(t, store, stint.Limits{Fair: true})
	late := withKey("a", "a0")
	late[0].Deadline = time.Now().Add(time.Hour)
	insert(t, store, late...)
	insert(t, store, withKey("b", "b0")...)
	insert(t, store, stint.Task{ID: "urgent", Action: "act", Priority: 1})
	wantFetch(t, store, 1, "urgent") // a0 and b0 are in the queues of their keys
	exec(t, pool, "UPDATE stint.ready SET deadline = now() - interval '1 s' "+
		"WHERE deadline IS NOT NULL")
	var got []stint.TaskID
	for range 3 {
		got = append(got, idsOf(own(t, store, 1))...)
	}
	if fmt.Sprint(got) != "[b0]" {
		t.Errorf("fetched %v, want b0", got)
	}
}

// A key keeps its turn if its tasks were locked when it came, with or without the turn.
// Proves L4.
func TestFair_KeepsTheTurnOfAKeyWhoseTasksAreLocked(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, lock := range map[string]func(*testing.T, *stint.Store, pgx.Tx){
		"by an abort": func(t *testing.T, store *stint.Store, tx pgx.Tx) {
			t.Helper()
			aborts("a0")(t, store.WithTx(tx))
		},
		"alone": func(t *testing.T, _ *stint.Store, tx pgx.Tx) {
			t.Helper()
			tag, err := tx.Exec(t.Context(), `SELECT FROM stint.ready
				JOIN stint.tasks ON tasks.key = ready.lo WHERE tasks.id = 'a0' FOR UPDATE OF ready`)
			if err != nil || tag.RowsAffected() != 1 {
				t.Fatalf("lock a0: %v, %v", tag, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newLimitedStore(t, stint.Limits{Fair: true})
			insert(t, store, withKey("a", "a0")...)
			insert(t, store, withKey("b", "b0")...)
			insert(t, store, stint.Task{ID: "urgent", Action: "act", Priority: 1})
			wantFetch(t, store, 1, "urgent") // a0 and b0 are in the queues of their keys
			tx := begin(t, pool)
			lock(t, store, tx)
			got := idsOf(own(t, store, 1))
			got = append(got, idsOf(own(t, store, 1))...)
			wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
			for range 3 {
				got = append(got, idsOf(own(t, store, 1))...)
			}
			if fmt.Sprint(got) != "[b0 a0]" {
				t.Errorf("fetched %v, want b0 and a0", got)
			}
		})
	}
}

// What a return makes room for in the caller's transaction comes behind its end, without
// maintainers.
// Proves L2.
func TestWithTx_ReturnsMakeRoomBehindTheEnd(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, limits := range []stint.Limits{
		{ConcurrencyPerKey: 1, Fair: true},
		{ConcurrencyPerKey: 1, RatePerKey: stint.Rate{Tasks: 1, Per: time.Second, Burst: 1}},
	} {
		parker, pool := newLimitedStore(t, limits)
		insert(t, parker, withKey("a", "a0", "a1")...)
		owned := wantFetch(t, parker, 10, "a0")
		wantFetch(t, parker, 10)                            // a1 is parked, and its turn held
		wantErr(t, "Close", parker.Close(t.Context()), nil) // it looks no more
		store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
		tx := begin(t, pool)
		wantErr(t, "ReturnTask", store.WithTx(tx).ReturnTask(
			t.Context(), "a0", owned[0].Token, "", stint.StatusCompleted), nil)
		wantErr(t, "Commit", tx.Commit(t.Context()), nil)
		eventually(t, soon, "a1 is fetched", func() bool { return len(own(t, store, 10)) == 1 })
	}
}

// A task whose turn has come, and that somebody's transaction locks, holds up no other key.
// Proves L4.
func TestFair_LockedTasksWhoseTurnHasComeHoldUpNobody(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{Fair: true})
	insert(t, store, withKey("a", "a0")...)
	insert(t, store, withKey("b", "b0")...)
	deals := begin(t, pool)
	run(t, deals, "queue_turns('{act}')", "deal_turns('{act}', 1, false)")
	wantErr(t, "Commit", deals.Commit(t.Context()), nil)
	tx := begin(t, pool)
	wantErr(t, "AbortTasks", errOf(
		store.WithTx(tx).AbortTasks(t.Context(), []stint.TaskID{"a0"}, "")), nil)
	wantFetch(t, store, 1, "b0")
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	wantFetch(t, store, 1, "a0")
}

// A task that is parked while a return waits for a turn comes behind that return, without
// maintainers.
// Proves L2.
func TestReturn_ThatWaitsForATurnMakesRoomForWhatIsParkedMeanwhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLookingStore(t, stint.Limits{ConcurrencyPerKey: 1, Fair: true})
	insert(t, store, withKey("a", "a0", "a1")...)
	insert(t, store, withKey("b", "b0")...)
	owned := wantFetch(t, store, 10, "a0", "b0")
	wantFetch(t, store, 10) // a1 is parked, and its turn held
	tx := begin(t, pool)
	_, err := tx.Exec(t.Context(), "SELECT FROM stint.turns WHERE limit_key = 'a' FOR UPDATE")
	wantErr(t, "the lock", err, nil)
	returned := start(func() (struct{}, error) {
		return struct{}{}, errOf(store.ReturnTasks(t.Context(), []stint.Return{
			{ID: "a0", Token: owned[0].Token, Code: stint.StatusCompleted},
			{ID: "b0", Token: owned[1].Token, Code: stint.StatusCompleted},
		}))
	})
	awaitWaiting(t, pool, 1, nil)
	insert(t, store, withKey("b", "b1")...)
	wantFetch(t, store, 10) // b1 is parked
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	_, err = ends(t, "ReturnTasks", returned)
	wantErr(t, "ReturnTasks", err, nil)
	got := map[stint.TaskID]bool{}
	eventually(t, soon, "a1 and b1 are fetched", func() bool {
		for _, task := range own(t, store, 10) {
			got[task.ID] = true
		}
		return len(got) == 2
	})
}

// A key that has capacity below its own limit, while its action has none, gets its tasks back once,
// and not more of them with each look of a maintainer.
func TestMaintain_BringsNoMoreBackThanAKeyHasRoomFor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{Concurrency: 2, ConcurrencyPerKey: 2})
	insert(t, store, ofKey("k", 10)...)
	owned := own(t, store, 2)
	wantFetch(t, store, 2)
	complete(t, store, owned[0])
	insert(t, store, stint.Task{ID: "urgent", Action: "act", Priority: 1})
	wantFetch(t, store, 1, "urgent")
	wantStillParked(t, store, pool, 7)
}

// wantStillParked checks that maintainers leave so many tasks parked, however often they look.
func wantStillParked(t *testing.T, store *stint.Store, pool *pgxpool.Pool, want int) {
	t.Helper()
	for range 3 {
		maintain(t, store)
		got := yields[int](t, pool, `SELECT coalesce(sum(hi - lo + 1), 0)::int FROM stint.ready
			WHERE position < 0`)
		if got != want {
			t.Errorf("%d tasks are parked, want %d", got, want)
		}
	}
}

// Nor does a key with a rate get more of them back than it has tokens.
func TestMaintain_BringsNoMoreBackThanAKeyHasTokensFor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{
		Concurrency: 3, RatePerKey: stint.Rate{Tasks: 1, Per: time.Hour, Burst: 2},
	})
	insert(t, store, ofKey("k", 10)...)
	wantFetch(t, store, 10, "k/00000", "k/00001")
	wantFetch(t, store, 10)
	insert(t, store, stint.Task{ID: "urgent", Action: "act", Priority: 1})
	wantFetch(t, store, 1, "urgent")
	exec(t, pool, `UPDATE stint.key_rates
		SET full_at = full_at - interval '2 h', wake_at = wake_at - interval '2 h'`)
	wantStillParked(t, store, pool, 6)
}

// A task whose lease expired on its last try is in progress until it can end, although the other
// tasks of its fetch are taken back.
func TestOwnTasks_CountsWhatCannotEndYet(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{Concurrency: 2})
	tasks := numbered("t", 1600) // in spans
	tasks[0].MaxTries = 1
	insert(t, store, tasks...)
	wantFetch(t, store, 4, "t000000", "t000001")
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.leased"); n != 1 {
		t.Fatalf("the fetch has %d rows", n)
	}
	insert(t, store, after("behind", "t000000"))
	expireLeases(t, pool)
	tx := begin(t, pool)
	lockBlocked(t, tx, "behind")
	maintain(t, store)
	wantState(t, store, stint.StateInProgress, "t000000")
	wantFetch(t, store, 4, "t000001")
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	maintain(t, store)
	wantState(t, store, stint.StateAborted, "t000000")
	wantFetch(t, store, 4, "t000002")
}

// A task that is tried again has the slot of this try, and no other.
func TestOwnTasks_CountsATaskThatIsTriedAgainOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, parked := range []bool{false, true} {
		store, pool := newLimitedStore(t, stint.Limits{ConcurrencyPerKey: 2})
		insert(t, store, withKey("k", "a", "b")...)
		owned := wantFetch(t, store, 2, "a", "b")
		for _, i := range []int{1, 0} {
			returnWith(t, store, owned[i], stint.Return{Code: stint.StatusPending})
		}
		wantFetch(t, store, 1, "b") // its slot is the first now, and it was the second
		if parked {
			// Whoever has parked a died before it looked again.
			exec(t, pool, `UPDATE stint.ready SET limit_key = 'k',
				position = position | '-9223372036854775808'::bigint`)
			maintain(t, store)
		}
		wantFetch(t, store, 1, "a")
	}
}
