package stint_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
)

// wantFullIn checks after which time the bucket of a key is full, as it was at an instant.
func wantFullIn(
	tb testing.TB, pool *pgxpool.Pool, key string, want time.Duration, began time.Time,
) {
	tb.Helper()
	got := yields[time.Duration](tb, pool, `SELECT full_at - clock_timestamp()
		FROM stint.key_rates WHERE limit_key = $1`, key)
	if got > want+time.Second || got < want-time.Since(began)-time.Second {
		tb.Errorf("the bucket of %s is full in %v, want %v", key, got, want)
	}
}

// What the keys owe since a clock that was ahead has seen their buckets full comes as much earlier
// when it was put back: nothing else tells such a bucket from one that owes a lot. One that owes a
// lot goes on doing so, also if more is taken from it.
// Proves G300, G342.
func TestBudgets_AfterTheClockWasAhead(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	for _, before := range []string{"nothing", "a fetch", "settlements"} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			store, pool := newLimitedStore(t, stint.Limits{RatePerKey: anHour, ByCost: true})
			began := time.Now()
			full := map[string]time.Duration{"owes": 180 * minute, "pays": 90 * minute}
			owned := map[stint.TaskID]stint.OwnedTask{}
			for key, in := range full {
				insert(t, store, costing(key, key, int(in/minute)*100/60, 1)...)
				task := wantFetch(t, store, 10, stint.TaskID(key+"/0"))[0]
				owned[task.ID] = task
			}
			full["has"], full["was"] = 6*minute, 0
			insert(t, store, costing("has", "has", 10)...)
			wantFetch(t, store, 10, "has/0")
			wantFetch(t, store, 10)
			exec(t, pool, `INSERT INTO stint.key_rates (action, limit_key, full_at)
				VALUES ('act', 'was', statement_timestamp())`)
			exec(t, pool, `UPDATE stint.key_rates SET full_at = full_at + interval '40 min',
				wake_at = wake_at + interval '40 min', seen_at = seen_at + interval '40 min'
				WHERE limit_key <> 'owes'`)
			switch before {
			case "a fetch":
				insert(t, store, costing("more", "has", 10)...)
				wantFetch(t, store, 10, "more/0")
				full["has"] += 6 * minute
			case "settlements":
				for _, key := range []string{"owes", "pays"} {
					task := owned[stint.TaskID(key+"/0")]
					spend(t, store, task, int(full[key]/minute)*100/60+50)
					full[key] += 30 * minute
				}
				wantFetch(t, store, 10)
			}
			wantErr(t, "Maintain", store.Maintain(t.Context()), nil)
			wantErr(t, "Maintain", store.Maintain(t.Context()), nil)
			delete(full, "was")
			for key, in := range full {
				wantFullIn(t, pool, key, in, began)
			}
			if yields[bool](t, pool, "SELECT bool_or(seen_at > now()) FROM stint.key_rates") {
				t.Error("a bucket was seen to be full in the future")
			}
			exec(t, pool, fmt.Sprintf(`UPDATE stint.key_rates SET
				full_at = full_at - $$%v$$::interval, wake_at = wake_at - $$%[1]v$$::interval`,
				full["pays"]-58*minute))
			wantFetch(t, store, 1, "pays/1")
			wantFetch(t, store, 1)
		})
	}
}

// A bucket of which tasks were taken before costs counted, or at another rate, is not one that a
// clock has written.
// Proves G342.
func TestBudgets_KeepWhatWasTakenBefore(t *testing.T) {
	t.Parallel()
	limits := stint.Limits{RatePerKey: anHour}
	store, pool := newLimitedStore(t, limits)
	began := time.Now()
	insert(t, store, costing("t", "k", make([]int, 50)...)...)
	own(t, store, 50)
	limits.ByCost = true
	for _, tasks := range []int{100, 120} {
		limits.RatePerKey.Tasks = tasks
		setLimits(t, store, limits)
		wantErr(t, "Maintain", store.Maintain(t.Context()), nil)
		wantFullIn(t, pool, "k", 30*time.Minute, began)
	}
}
