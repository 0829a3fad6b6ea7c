package stint_test

import (
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A key whose bucket is empty below a slow rate gets tokens as they come by a faster one, as soon
// as that is set.
// Proves L3.
func TestSetLimits_KeysNeedNotWaitAsLongAsTheRateBeforeSaid(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, fair := range []bool{false, true} {
		store, pool := newLimitedStore(t, stint.Limits{
			RatePerKey: stint.Rate{Tasks: 1, Per: 24 * time.Hour, Burst: 1}, Fair: fair,
		})
		insert(t, store, withKey("k", "k0", "k1", "k2", "k3")...)
		wantFetch(t, store, 10, "k0")
		wantFetch(t, store, 10)
		wantErr(t, "SetLimits", store.SetLimits(t.Context(), "act", stint.Limits{
			RatePerKey: stint.Rate{Tasks: 1, Per: time.Hour, Burst: 2}, Fair: fair,
		}), nil)
		wantFetch(t, store, 10) // there was no token, and setting limits makes none
		exec(t, pool, `UPDATE stint.key_rates
			SET full_at = full_at - interval '1 h', wake_at = wake_at - interval '1 h'`)
		wantFetch(t, store, 10, "k1")
	}
}

// A rate that is set where there was none begins with full buckets, whatever rates there were long
// ago.
// Proves L3.
func TestSetLimits_BucketsOfKeysBeginFull(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	limits := stint.Limits{
		ConcurrencyPerKey: 10, RatePerKey: stint.Rate{Tasks: 1, Per: time.Hour, Burst: 1},
	}
	store, pool := newLimitedStore(t, limits)
	insert(t, store, withKey("k", "k0", "k1", "k2", "k3")...)
	wantFetch(t, store, 10, "k0")
	wantErr(t, "SetLimits",
		store.SetLimits(t.Context(), "act", stint.Limits{ConcurrencyPerKey: 1}), nil)
	if n := yields[int](t, pool, `SELECT count(*) FROM stint.key_rates`); n != 0 {
		t.Errorf("%d buckets of no rate have rows", n)
	}
	setLimits(t, store, limits)
	wantFetch(t, store, 10, "k1")
}

// A bucket that takes very long to fill is refused: the database cannot hold when it is full.
func TestSetLimits_RefusesBucketsThatFillTooSlowly(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	year := 366 * 24 * time.Hour
	for _, rate := range []stint.Rate{
		{Tasks: 1, Per: year, Burst: 1001}, {Tasks: 1, Per: 24 * time.Hour, Burst: 1_000_000_000},
	} {
		wantArgument(t, "SetLimits", store.SetLimits(t.Context(), "act",
			stint.Limits{RatePerKey: rate}), "Limits.RatePerKey.Burst")
		wantArgument(t, "SetLimits", store.SetLimits(t.Context(), "act",
			stint.Limits{Rate: rate}), "Limits.Rate.Burst")
	}
	slowest := stint.Rate{Tasks: 1, Per: year, Burst: 1000}
	setLimits(t, store, stint.Limits{Rate: slowest, RatePerKey: slowest})
	insert(t, store, ofKey("k", 1003)...)
	if got := own(t, store, 999); len(got) != 999 {
		t.Errorf("%d tasks were fetched", len(got))
	}
	if got := own(t, store, 999); len(got) != 1 {
		t.Errorf("%d tasks were fetched", len(got))
	}
	_, err := store.Explain(t.Context(), "k/01002")
	wantErr(t, "Explain", err, nil)
}

// What a fetch parks while limits are removed, as queue_turns may, comes back at once, and to
// its place: no limit is left that it could wait for.
// Proves L2.
func TestMaintain_BringsBackAllThatNoLimitHoldsUp(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, limits := range map[string]stint.Limits{
		"none": {}, "of keys": {
			ConcurrencyPerKey: 1, RatePerKey: stint.Rate{Tasks: 1, Per: time.Hour, Burst: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newLimitedStore(t, limits)
			tasks := ofKey("t", 4000)
			if name == "of keys" {
				for i := range tasks {
					tasks[i].Key = ""
				}
			}
			insert(t, store, tasks...)
			before := queue(t, pool)
			exec(t, pool, `UPDATE stint.ready
				SET position = position | -9223372036854775808,
				    limit_key = coalesce(limit_key, '')`)
			maintain(t, store)
			if queue(t, pool) != before {
				n := yields[int](t, pool, `SELECT coalesce(sum(hi - lo + 1), 0)::int
					FROM stint.ready WHERE position < 0`)
				t.Errorf("of %d tasks, %d are parked", len(tasks), n)
			}
		})
	}
}

// A task that is parked while the transaction of a return is open, which did not see it.
// Proves L2.
func TestReturn_InALongTransactionMakesRoomForWhatIsParkedMeanwhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, fair := range []bool{false, true} {
		store, pool := newLookingStore(t, stint.Limits{ConcurrencyPerKey: 1, Fair: fair})
		first := ofKey("k", 2)
		insert(t, store, first[0])
		owned := own(t, store, 1)
		tx := begin(t, pool)
		_, err := store.WithTx(tx).ReturnTasks(t.Context(), completed(owned))
		wantErr(t, "ReturnTasks", err, nil)
		insert(t, store, first[1])
		wantFetch(t, store, 1)
		wantErr(t, "Commit", tx.Commit(t.Context()), nil)
		eventually(t, soon, "the task is fetched", func() bool {
			return len(own(t, store, 1)) == 1
		})
	}
}

// A task that is made to wait for others leaves its place in the queue to the next one of its key.
// Proves L2.
func TestAddDependencies_LeaveTheRoomToTheNextOfTheKey(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, insertsEdge := range []bool{false, true} {
		store, pool := newLimitedStore(t, stint.Limits{ConcurrencyPerKey: 1})
		insert(t, store, withKey("k", "k0", "k1", "k2")...)
		insert(t, store, stint.Task{ID: "other", Action: "other"})
		parker := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
		owned := wantFetch(t, parker, 10, "k0")
		wantErr(t, "Close", parker.Close(t.Context()), nil)
		complete(t, store, owned...) // k1 is back in the queue
		var err error
		if insertsEdge {
			err = store.InsertTasks(t.Context(), []stint.Task{{
				ID: "before", Action: "other", ToSignalAfter: []stint.TaskID{"k1"},
			}})
		} else {
			err = store.AddDependencies(t.Context(), []stint.Dependency{
				{Predecessor: "other", Dependent: "k1"},
			})
		}
		wantErr(t, "the call", err, nil)
		wantFetch(t, store, 10, "k2")
	}
}

// A task that is parked goes ahead of one of its key with a lower priority whose lease has expired.
// Proves L2.
func TestOwnTasks_GivesTheRoomOfExpiredLeasesByPriority(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLookingStore(t, stint.Limits{ConcurrencyPerKey: 1})
	insert(t, store, withKey("k", "low")...)
	wantFetch(t, store, 1, "low")
	high := withKey("k", "high")
	high[0].Priority = 5
	insert(t, store, high...)
	wantFetch(t, store, 1)
	expireLeases(t, pool)
	_, err := store.OwnTasks(t.Context(), "actor", 1, []string{"other"}, stint.NoExpiry)
	wantErr(t, "OwnTasks", err, nil)
	eventually(t, soon, "the task is back in the queue", func() bool {
		return yields[int](t, pool, "SELECT count(*) FROM stint.ready WHERE position < 0") == 0
	})
	wantFetch(t, store, 1, "high")
}
