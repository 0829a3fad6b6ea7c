package stint_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// What was owed while costs counted is not owed in tasks.
// Proves G342.
func TestBudgets_OweNoTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	limits := stint.Limits{Rate: anHour, RatePerKey: anHour, ByCost: true}
	store, _ := newLimitedStore(t, limits)
	insert(t, store, costing("t", "k", 100_000)...)
	wantFetch(t, store, 1, "t/0")
	limits.ByCost = false
	wantErr(t, "SetLimits", store.SetLimits(t.Context(), "act", limits), nil)
	wantTokens(t, store, 0)
}

// What a key owes stays owed if its rate is set again, but not at another rate, nor without one.
// Proves G342.
func TestBudgets_OfKeysFitANewRate(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	limits := stint.Limits{Rate: anHour, RatePerKey: anHour, ByCost: true}
	store, pool := newLimitedStore(t, limits)
	insert(t, store, costing("t", "k", 90, 1)...)
	exec(t, pool, `UPDATE stint.tasks SET cost = 100000 WHERE cost = 90`)
	wantFetch(t, store, 1, "t/0")
	owes := func() time.Duration {
		return yields[time.Duration](t, pool, `SELECT coalesce(
			max(full_at) - statement_timestamp(), '0') FROM stint.key_rates`)
	}
	limits.Rate.Tasks++
	wantErr(t, "SetLimits", store.SetLimits(t.Context(), "act", limits), nil)
	if got := owes(); got < 999*time.Hour {
		t.Errorf("the bucket is full in %v, want 1,000 h", got)
	}
	limits.RatePerKey.Tasks *= 100
	wantErr(t, "SetLimits", store.SetLimits(t.Context(), "act", limits), nil)
	if got := owes(); got > time.Minute {
		t.Errorf("the bucket is full in %v, want less than a minute", got)
	}
	limits.RatePerKey = stint.Rate{}
	wantErr(t, "SetLimits", store.SetLimits(t.Context(), "act", limits), nil)
	if got := yields[int](t, pool, `SELECT count(*) FROM stint.key_rates`); got > 0 {
		t.Errorf("%d buckets are left without a rate", got)
	}
}

// An action whose keys take turns, fetched together with one that counts costs, is not fetched one
// task at a time.
// Proves G342.
func TestBudgets_LeaveOthersTheirTurns(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newLimitedStore(t, stint.Limits{Fair: true, ByCost: true})
	wantErr(t, "SetLimits",
		store.SetLimits(t.Context(), "fair", stint.Limits{Fair: true}), nil)
	for i := range 40 {
		key := fmt.Sprint(i % 4)
		insert(t, store,
			stint.Task{ID: stint.TaskID(fmt.Sprint("a", i)), Action: "act", Key: key},
			stint.Task{ID: stint.TaskID(fmt.Sprint("f", i)), Action: "fair", Key: key})
	}
	actions := []string{"act", "fair"}
	for range 2 { // the first one learns of the limits
		owned, err := store.OwnTasks(t.Context(), "actor", 15, actions, time.Hour)
		if err != nil || len(owned) < 15 {
			t.Errorf("OwnTasks gave %d tasks, %v, want 15", len(owned), err)
		}
	}
}

// A caller that returns a task and fetches the next one in a call gets what the budget holds when
// that has been settled.
// Proves G342.
func TestBudgets_SettleWhatTheCallReturns(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for spent, want := range map[int]int{10: 1, 300: 0} {
		store, _ := newLimitedStore(t, stint.Limits{Rate: anHour, ByCost: true})
		insert(t, store, costing("t", "", map[int]int{10: 150, 300: 50}[spent], 1)...)
		first := wantFetch(t, store, 1, "t/0")[0]
		_, owned, err := store.ReturnAndOwnTasks(t.Context(), []stint.Return{{
			ID: first.ID, Token: first.Token, Code: stint.StatusCompleted, Spent: &spent,
		}}, stint.Want{
			Actor: "actor", MaxTasks: 1, Actions: []string{"act"}, Lease: time.Hour,
		})
		if err != nil || len(owned) != want {
			t.Errorf("%d spent: ReturnAndOwnTasks = %v, %v, want %d", spent, owned, err, want)
		}
	}
}

// Who waits for a budget is told when some of it comes back, whoever returns the task.
// Proves G342.
func TestBudgets_TellWhoWaits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, limits := range map[string]stint.Limits{
		"action": {Rate: anHour, ByCost: true},
		"key":    {RatePerKey: anHour, ByCost: true},
		"fair":   {RatePerKey: anHour, Fair: true, ByCost: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newLimitedStore(t, limits)
			insert(t, store, costing("t", "k", 150, 1)...)
			first := wantFetch(t, store, 1, "t/0")[0]
			wantFetch(t, store, 1)
			waiting := start(func() ([]stint.OwnedTask, error) {
				return store.WaitToOwnTasks(
					t.Context(), "actor", 50, []string{"act"}, time.Hour)
			})
			spend(t, openStore(t, pool, stint.Options{}), first, 10)
			owned, err := ends(t, "WaitToOwnTasks", waiting)
			if err != nil || len(owned) != 1 {
				t.Errorf("WaitToOwnTasks = %v, %v", owned, err)
			}
		})
	}
}
