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

// Check takes as long for each task however many hang together, and however old the statistics are.
// Of hash joins that the planner expects to be huge, the number of files counts, too.
// Proves G170.
func TestCheck_IsLinearWhateverHangsTogether(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	few := min(testrun.Rounds(2000), 800)
	many := 5 * few
	all := crowds()
	for _, name := range testrun.Some(slices.Sorted(maps.Keys(all))) {
		prepare := all[name]
		for _, old := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/old=%t", name, old), func(t *testing.T) {
				t.Parallel()
				wantLinear(t, costsOfCheck(t, prepare, few, old),
					costsOfCheck(t, prepare, many, old))
			})
		}
	}
}

func wantLinear(t *testing.T, few, many map[string]costOfCheck) {
	t.Helper()
	const batchesMax = 16
	for name, cost := range many {
		if cost.rows > 1.5*few[name].rows+1 || cost.batches > batchesMax {
			t.Errorf("%s looks at %.1f rows for each of few tasks, and %.1f for each of many, in "+
				"%.0f batches", name, few[name].rows, cost.rows, cost.batches)
		}
	}
}

// A costOfCheck is how many rows a statement of Check looks at for each task, and into how many
// files a hash join of it is cut.
type costOfCheck struct{ rows, batches float64 }

// costsOfCheck measures the statements of Check with n tasks: where the statistics are old, or else
// where there are none, and where they are new.
func costsOfCheck(
	t *testing.T, prepare func(*testing.T, *stint.Store, *pgxpool.Pool, int), n int, old bool,
) map[string]costOfCheck {
	t.Helper()
	costs := map[string]costOfCheck{}
	store, pool := newUncheckedStore(t, stint.Options{})
	measure := func(statistics string) {
		for statement, args := range map[string]string{
			"check_store": "1000", "check_parked": "1000", "unsettled_edges": "",
		} {
			plan := explained(t, pool, statement, args)
			costs[statement+" with "+statistics+" statistics"] = costOfCheck{
				plan.rows() / float64(n), plan.batches(),
			}
		}
	}
	if old {
		insert(t, store, after("old"), after("older", "old"), join("joined", "older"))
		ownOne(t, store)
		exec(t, pool, "ANALYZE")
	}
	prepare(t, store, pool, n)
	if old {
		measure("old")
		return costs
	}
	measure("no")
	exec(t, pool, "ANALYZE")
	measure("new")
	return costs
}

func insertBehindHub(t *testing.T, store *stint.Store, n int) {
	t.Helper()
	tasks := []stint.Task{after("hub")}
	for i := range n {
		tasks = append(tasks, after(stint.TaskID(fmt.Sprint(i)), "hub"))
	}
	insert(t, store, tasks...)
}

// ownAtOnce owns n tasks by one fetch.
func ownAtOnce(t *testing.T, store *stint.Store, n int) {
	t.Helper()
	owned, err := store.OwnTasks(t.Context(), "actor", n, []string{"act"}, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
	if len(owned) != n {
		t.Fatalf("OwnTasks = %d tasks, want %d", len(owned), n)
	}
}

// crowds are many tasks that have something to do with one.
func crowds() map[string]func(*testing.T, *stint.Store, *pgxpool.Pool, int) {
	return map[string]func(*testing.T, *stint.Store, *pgxpool.Pool, int){
		"dependents that wait": func(
			t *testing.T, store *stint.Store, _ *pgxpool.Pool, n int,
		) {
			t.Helper()
			insertBehindHub(t, store, n)
		},
		"dependents that are ready": func(
			t *testing.T, store *stint.Store, _ *pgxpool.Pool, n int,
		) {
			t.Helper()
			insertBehindHub(t, store, n)
			finish(t, store, "hub", stint.StatusCompleted)
		},
		"dependents that were aborted": func(
			t *testing.T, store *stint.Store, _ *pgxpool.Pool, n int,
		) {
			t.Helper()
			insertBehindHub(t, store, n)
			aborts("hub")(t, store)
		},
		"predecessors": func(t *testing.T, store *stint.Store, _ *pgxpool.Pool, n int) {
			t.Helper()
			tasks := numbered("t", n)
			insert(t, store, append(tasks, after("last", named(tasks)...))...)
		},
		"spans of a lease": func(t *testing.T, store *stint.Store, pool *pgxpool.Pool, n int) {
			t.Helper()
			tasks := numbered("t", n)
			for i := range tasks {
				tasks[i].Deadline = time.Now().Add(time.Hour) // so that each is a span
			}
			insert(t, store, tasks...)
			ownAtOnce(t, store, n)
			if spans := yields[int](t, pool, "SELECT count(*) FROM stint.leased"); spans < n {
				t.Errorf("%d spans are owned, want %d", spans, n)
			}
		},
		"tasks of a lease": func(t *testing.T, store *stint.Store, _ *pgxpool.Pool, n int) {
			t.Helper()
			insert(t, store, numbered("t", n)...)
			ownAtOnce(t, store, n)
		},
		"leases": func(t *testing.T, store *stint.Store, _ *pgxpool.Pool, n int) {
			t.Helper()
			insert(t, store, numbered("t", n)...)
			for range n {
				ownOne(t, store)
			}
		},
		"keys with slots, and parked keys": func(
			t *testing.T, store *stint.Store, _ *pgxpool.Pool, n int,
		) {
			t.Helper()
			tasks := append(numbered("t", n), numbered("u", n)...)
			for i := range tasks {
				tasks[i].Key = fmt.Sprint(i % n)
			}
			limits := stint.Limits{ConcurrencyPerKey: 1}
			wantErr(t, "SetLimits", store.SetLimits(t.Context(), "act", limits), nil)
			insert(t, store, tasks...)
			ownAtOnce(t, store, n)
		},
	}
}
