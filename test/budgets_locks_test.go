package stint_test

import (
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A fetch that charges what a task costs never waits for turns, which whoever unparks tasks locks
// ahead of buckets, nor does what settles lock turns ahead of the action, as fetches do.
// Proves G342.
func TestBudgets_LockInOneOrder(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	limits := stint.Limits{
		Rate: anHour, RatePerKey: anHour, Fair: true, ByCost: true,
	}
	for name, locks := range map[string]struct{ first, second string }{
		"unparking": {
			`SELECT FROM stint.turns FOR UPDATE`,
			`SELECT FROM stint.key_rates FOR UPDATE`,
		},
		"fetching": {
			`SELECT FROM stint.limits FOR UPDATE`,
			`SELECT FROM stint.turns FOR UPDATE`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newLimitedStore(t, limits)
			insert(t, store, costing("t", "k", 30, 30, 30)...)
			owned := wantFetch(t, store, 1, "t/0")
			if name == "fetching" {
				spend(t, store, owned[0], 10)
			} else { // the turn of the next one comes, and it is not fetched
				exec(t, pool, `UPDATE stint.limits SET tokens = 0`)
				wantFetch(t, store, 1)
				exec(t, pool, `UPDATE stint.limits SET tokens = 50`)
			}
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(t.Context()) }()
			if _, err := tx.Exec(t.Context(), locks.first); err != nil {
				t.Fatal(err)
			}
			fetched := start(func() ([]stint.OwnedTask, error) {
				return store.OwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour)
			})
			if name == "fetching" {
				waitForLocks(t, pool, 1)
			} else if got, err := ends(t, "OwnTasks", fetched); err != nil || len(got) != 1 {
				t.Errorf("OwnTasks = %v, %v", got, err)
			}
			if _, err := tx.Exec(t.Context(), locks.second); err != nil {
				t.Errorf("the second lock: %v", err)
			}
			wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
			if n := testdb.Deadlocks(t, pool); n > 0 {
				t.Errorf("%d deadlocks", n)
			}
		})
	}
}
