package stint_test

import (
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
