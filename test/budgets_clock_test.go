package stint_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
)

// wantOwed checks for how long the bucket of a key gives no token.
func wantOwed(tb testing.TB, pool *pgxpool.Pool, key string, want time.Duration) {
	tb.Helper()
	got := yields[time.Duration](tb, pool, `SELECT full_at - clock_timestamp()
		FROM stint.key_rates WHERE limit_key = $1`, key)
	if got = got - anHour.Per; math.Abs((got - want).Minutes()) > 1 {
		tb.Errorf("%s owes for %v, want %v", key, got, want)
	}
}

// What the buckets of keys owe that the clock has written while it was ahead comes as much earlier
// when it was put back: nothing else tells such a bucket from one that owes a lot. Those that owe a
// lot go on doing so, as long as they would have without that clock.
// Proves G301, G342.
func TestBudgets_AfterTheClockWasAhead(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"nothing", "a fetch", "a settlement", "a new rate"} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			limits := stint.Limits{RatePerKey: anHour, ByCost: true}
			store, pool := newLimitedStore(t, limits)
			for key, cost := range map[string]int{"owes": 300, "pays": 150, "one": 1} {
				insert(t, store, costing(key, key, cost, 1)...)
			}
			owned := map[stint.TaskID]stint.OwnedTask{}
			for len(owned) < 4 { // and one/1
				for _, task := range own(t, store, 1) {
					owned[task.ID] = task
				}
			}
			wantFetch(t, store, 10)
			exec(t, pool, `UPDATE stint.key_rates SET full_at = full_at + interval '20 h',
				wake_at = wake_at + interval '20 h', seen_at = seen_at + interval '20 h'
				WHERE limit_key <> 'owes'`)
			pays := 30 * time.Minute
			switch before {
			case "a fetch":
				insert(t, store, costing("late", "one", 1)...)
				wantFetch(t, store, 10)
			case "a settlement":
				spend(t, store, owned["pays/0"], 200)
				wantFetch(t, store, 10)
				pays += 30 * time.Minute
			case "a new rate":
				limits.RatePerKey.Tasks++ // nothing is owed any more
				setLimits(t, store, limits)
				wantFetch(t, store, 1)
				return
			}
			wantErr(t, "Maintain", store.Maintain(t.Context()), nil)
			wantErr(t, "Maintain", store.Maintain(t.Context()), nil)
			wantOwed(t, pool, "owes", 2*time.Hour)
			wantOwed(t, pool, "pays", pays)
			if before == "a fetch" {
				eventually(t, soon, "a token comes", func() bool {
					return len(own(t, store, 1)) > 0
				})
			}
			exec(t, pool, fmt.Sprintf(`UPDATE stint.key_rates SET
				full_at = full_at - $$%v$$::interval, wake_at = wake_at - $$%[1]v$$::interval,
				seen_at = seen_at - $$%[1]v$$::interval`, pays+2*time.Minute))
			wantFetch(t, store, 1, "pays/1")
			wantFetch(t, store, 1)
		})
	}
}
