package stint_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Whatever an owner does with a task but end it, no later task of its key begins.
// Proves G250.
func TestOrdered_ATaskHoldsItsKeyUntilItEnds(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	type way = func(*testing.T, *stint.Store, *pgxpool.Pool, stint.OwnedTask)
	for name, goesOn := range map[string]way{
		"another try at once": func(
			t *testing.T, store *stint.Store, _ *pgxpool.Pool, task stint.OwnedTask,
		) {
			t.Helper()
			returnWith(t, store, task, stint.Return{Code: stint.StatusPending})
		},
		"another try later": func(
			t *testing.T, store *stint.Store, _ *pgxpool.Pool, task stint.OwnedTask,
		) {
			t.Helper()
			returnWith(t, store, task,
				stint.Return{Code: stint.StatusPending, RetryAfter: time.Hour})
			wantFetch(t, store, 10)
			wantErr(t, "ChangeTasks", errOf(store.ChangeTasks(t.Context(),
				[]stint.TaskID{task.ID}, stint.TaskChanges{StartNow: true})), nil)
		},
		"given back": func(
			t *testing.T, store *stint.Store, _ *pgxpool.Pool, task stint.OwnedTask,
		) {
			t.Helper()
			returnWith(t, store, task, stint.Return{Code: stint.StatusPending, Release: true})
		},
		"its lease expires": func(
			t *testing.T, _ *stint.Store, pool *pgxpool.Pool, _ stint.OwnedTask,
		) {
			t.Helper()
			expireLeases(t, pool)
		},
		"it waits for another": func(
			t *testing.T, store *stint.Store, _ *pgxpool.Pool, task stint.OwnedTask,
		) {
			t.Helper()
			returnWith(t, store, task, stint.Return{Code: stint.StatusPending})
			other := stint.TaskID(fmt.Sprintf("other %d", task.Try))
			insert(t, store, stint.Task{ID: other, Action: stint.External})
			wantErr(t, "AddDependencies", addDependency(t, store, other, task.ID), nil)
			wantFetch(t, store, 10)
			wantErr(t, "AnswerTasks", errOf(store.AnswerTasks(t.Context(), "a person",
				[]stint.Answer{{ID: other, Code: stint.StatusCompleted}})), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newLimitedStore(t, stint.Limits{Ordered: true})
			insert(t, store, withKey("k", "a", "b", "c")...)
			insert(t, store, stint.Task{ID: "free", Action: "act"})
			owned := wantFetch(t, store, 10, "a", "free")
			complete(t, store, owned[1])
			for range 2 {
				wantFetch(t, store, 10)
				goesOn(t, store, pool, owned[0])
				owned = wantFetch(t, store, 10, "a")
			}
			complete(t, store, owned[0])
			owned = wantFetch(t, store, 10, "b")
			returnWith(t, store, owned[0], stint.Return{Code: stint.StatusAborted})
			owned = wantFetch(t, store, 10, "c")
			complete(t, store, owned[0])
		})
	}
}

// The wish of oban#456: updates of a user are delivered in order, and a failure stops those of this
// user only, until it has been tried again with success. And that of graphile/worker#493: one task
// at a time on each host, in the order in which they were sent, whichever fail at first. river#551:
// trucks are unloaded one by one.
// Proves G250.
func TestOrdered_AFailureStopsTheTasksOfItsKeyOnly(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newLimitedStore(t, stint.Limits{Ordered: true})
	for i := range 3 {
		insert(t, store, withKey("ann", stint.TaskID(fmt.Sprintf("ann %d", i)))...)
		insert(t, store, withKey("bob", stint.TaskID(fmt.Sprintf("bob %d", i)))...)
	}
	first := wantFetch(t, store, 10, "ann 0", "bob 0")
	returnWith(t, store, first[0], stint.Return{Code: stint.StatusPending, RetryAfter: time.Hour})
	complete(t, store, first[1])
	for _, id := range []stint.TaskID{"bob 1", "bob 2"} {
		complete(t, store, wantFetch(t, store, 10, id)...)
	}
	wantFetch(t, store, 10)
	wantErr(t, "ChangeTasks", errOf(store.ChangeTasks(t.Context(),
		[]stint.TaskID{"ann 0"}, stint.TaskChanges{StartNow: true})), nil)
	for _, id := range []stint.TaskID{"ann 0", "ann 1", "ann 2"} {
		complete(t, store, wantFetch(t, store, 10, id)...)
	}
}

// Each way to be rid of the task that holds a key lets the next one begin at once, whatever its
// state.
// Proves G252.
func TestOrdered_TheTaskThatHoldsAKeyCanBeSkipped(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	states := map[string]stint.Return{
		"ready":     {Code: stint.StatusPending},
		"scheduled": {Code: stint.StatusPending, RetryAfter: time.Hour},
	}
	ways := map[string]func(*testing.T, *stint.Store) error{
		"abort": func(t *testing.T, store *stint.Store) error {
			t.Helper()
			return errOf(store.AbortTasks(t.Context(), []stint.TaskID{"a"}, ""))
		},
		"delete": func(t *testing.T, store *stint.Store) error {
			t.Helper()
			return errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"a"}))
		},
		"replace": func(t *testing.T, store *stint.Store) error {
			t.Helper()
			return store.ReplaceTasks(t.Context(), []stint.Task{{ID: "a", Action: "other"}})
		},
		"another key": func(t *testing.T, store *stint.Store) error {
			t.Helper()
			key := "other"
			return errOf(store.ChangeTasks(t.Context(), []stint.TaskID{"a"},
				stint.TaskChanges{Key: &key, StartAfter: time.Hour}))
		},
	}
	for state, goesOn := range states {
		for way, skip := range ways {
			t.Run(state+", "+way, func(t *testing.T) {
				t.Parallel()
				store, _ := newLimitedStore(t, stint.Limits{Ordered: true})
				insert(t, store, withKey("k", "a", "b", "c")...)
				returnWith(t, store, wantFetch(t, store, 1, "a")[0], goesOn)
				if state == "ready" { // it is parked, as the others
					wantErr(t, "PauseKeys", store.PauseKeys(t.Context(), "act", "k"), nil)
				}
				wantFetch(t, store, 10)
				if state == "ready" {
					wantErr(t, "ResumeKeys", store.ResumeKeys(t.Context(), "act", "k"), nil)
				}
				wantErr(t, way, skip(t, store), nil)
				wantFetch(t, store, 10, "b")
				wantFetch(t, store, 10)
			})
		}
	}
	t.Run("abort in progress", func(t *testing.T) {
		t.Parallel()
		store, _ := newLimitedStore(t, stint.Limits{Ordered: true})
		insert(t, store, withKey("k", "a", "b", "c")...)
		wantFetch(t, store, 1, "a")
		wantFetch(t, store, 10)
		wantErr(t, "abort", ways["abort"](t, store), nil)
		wantFetch(t, store, 10, "b")
	})
}

// A task that holds its key may also end by nobody's call: its deadline passes, or what it waits
// for is aborted. And a process that aborts it need not know of the order. The maintainers bring
// the next one back.
// Proves G252.
func TestOrdered_MaintainersBringTheNextOneBack(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, end := range map[string]func(*testing.T, *stint.Store, *pgxpool.Pool){
		"deadline": func(t *testing.T, _ *stint.Store, pool *pgxpool.Pool) {
			t.Helper()
			passDeadlines(t, pool)
		},
		"dependency": func(t *testing.T, store *stint.Store, _ *pgxpool.Pool) {
			t.Helper()
			insert(t, store, stint.Task{ID: "before", Action: "other"})
			wantErr(t, "AddDependencies", addDependency(t, store, "before", "a"), nil)
			wantErr(t, "AbortTasks",
				errOf(store.AbortTasks(t.Context(), []stint.TaskID{"before"}, "")), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newLimitedStore(t, stint.Limits{Ordered: true})
			tasks := withKey("k", "a", "b", "c")
			tasks[0].Deadline = time.Now().Add(time.Hour)
			insert(t, store, tasks...)
			owned := wantFetch(t, store, 1, "a")
			returnWith(t, store, owned[0],
				stint.Return{Code: stint.StatusPending, RetryAfter: time.Hour})
			wantFetch(t, store, 10)
			maintain(t, store) // as long as it holds its key, they do not
			wantFetch(t, store, 10)
			end(t, store, pool)
			maintain(t, store)
			wantState(t, store, stint.StateAborted, "a")
			maintain(t, store)
			wantFetch(t, store, 10, "b")
		})
	}
}

// The slot of a task that holds its key stays, and goes when it has ended.
func TestOrdered_MaintainersDropOnlySlotsOfEndedTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{Ordered: true})
	insert(t, store, withKey("k", "a", "b")...)
	owned := wantFetch(t, store, 1, "a")
	returnWith(t, store, owned[0], stint.Return{Code: stint.StatusPending, RetryAfter: time.Hour})
	for range 2 {
		maintain(t, store)
		wantFetch(t, store, 10)
	}
	wantErr(t, "DeleteTasks",
		errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"a", "b"})), nil)
	maintain(t, store)
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.slots"); n > 0 {
		t.Errorf("%d slots are left", n)
	}
}

// Of a key the highest priority comes first, also ahead of what waits for its turn, but not ahead
// of what holds the key. Tasks without a key are not in order.
// Proves G250.
func TestOrdered_IsThatOfPriorityAndAge(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newLimitedStore(t, stint.Limits{Ordered: true})
	insert(t, store, withKey("k", "a", "b")...)
	owned := wantFetch(t, store, 10, "a")
	urgent := withKey("k", "urgent")
	urgent[0].Priority = 1
	insert(t, store, urgent...)
	returnWith(t, store, owned[0], stint.Return{Code: stint.StatusPending})
	complete(t, store, wantFetch(t, store, 10, "a")...)
	complete(t, store, wantFetch(t, store, 10, "urgent")...)
	complete(t, store, wantFetch(t, store, 10, "b")...)
	insert(t, store, numbered("t", 3)...)
	wantFetch(t, store, 10, "t000000", "t000001", "t000002")
}

// The order is that of the inserts, however they are made.
// Proves G250.
func TestOrdered_IsThatOfTheInserts(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newLimitedStore(t, stint.Limits{Ordered: true})
	const keys = 42
	want, got := map[string][]stint.TaskID{}, map[string][]stint.TaskID{}
	calls, left := 0, 0
	add := func(n int) []stint.Task {
		tasks := numbered(fmt.Sprintf("%d of ", calls), n)
		calls++
		for i := range tasks {
			tasks[i].Key = fmt.Sprint("k", i%keys)
			want[tasks[i].Key] = append(want[tasks[i].Key], tasks[i].ID)
		}
		left += n
		return tasks
	}
	insert(t, store, add(3)...)
	_, err := store.InsertTasksFrom(t.Context(), stream(add(2100), nil))
	wantErr(t, "InsertTasksFrom", err, nil)
	insert(t, store, add(1)...)
	insert(t, store, add(70)...)
	tasks := add(9)
	insert(t, store, append(tasks, stint.Task{
		ID: "last", Action: "other", After: []stint.TaskID{tasks[0].ID},
	})...)
	insert(t, store, add(1)...)
	for fetches := 0; left > 0 && fetches < 500; fetches++ {
		owned := own(t, store, keys)
		for _, task := range owned {
			got[task.Key] = append(got[task.Key], task.ID)
		}
		left -= len(owned)
		complete(t, store, owned...)
	}
	if !maps.EqualFunc(got, want, slices.Equal[[]stint.TaskID]) {
		t.Errorf("the tasks came as %.200v, want %.200v", got, want)
	}
}

// All other limits hold as well.
// Proves G250.
func TestOrdered_GoesWithOtherLimits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	t.Run("rate of keys", func(t *testing.T) {
		t.Parallel()
		store, pool := newLimitedStore(t, stint.Limits{
			Ordered: true, RatePerKey: stint.Rate{Tasks: 1, Per: time.Hour},
		})
		token := func() {
			exec(t, pool, `UPDATE stint.key_rates SET full_at = statement_timestamp(),
				wake_at = CASE WHEN wake_at IS NOT NULL THEN statement_timestamp() END`)
		}
		insert(t, store, withKey("k", "a", "b", "c")...)
		owned := wantFetch(t, store, 10, "a")
		returnWith(t, store, owned[0], stint.Return{Code: stint.StatusPending})
		wantFetch(t, store, 10) // no token
		token()
		complete(t, store, wantFetch(t, store, 10, "a")...)
		wantFetch(t, store, 10)
		token()
		wantFetch(t, store, 10, "b")
	})
	t.Run("concurrency", func(t *testing.T) {
		t.Parallel()
		store, _ := newLimitedStore(t, stint.Limits{Ordered: true, Concurrency: 2})
		insert(t, store, keyed(numbered("t", 12), "a", "b", "c")...)
		owned := wantFetch(t, store, 10, "t000000", "t000001")
		returnWith(t, store, owned[0], stint.Return{Code: stint.StatusPending})
		complete(t, store, owned[1])
		wantFetch(t, store, 10, "t000002", "t000004")
	})
	t.Run("pauses", func(t *testing.T) {
		t.Parallel()
		store, _ := newLimitedStore(t, stint.Limits{Ordered: true})
		insert(t, store, withKey("k", "a", "b", "c")...)
		owned := wantFetch(t, store, 10, "a")
		wantErr(t, "PauseKeys", store.PauseKeys(t.Context(), "act", "k"), nil)
		returnWith(t, store, owned[0], stint.Return{Code: stint.StatusPending})
		wantFetch(t, store, 10)
		insert(t, store, withKey("k", "d")...)
		wantErr(t, "ResumeKeys", store.ResumeKeys(t.Context(), "act", "k"), nil)
		for _, id := range []stint.TaskID{"a", "b", "c", "d"} {
			complete(t, store, wantFetch(t, store, 10, id)...)
		}
	})
}

// What is in progress when the order is set holds its key, and what was parked comes in order.
// Proves G250.
func TestOrdered_CountsWhatWasHandedOutBefore(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, limits := range map[string]stint.Limits{
		"none": {}, "per key": {ConcurrencyPerKey: 2}, "fair": {Fair: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := newLimitedStore(t, limits)
			insert(t, store, withKey("k", "a", "b", "c", "d")...)
			owned := wantFetch(t, store, 2, "a", "b")
			setLimits(t, store, stint.Limits{Ordered: true})
			wantFetch(t, store, 10)
			complete(t, store, owned[1])
			wantFetch(t, store, 10)
			returnWith(t, store, owned[0], stint.Return{Code: stint.StatusPending})
			complete(t, store, wantFetch(t, store, 10, "a")...)
			complete(t, store, wantFetch(t, store, 10, "c")...)
			setLimits(t, store, stint.Limits{})
			wantFetch(t, store, 10, "d")
		})
	}
}

// Each of several that were in progress when the order was set holds its key, and they go on one at
// a time.
// Proves G250.
func TestOrdered_SeveralThatWereHandedOutBeforeHoldTheirKey(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newLimitedStore(t, stint.Limits{ConcurrencyPerKey: 3})
	insert(t, store, withKey("k", "a", "b", "c", "d")...)
	owned := wantFetch(t, store, 3, "a", "b", "c")
	setLimits(t, store, stint.Limits{Ordered: true})
	returnWith(t, store, owned[0],
		stint.Return{Code: stint.StatusPending, RetryAfter: time.Hour})
	returnWith(t, store, owned[1], stint.Return{Code: stint.StatusPending})
	wantFetch(t, store, 10) // c is in progress
	returnWith(t, store, owned[2], stint.Return{Code: stint.StatusPending})
	for _, id := range []stint.TaskID{"b", "c"} {
		complete(t, store, wantFetch(t, store, 10, id)...)
	}
	wantFetch(t, store, 10) // a holds it
	wantErr(t, "AbortTasks", errOf(store.AbortTasks(t.Context(), []stint.TaskID{"a"}, "")), nil)
	wantFetch(t, store, 10, "d")
}

// One exchange ends a task and owns the next one of its key.
func TestOrdered_AnExchangeReturnsATaskForTheNext(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newLimitedStore(t, stint.Limits{Ordered: true})
	insert(t, store, withKey("k", "a", "b")...)
	owned := wantFetch(t, store, 10, "a")
	want := stint.Want{
		Actor: "actor", MaxTasks: 10, Actions: []string{"act", "other"}, Lease: time.Hour,
	}
	for _, code := range []stint.StatusCode{stint.StatusPending, stint.StatusCompleted} {
		verdicts, next, err := store.ReturnAndOwnTasks(t.Context(), []stint.Return{{
			ID: owned[0].ID, Token: owned[0].Token, Code: code,
		}}, want)
		if err != nil || verdicts[0] != nil {
			t.Fatalf("ReturnAndOwnTasks = %v, %v", verdicts, err)
		}
		owned = next
		ids := []stint.TaskID{"a"}
		if code == stint.StatusCompleted {
			ids = []stint.TaskID{"b"}
		}
		if !slices.Equal(idsOf(owned), ids) {
			t.Fatalf("ReturnAndOwnTasks gave %v, want %v", idsOf(owned), ids)
		}
	}
}

func TestOrdered_IsRefusedWithWhatContradictsIt(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for argument, limits := range map[string]stint.Limits{
		"Limits.ConcurrencyPerKey": {Ordered: true, ConcurrencyPerKey: 2},
		"Limits.Fair":              {Ordered: true, Fair: true},
	} {
		wantArgument(t, argument, store.SetLimits(t.Context(), "act", limits), argument)
	}
	setLimits(t, store, stint.Limits{Ordered: true})
	want := stint.Limits{Ordered: true, ConcurrencyPerKey: 1}
	if got, _ := limitsOf(t, store); got.Limits != want {
		t.Errorf("ListLimits = %+v, want %+v", got.Limits, want)
	}
}

// Tasks of a key that are retried, or must wait again for one that is, do not hold up what they
// wait for. Proves G250.
func TestOrdered_RetriedTasksWaitForOthersOfTheirKey(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]stint.Return{
		"one that has ended":       {Code: stint.StatusCompleted},
		"one that is tried again":  {Code: stint.StatusPending},
		"one that was given back":  {Code: stint.StatusPending, Release: true},
		"one that has been failed": {Code: stint.StatusAborted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := newStoreAndPool(t, stint.Options{})
			limits := stint.Limits{Ordered: true}
			wantErr(t, "SetLimits", store.SetLimits(t.Context(), "act", limits), nil)
			first, second := after("first"), after("second", "first")
			first.Key, second.Key = "key", "key"
			insert(t, store, first, second)
			retried := []stint.TaskID{"first"}
			returnWith(t, store, ownOne(t, store), stint.Return{Code: stint.StatusCompleted})
			returnWith(t, store, ownOne(t, store), end)
			if end.Code != stint.StatusPending {
				retried = append(retried, "second")
			}
			wantErr(t, "RetryTasks", errOf(store.RetryTasks(t.Context(), retried)), nil)
			for _, want := range []stint.TaskID{"first", "second"} {
				task := ownOne(t, store)
				if task.ID != want {
					t.Fatalf("%q was fetched, want %q", task.ID, want)
				}
				returnWith(t, store, task, stint.Return{Code: stint.StatusCompleted})
			}
		})
	}
}
