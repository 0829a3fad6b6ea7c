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

const triedAgain = "they are to be tried again"

// becomesReady are the ways in which tasks become ready: each is given twenty tasks of two keys
// that nobody has inserted yet.
var becomesReady = map[string]func(*testing.T, *stint.Store, *pgxpool.Pool, []stint.Task){
	"their time has come": func(
		t *testing.T, store *stint.Store, pool *pgxpool.Pool, tasks []stint.Task,
	) {
		t.Helper()
		for i := range tasks {
			tasks[i].NotBefore = time.Now().Add(time.Hour)
		}
		insert(t, store, tasks...)
		makeDue(t, pool)
		maintain(t, store)
	},
	"they are started": func(
		t *testing.T, store *stint.Store, _ *pgxpool.Pool, tasks []stint.Task,
	) {
		t.Helper()
		for i := range tasks {
			tasks[i].NotBefore = time.Now().Add(time.Hour)
		}
		insert(t, store, tasks...)
		_, err := store.ChangeTasks(t.Context(), named(tasks), stint.TaskChanges{StartNow: true})
		wantErr(t, "ChangeTasks", err, nil)
	},
	"what they waited for has completed": func(
		t *testing.T, store *stint.Store, _ *pgxpool.Pool, tasks []stint.Task,
	) {
		t.Helper()
		for i := range tasks {
			tasks[i].After = []stint.TaskID{"first"}
		}
		first := stint.Task{ID: "first", Action: "other"}
		insert(t, store, append([]stint.Task{first}, tasks...)...)
		owned, err := store.OwnTasks(t.Context(), "actor", 1, []string{"other"}, time.Hour)
		wantErr(t, "OwnTasks", err, nil)
		complete(t, store, owned...)
	},
	triedAgain: func(
		t *testing.T, store *stint.Store, _ *pgxpool.Pool, tasks []stint.Task,
	) {
		t.Helper()
		insert(t, store, tasks...)
		for owned := own(t, store, 3); len(owned) > 0; owned = own(t, store, 3) {
			for _, task := range owned {
				returnWith(t, store, task, stint.Return{
					Code: stint.StatusPending, RetryAfter: time.Hour,
				})
			}
		}
		_, err := store.ChangeTasks(t.Context(), named(tasks), stint.TaskChanges{StartNow: true})
		wantErr(t, "ChangeTasks", err, nil)
	},
	"their lease has expired": func(
		t *testing.T, store *stint.Store, pool *pgxpool.Pool, tasks []stint.Task,
	) {
		t.Helper()
		insert(t, store, tasks...)
		own(t, store, len(tasks))
		expireLeases(t, pool)
		maintain(t, store)
		completeAll(t, store) // of the others, if limits have kept them from their owner
		_, err := store.RetryTasks(t.Context(), named(tasks))
		wantErr(t, "RetryTasks", err, nil)
	},
}

// When a task became ready goes with it to its end, through all splits, limits and turns, and so
// does when its last owner was given it.
// Proves G343.
func TestTasks_KeepWhenTheyBecameReadyAndWereFetched(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]stint.Limits{
		"no limits": {}, "a limit": {Concurrency: 100}, "a limit per key": {ConcurrencyPerKey: 2},
		"turns": {Fair: true}, "turns under a limit": {Fair: true, ConcurrencyPerKey: 2},
		"turns in a group": {Fair: true, FairGroup: "group"}, "order": {Ordered: true},
	} {
		for _, how := range testrun.Some(slices.Sorted(maps.Keys(becomesReady))) {
			become := becomesReady[how]
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				store, pool := newStoreAndPool(t, stint.Options{})
				if name != "no limits" {
					wantErr(t, "SetLimits", store.SetLimits(t.Context(), "act", limits), nil)
				}
				tasks := numbered("task", 20)
				for i := range tasks {
					tasks[i].Key = fmt.Sprint("key", i%2)
				}
				begun := yields[time.Time](t, pool, "SELECT clock_timestamp() - interval '2 s'")
				become(t, store, pool, tasks)
				exec(t, pool, "UPDATE stint.tasks SET inserted_at = inserted_at - interval '1 h'")
				want := len(tasks)
				if limits.Ordered && how == triedAgain {
					want = 2 // the first of each key, for which the others have waited
				}
				wantFetched(t, store, pool, begun, want)
			})
		}
	}
}

// wantFetched completes what is ready, three tasks at a time, and checks of how many the end says
// that they became ready, and were fetched, since begun.
func wantFetched(
	t *testing.T, store *stint.Store, pool *pgxpool.Pool, begun time.Time, want int,
) {
	t.Helper()
	became := yields[time.Time](t, pool, "SELECT clock_timestamp()")
	var last stint.OwnedTask
	for owned := own(t, store, 3); len(owned) > 0; owned = own(t, store, 3) {
		complete(t, store, owned...)
		last = owned[0]
	}
	if got := yields[int](t, pool, `SELECT coalesce(sum(hi - lo + 1), 0)::integer
		FROM stint.finished
		WHERE actor = 'actor' AND ready_at BETWEEN $1 AND $2
		  AND owned_at BETWEEN ready_at AND finished_at
		  AND lo IN (SELECT key FROM stint.tasks WHERE action = 'act')`,
		begun, became); got != want {
		t.Errorf("%d of the tasks say when they became ready and were fetched, want %d", got, want)
	}
	if got := info(t, store, last.ID); got.OwnedAt.Before(begun) ||
		got.OwnedAt.After(got.FinishedAt) {
		t.Errorf("the last task was fetched at %v and has finished at %v", got.OwnedAt,
			got.FinishedAt)
	}
}

// The time that a task has been ready does not begin with its insertion.
// Proves G343.
func TestStats_SayHowLongTasksHaveBeenReady(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{
		ID: "later", Action: "act", NotBefore: time.Now().Add(time.Hour),
	})
	exec(t, pool, "UPDATE stint.tasks SET inserted_at = inserted_at - interval '1 day'")
	exec(t, pool, `UPDATE stint.scheduled
		SET not_before = statement_timestamp() - interval '1 min'`)
	maintain(t, store)
	stats, err := store.Stats(t.Context())
	wantErr(t, "Stats", err, nil)
	if got := stats.Actions[0].OldestReady; got < time.Minute || got > time.Hour {
		t.Errorf("a task that became ready a minute ago is ready for %v", got)
	}
}
