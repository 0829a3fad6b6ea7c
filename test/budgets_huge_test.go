package stint_test

import (
	"context"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// aYear is the slowest rate that there is, most the highest cost.
var aYear = stint.Rate{Tasks: 1, Per: 366 * 24 * time.Hour, Burst: 1}

const most = 1_000_000_000

// A bucket that owes more than comes before the end of all times that PostgreSQL knows holds up its
// tasks, and no call fails or asks again and again.
// Proves G342.
func TestBudgets_MayOweForEver(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, of := range map[string]struct {
		limits stint.Limits
		cost   int
		own    string
	}{
		"action":            {stint.Limits{Rate: aYear}, most, "own_gated"},
		"key":               {stint.Limits{RatePerKey: aYear}, most, "own_limited"},
		"action, 300 years": {stint.Limits{Rate: aYear}, 300, "own_gated"},
		"key, 300 years":    {stint.Limits{RatePerKey: aYear}, 300, "own_limited"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of.limits.ByCost = true
			truth, pool := newLimitedStore(t, of.limits)
			spied, spy := spyOn(t, pool, 4)
			store := openStore(t, spied, stint.Options{Maintenance: stint.MaintainNever})
			insert(t, truth, costing("t", "k", of.cost, 1)...)
			wantFetch(t, store, 10, "t/0")
			wantFetch(t, store, 10)
			if _, err := store.ListLimits(t.Context(), "act"); err != nil {
				t.Errorf("ListLimits = %v", err)
			}
			explained, err := store.Explain(t.Context(), "t/1")
			if err != nil {
				t.Fatalf("Explain = %v", err)
			}
			held := explained.Limits
			if held.NextAt.Year()+held.KeyNextAt.Year() < 2300 {
				t.Errorf("there are tokens at %v, %v", held.NextAt, held.KeyNextAt)
			}
			before := spy.count(of.own)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = store.WaitToOwnTasks(ctx, "actor", 50, []string{"act"}, time.Hour)
			wantErr(t, "WaitToOwnTasks", err, context.DeadlineExceeded)
			if asked := spy.count(of.own) - before; asked > 20 {
				t.Errorf("a caller that waits has asked %d times in a second", asked)
			}
		})
	}
}

// What many tries of a key have spent, or have not, does not add up to a time that does not exist.
// Proves G342.
func TestBudgets_SettleWhatIsHuge(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	limits := stint.Limits{RatePerKey: stint.Rate{Tasks: 1000, Per: time.Second, Burst: 1000}}
	store, pool := newLimitedStore(t, limits)
	insert(t, store, costing("t", "k", most, most, most, most, most, most, most, most)...)
	owned := wantFetch(t, store, 8, "t/0", "t/1", "t/2", "t/3", "t/4", "t/5", "t/6", "t/7")
	limits.RatePerKey, limits.ByCost = aYear, true
	wantErr(t, "SetLimits", store.SetLimits(t.Context(), "act", limits), nil)
	for _, task := range owned[:7] { // 1,000 years are put back each time
		spend(t, store, task, 0)
		own(t, store, 1)
	}
	exec(t, pool, `UPDATE stint.key_rates SET full_at = '294000-01-01'`)
	insert(t, store, costing("u", "k", 1)...)
	spend(t, store, owned[7], 0)
	exec(t, pool, `UPDATE stint.spent SET more = $1`, most)
	wantFetch(t, store, 1)
}

// A key that has spent so much that its pass cannot grow any more does not hold up the others.
// Proves G342.
func TestBudgets_PassesHaveAnEnd(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, group := range []string{"", "customers"} {
		store, pool := newLimitedStore(t,
			stint.Limits{Fair: true, FairGroup: group, ByCost: true})
		insert(t, store, costing("a", "a", most, most, most, most)...)
		insert(t, store, costing("b", "b", most, most, most, most)...)
		owned := own(t, store, 1)
		exec(t, pool, `UPDATE stint.turns SET pass = 9223372036800000000`)
		for range 5 {
			owned = append(owned, own(t, store, 1)...)
		}
		for _, task := range owned {
			spend(t, store, task, 0)
		}
		exec(t, pool, `UPDATE stint.spent SET more = $1`, most)
		owned = append(owned, own(t, store, 1)...)
		if len(owned) != 7 {
			t.Errorf("%d tasks were fetched, want 7", len(owned))
		}
	}
}
