package stint_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// newLimitedStore returns a store that does nothing by itself, with limits of the action "act".
func newLimitedStore(tb testing.TB, limits stint.Limits) (*stint.Store, *pgxpool.Pool) {
	tb.Helper()
	store, pool := newLookingStore(tb, limits)
	recheckNever(store)
	return store, pool
}

// newLookingStore returns a store that only looks for room again after it has parked tasks.
func newLookingStore(tb testing.TB, limits stint.Limits) (*stint.Store, *pgxpool.Pool) {
	tb.Helper()
	store, pool := newStoreAndPool(tb, stint.Options{Maintenance: stint.MaintainNever})
	wantErr(tb, "SetLimits", store.SetLimits(tb.Context(), "act", limits), nil)
	return store, pool
}

// wantFetch owns up to n tasks, and checks which these are.
func wantFetch(tb testing.TB, store *stint.Store, n int, ids ...stint.TaskID) []stint.OwnedTask {
	tb.Helper()
	owned := own(tb, store, n)
	if got := idsOf(owned); !slices.Equal(got, ids) {
		tb.Fatalf("OwnTasks gave %v, want %v", got, ids)
	}
	return owned
}

// withKey are tasks with a key, one for each ID.
func withKey(key string, ids ...stint.TaskID) []stint.Task {
	tasks := make([]stint.Task, len(ids))
	for i, id := range ids {
		tasks[i] = stint.Task{ID: id, Action: "act", Key: key}
	}
	return tasks
}

// Proves L1.
func TestOwnTasks_TakesNoMoreThanMayBeInProgress(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newLimitedStore(t, stint.Limits{Concurrency: 3})
	insert(t, store, numbered("t", 200)...)
	owned := wantFetch(t, store, 10, "t000000", "t000001", "t000002")
	wantFetch(t, store, 10)
	complete(t, store, owned[1])
	wantFetch(t, store, 10, "t000003")

	wantErr(t, "SetLimits",
		store.SetLimits(t.Context(), "act", stint.Limits{Concurrency: 1}), nil)
	complete(t, store, owned[0])
	wantFetch(t, store, 10) // lowered, it takes nothing away, and gives nothing
	wantErr(t, "SetLimits",
		store.SetLimits(t.Context(), "act", stint.Limits{Concurrency: 5}), nil)
	wantFetch(t, store, 10, "t000004", "t000005", "t000006")
}

// The example in the comment of own_limited.
// Proves L1.
func TestOwnTasks_GivesEachKeyItsSlots(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{ConcurrencyPerKey: 1})
	insert(t, store, keyed(numbered("t", 102), "a", "b", "a", "c", "a", "a")...)
	if got := yields[int](t, pool, `SELECT count(*) FROM stint.ready`); got > 20 {
		t.Errorf("tasks of mixed keys are %d spans, want at most 20", got)
	}
	owned := wantFetch(t, store, 5, "t000000", "t000001", "t000003")
	parked := func() string {
		return yields[string](t, pool, `SELECT coalesce(string_agg(limit_key || count, ' '), '')
			FROM (SELECT limit_key, sum(hi - lo + 1) AS count FROM stint.ready
				WHERE position < 0 GROUP BY limit_key ORDER BY limit_key) AS parked`)
	}
	if got := parked(); got != "a2" {
		t.Errorf("parked are %q, want two tasks of a", got)
	}
	complete(t, store, owned[0])
	wantFetch(t, store, 1, "t000002")
	wantFetch(t, store, 1000) // all others are parked by that
	if got := parked(); got != "a66 b16 c16" {
		t.Errorf("parked are %q, want all of a, b and c", got)
	}
}

func TestOwnTasks_WithoutKeysHaveNoLimitPerKey(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newLimitedStore(t, stint.Limits{
		ConcurrencyPerKey: 1, RatePerKey: stint.Rate{Tasks: 1, Per: time.Hour},
	})
	insert(t, store, numbered("t", 150)...)
	if owned := own(t, store, 150); len(owned) != 150 {
		t.Errorf("%d tasks without a key are fetched, want all 150", len(owned))
	}
}

// The rest of a span whose key is known is parked in one piece, however long it is.
func TestOwnTasks_ParksTheRestOfASpanAsOne(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{ConcurrencyPerKey: 2})
	insert(t, store, keyed(numbered("t", 20_000), "a")...)
	insert(t, store, withKey("b", "other")...)
	before := yields[int](t, pool, `SELECT count(*) FROM stint.ready`)
	wantFetch(t, store, 3, "t000000", "t000001")
	wantFetch(t, store, 3, "other")
	if got := yields[int](t, pool, `SELECT count(*) FROM stint.ready`); got > before {
		t.Errorf("%d rows have become %d", before, got)
	}
}

// Whatever ends a performance makes room for the next fetch, without anything in between.
// Proves L2.
func TestOwnTasks_UsesTheRoomThatIsMade(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ways := map[string]func(*testing.T, *stint.Store, stint.OwnedTask) error{
		"return": func(t *testing.T, store *stint.Store, owned stint.OwnedTask) error {
			t.Helper()
			return store.ReturnTask(t.Context(), owned.ID, owned.Token, "", stint.StatusCompleted)
		},
		"failure": func(t *testing.T, store *stint.Store, owned stint.OwnedTask) error {
			t.Helper()
			return store.ReturnTask(t.Context(), owned.ID, owned.Token, "", stint.StatusAborted)
		},
		"retry later": func(t *testing.T, store *stint.Store, owned stint.OwnedTask) error {
			t.Helper()
			return errOf(store.ReturnTasks(t.Context(), []stint.Return{{
				ID: owned.ID, Token: owned.Token, Code: stint.StatusPending,
				RetryAfter: time.Hour,
			}}))
		},
		"abort": func(t *testing.T, store *stint.Store, owned stint.OwnedTask) error {
			t.Helper()
			return errOf(store.AbortTasks(t.Context(), []stint.TaskID{owned.ID}, "no more"))
		},
		"deadline": func(t *testing.T, store *stint.Store, _ stint.OwnedTask) error {
			t.Helper()
			return store.Maintain(t.Context())
		},
	}
	names := slices.Sorted(maps.Keys(ways))
	for _, c := range testrun.Third(testrun.Pairs(names, []stint.Limits{
		{ConcurrencyPerKey: 1},
		{Concurrency: 1},
		{Concurrency: 1, ConcurrencyPerKey: 1},
		{ConcurrencyPerKey: 1, Fair: true},
	}), 0) {
		name, limits := c.A, c.B
		t.Run(fmt.Sprintf("%s under %+v", name, limits), func(t *testing.T) {
			t.Parallel()
			store, pool := newLimitedStore(t, limits)
			insert(t, store, withKey("k", "first")...)
			owned := wantFetch(t, store, 10, "first")
			insert(t, store, withKey("k", "second", "third")...)
			wantFetch(t, store, 10)
			if name == "deadline" {
				exec(t, pool, `UPDATE stint.tasks SET deadline = now() WHERE id = 'first'`)
				exec(t, pool, `INSERT INTO stint.deadlines (deadline, key)
					SELECT deadline, key FROM stint.tasks WHERE id = 'first'`)
			}
			wantErr(t, name, ways[name](t, store, owned[0]), nil)
			wantFetch(t, store, 10, "second")
			wantFetch(t, store, 10)
		})
	}
}

// An expired lease makes room, for the task itself before all others. The fetch that finds
// nothing takes it back.
// Proves L2.
func TestOwnTasks_UsesTheRoomOfExpiredLeases(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, limits := range []stint.Limits{
		{ConcurrencyPerKey: 1}, {Concurrency: 1}, {ConcurrencyPerKey: 1, Fair: true},
	} {
		store, pool := newLimitedStore(t, limits)
		insert(t, store, withKey("k", "first", "second")...)
		wantFetch(t, store, 1, "first")
		wantFetch(t, store, 1)
		expireLeases(t, pool)
		again := wantFetch(t, store, 2, "first")
		wantFetch(t, store, 2)
		complete(t, store, again...)
		wantFetch(t, store, 2, "second")
	}
}

// Once an expired lease has been taken back, others may have its room.
func TestExtend_CannotTakeTheRoomBackThatALeaseLeft(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{ConcurrencyPerKey: 1})
	insert(t, store, withKey("k", "first")...)
	late := wantFetch(t, store, 1, "first")[0]
	expireLeases(t, pool)
	maintain(t, store)
	extended, err := store.ExtendTasksOwnership(
		t.Context(), "actor", []stint.OwnedTask{late}, time.Hour)
	wantErr(t, "ExtendTasksOwnership", err, nil)
	if !slices.Equal(extended, []bool{false}) {
		t.Errorf("ExtendTasksOwnership = %v, want a refusal", extended)
	}
	complete(t, store, late) // its work counts all the same
	wantState(t, store, stint.StateCompleted, "first")
}

func TestOwnTasks_RefusesActionsWithLimitsInATransaction(t *testing.T) {
	t.Parallel()
	store, pool := newLimitedStore(t, stint.Limits{Concurrency: 10})
	insert(t, store, append(numbered("t", 1), stint.Task{ID: "free", Action: "free"})...)
	tx, err := pool.Begin(t.Context())
	wantErr(t, "Begin", err, nil)
	_, err = store.WithTx(tx).OwnTasks(
		t.Context(), "actor", 10, []string{"act", "free"}, time.Hour)
	wantErr(t, "OwnTasks", err, stint.ErrInvalidArgument)
	if err == nil || !strings.Contains(err.Error(), "act, which has limits") {
		t.Errorf("OwnTasks = %v, want the action that has limits", err)
	}
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	wantState(t, store, stint.StateReady, "free", "t000000")
	if tries := info(t, store, "free").Tries; tries != 0 {
		t.Errorf("the refusal cost %d tries", tries)
	}
}

// Actions with and without limits are fetched together, by priority and age.
func TestOwnTasks_MixesActionsWithAndWithoutLimits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newLimitedStore(t, stint.Limits{Concurrency: 2})
	for i := range 4 {
		insert(t, store, stint.Task{ID: stint.TaskID(fmt.Sprint("act", i)), Action: "act"})
		insert(t, store, stint.Task{ID: stint.TaskID(fmt.Sprint("free", i)), Action: "free"})
	}
	insert(t, store, stint.Task{ID: "urgent", Action: "act", Priority: 1})
	for _, want := range [][]stint.TaskID{
		{"urgent", "act0", "free0"}, {"free1", "free2", "free3"}, nil,
	} {
		owned, err := store.OwnTasks(
			t.Context(), "actor", 3, []string{"free", "act"}, time.Hour)
		wantErr(t, "OwnTasks", err, nil)
		if got := idsOf(owned); !slices.Equal(got, want) {
			t.Errorf("OwnTasks gave %v, want %v", got, want)
		}
	}
}

// Proves L3.
func TestOwnTasks_HandsOutNoMoreThanTheRate(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{
		Rate: stint.Rate{Tasks: 1, Per: time.Hour, Burst: 3},
	})
	insert(t, store, numbered("t", 10)...)
	wantFetch(t, store, 10, "t000000", "t000001", "t000002")
	wantFetch(t, store, 10)
	exec(t, pool, `UPDATE stint.limits SET refilled_at = refilled_at - interval '2 h'`)
	wantFetch(t, store, 10, "t000003", "t000004")
	exec(t, pool, `UPDATE stint.limits SET refilled_at = refilled_at + interval '9 h'`)
	wantFetch(t, store, 10) // a clock that was set back gives nothing
	exec(t, pool, `UPDATE stint.limits SET refilled_at = refilled_at - interval '90 h'`)
	wantFetch(t, store, 10, "t000005", "t000006", "t000007")
}

// Proves L3.
func TestOwnTasks_HandsOutNoMoreThanTheRateOfAKey(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, fair := range []bool{false, true} {
		store, pool := newLimitedStore(t, stint.Limits{
			RatePerKey: stint.Rate{Tasks: 1, Per: time.Hour, Burst: 2}, Fair: fair,
		})
		insert(t, store, withKey("k", "k0", "k1", "k2", "k3", "k4")...)
		insert(t, store, withKey("l", "l0")...)
		wantFetch(t, store, 10, "k0", "k1", "l0")
		wantFetch(t, store, 10)
		exec(t, pool, `UPDATE stint.key_rates
			SET full_at = full_at - interval '1 h', wake_at = wake_at - interval '1 h'`)
		wantFetch(t, store, 10, "k2")
		wantFetch(t, store, 10)
	}
}

// A bucket that has been full for long holds a burst, and no more.
// Proves L3.
func TestOwnTasks_SavesUpNoMoreTokensThanABurst(t *testing.T) {
	t.Parallel()
	store, pool := newLimitedStore(t, stint.Limits{RatePerKey: hourly(2)})
	insert(t, store, withKey("k", "k0")...)
	wantFetch(t, store, 10, "k0")
	exec(t, pool, "UPDATE stint.key_rates SET full_at = full_at - interval '1 day'")
	insert(t, store, withKey("k", "k1", "k2")...)
	wantFetch(t, store, 10, "k1", "k2")
	insert(t, store, withKey("k", "k3")...)
	wantFetch(t, store, 10)
}

// A bucket that is not full stays, though no task waits for a token.
// Proves L3.
func TestMaintain_DropsNoBucketThatIsNotFull(t *testing.T) {
	t.Parallel()
	store, _ := newLimitedStore(t, stint.Limits{RatePerKey: hourly(2)})
	insert(t, store, withKey("k", "k0", "k1")...)
	wantFetch(t, store, 10, "k0", "k1")
	maintain(t, store)
	insert(t, store, withKey("k", "k2")...)
	wantFetch(t, store, 10)
}

// A key gets no token back when tasks of it are looked at, however long that look waited for the
// bucket, of which somebody has paid meanwhile.
// Proves L3.
func TestMaintain_RefundsNoTokenThatWasJustPaid(t *testing.T) {
	t.Parallel()
	store, pool := newLimitedStore(t, stint.Limits{RatePerKey: hourly(2)})
	insert(t, store, withKey("k", "k0", "k1", "k2")...)
	wantFetch(t, store, 10, "k0", "k1")
	wantFetch(t, store, 10)
	paying := begin(t, pool)
	_, err := paying.Exec(t.Context(), "UPDATE stint.key_rates SET full_at = full_at")
	wantErr(t, "UPDATE", err, nil)
	done := make(chan error, 1)
	go func() { done <- store.Maintain(t.Context()) }()
	waitForLocks(t, pool, 1)
	_, err = paying.Exec(t.Context(), `UPDATE stint.key_rates
		SET full_at = clock_timestamp() + interval '2 h'`)
	wantErr(t, "UPDATE", err, nil)
	var paid time.Time
	err = paying.QueryRow(t.Context(), "SELECT full_at FROM stint.key_rates").Scan(&paid)
	wantErr(t, "SELECT", err, nil)
	wantErr(t, "Commit", paying.Commit(t.Context()), nil)
	wantErr(t, "Maintain", <-done, nil)
	got := yields[time.Time](t, pool, "SELECT full_at FROM stint.key_rates")
	if !got.Equal(paid) {
		t.Errorf("the bucket is full at %v, want %v", got, paid)
	}
}

// A slot counts for the claim under which its task was fetched, not for the task.
// Proves L1.
func TestOwnTasks_FreesTheSlotOfAnEarlierClaim(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{ConcurrencyPerKey: 2})
	insert(t, store, withKey("k", "a", "b")...)
	first := ownOne(t, store)
	wantFetch(t, store, 1, "b")
	complete(t, store, first)
	expireLeases(t, pool)
	wantFetch(t, store, 1, "b") // in the slot of a
	insert(t, store, withKey("k", "c", "d")...)
	wantFetch(t, store, 10, "c")
	maintain(t, store) // which drops no slots of tasks in progress
	wantFetch(t, store, 10)
}

// Tokens may come faster than the clock ticks.
func TestOwnTasks_ObeysTheHighestRates(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	highest := stint.Rate{Tasks: 1_000_000_000, Per: time.Microsecond, Burst: 3}
	for _, limits := range []stint.Limits{
		{Rate: highest},
		{RatePerKey: highest},
		{RatePerKey: highest, Fair: true},
		{RatePerKey: highest, Rate: highest, Concurrency: 1_000_000_000, ConcurrencyPerKey: 1000},
	} {
		store, _ := newLimitedStore(t, limits)
		insert(t, store, withKey("k", "k0", "k1", "k2", "k3", "k4")...)
		wantFetch(t, store, 10, "k0", "k1", "k2")
		wantFetch(t, store, 10, "k3", "k4")
	}
}

// Who waits for a token knows when it comes, and does not ask before.
func TestWaitToOwnTasks_KnowsWhenTheNextTokenComes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, limits := range map[string]stint.Limits{
		"action": {Rate: stint.Rate{Tasks: 2, Per: time.Second, Burst: 1}},
		"key":    {RatePerKey: stint.Rate{Tasks: 2, Per: time.Second, Burst: 1}},
		"fair":   {RatePerKey: stint.Rate{Tasks: 2, Per: time.Second, Burst: 1}, Fair: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, pool := newLimitedStore(t, limits)
			spied, spy := spyOn(t, pool, 4)
			store := openStore(t, spied, stint.Options{
				Maintenance: stint.MaintainNever, PollInterval: time.Hour,
			})
			insert(t, store, withKey("k", "first", "second")...)
			wantFetch(t, store, 2, "first")
			asked := spy.count("lock_limits")
			owned, err := store.WaitToOwnTasks(
				t.Context(), "actor", 2, []string{"act"}, time.Hour)
			wantErr(t, "WaitToOwnTasks", err, nil)
			if got := idsOf(owned); !slices.Equal(got, []stint.TaskID{"second"}) {
				t.Errorf("WaitToOwnTasks gave %v", got)
			}
			// Half a second, and until then at most ten scans a second (queuefloors).
			if n := spy.count("lock_limits") - asked; n > 10 {
				t.Errorf("it asked %d times", n)
			}
		})
	}
}

// A return wakes who waits for room.
func TestWaitToOwnTasks_IsWokenByTheReturnThatMakesRoom(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, limits := range []stint.Limits{
		{Concurrency: 1}, {ConcurrencyPerKey: 1}, {ConcurrencyPerKey: 1, Fair: true},
	} {
		_, pool := newLimitedStore(t, limits)
		store := openStore(t, pool, stint.Options{
			Maintenance: stint.MaintainNever, PollInterval: time.Hour,
		})
		insert(t, store, withKey("k", "first", "second")...)
		first := wantFetch(t, store, 1, "first")
		waits := start(func() ([]stint.OwnedTask, error) {
			return store.WaitToOwnTasks(t.Context(), "other", 1, []string{"act"}, time.Hour)
		})
		wantGoingOn(t, "WaitToOwnTasks", waits)
		complete(t, store, first...)
		owned, err := ends(t, "WaitToOwnTasks", waits)
		wantErr(t, "WaitToOwnTasks", err, nil)
		if got := idsOf(owned); !slices.Equal(got, []stint.TaskID{"second"}) {
			t.Errorf("WaitToOwnTasks gave %v", got)
		}
	}
}

// Proves L5.
func TestOwnTasks_GivesKeysSharesByWeight(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newLimitedStore(t, stint.Limits{Fair: true})
	wantErr(t, "SetWeights", store.SetWeights(t.Context(), "act", map[string]int{"b": 3}), nil)
	insert(t, store, keyed(numbered("a", 5000), "a")...)
	insert(t, store, keyed(numbered("b", 5000), "b")...)
	shares := func(n int) map[string]int {
		count := map[string]int{}
		for _, task := range own(t, store, n) {
			count[task.Key]++
		}
		return count
	}
	for range 4 {
		if got := shares(400); got["a"] != 100 || got["b"] != 300 {
			t.Errorf("of 400, a gets %d and b %d, want 100 and 300", got["a"], got["b"])
		}
	}
	insert(t, store, keyed(numbered("c", 1000), "c")...)
	insert(t, store, numbered("none", 1000)...)
	if got := shares(600); got["c"] != 100 || got[""] != 100 || got["b"] != 300 {
		t.Errorf("with keys that come late, of 600 they get %v", got)
	}
}

// Turns are within a priority: what is urgent comes first, whose turn it ever is.
func TestOwnTasks_TakesTurnsWithinAPriority(t *testing.T) {
	t.Parallel()
	store, _ := newLimitedStore(t, stint.Limits{Fair: true})
	insert(t, store, keyed(numbered("a", 100), "a")...)
	insert(t, store, keyed(numbered("b", 100), "b")...)
	own(t, store, 64)
	urgent := withKey("a", "u0", "u1", "u2")
	for i := range urgent {
		urgent[i].Priority = 1
	}
	insert(t, store, urgent...)
	wantFetch(t, store, 3, "u0", "u1", "u2")
}

// Proves L6.
func TestPause_StopsFetches(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, limits := range []stint.Limits{{}, {Concurrency: 10}, {Fair: true}} {
		store, _ := newLimitedStore(t, limits)
		insert(t, store, withKey("a", "a0", "a1")...)
		wantErr(t, "Pause", store.Pause(t.Context(), "act"), nil)
		wantFetch(t, store, 10)
		wantErr(t, "Resume", store.Resume(t.Context(), "act"), nil)
		wantErr(t, "PauseKeys", store.PauseKeys(t.Context(), "act", "a"), nil)
		insert(t, store, withKey("b", "b0")...)
		wantFetch(t, store, 10, "b0")
		wantErr(t, "ResumeKeys", store.ResumeKeys(t.Context(), "act", "a"), nil)
		wantFetch(t, store, 10, "a0", "a1")
	}
}

// What a process leaves undone that dies behind a fetch, a maintainer does.
// Proves L2.
func TestMaintain_BringsBackParkedTasksForWhichThereIsRoom(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, fair := range []bool{false, true} {
		parker, pool := newLimitedStore(t, stint.Limits{ConcurrencyPerKey: 1, Fair: fair})
		insert(t, parker, withKey("k", "first", "second")...)
		insert(t, parker, withKey("l", "other")...)
		owned := wantFetch(t, parker, 10, "first", "other")
		wantErr(t, "Close", parker.Close(t.Context()), nil) // it looks no more
		store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
		exec(t, pool, `DELETE FROM stint.turns`)
		exec(t, pool, `UPDATE stint.leased SET limited_action = NULL`) // the return makes no room
		complete(t, store, owned...)
		wantFetch(t, store, 10)
		maintain(t, store)
		wantFetch(t, store, 10, "second")
		if n := yields[int](t, pool, `SELECT count(*) FROM stint.slots`); n != 1 {
			t.Errorf("%d slots have rows, want 1", n)
		}
	}
}

// Services set their limits whenever they start.
func TestSetLimits_LeavesParkedTasksAloneIfNothingChanges(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, fair := range []bool{false, true} {
		limits := stint.Limits{ConcurrencyPerKey: 1, Fair: fair}
		store, pool := newLimitedStore(t, limits)
		insert(t, store, withKey("k", "first", "second", "third")...)
		wantFetch(t, store, 10, "first")
		rows := func() string {
			return yields[string](t, pool, `SELECT string_agg(ctid::text || position, ' ')
				FROM stint.ready WHERE position < 0`)
		}
		before := rows()
		wantErr(t, "SetLimits", store.SetLimits(t.Context(), "act", limits), nil)
		if after := rows(); after != before {
			t.Errorf("parked are %s, and were %s", after, before)
		}
		wantErr(t, "SetLimits",
			store.SetLimits(t.Context(), "act", stint.Limits{ConcurrencyPerKey: 2}), nil)
		wantFetch(t, store, 10, "second")
		if n := yields[int](t, pool, `SELECT count(*) FROM stint.turns`); n != 0 {
			t.Errorf("there are %d turns of an action that is not fair", n)
		}
	}
}
