package stint_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// An interposer lets something happen ahead of a statement, once.
type interposer struct {
	spy

	name string
	do   func()
	once sync.Once
}

func (i *interposer) TraceBatchStart(
	ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData,
) context.Context {
	for _, queued := range data.Batch.QueuedQueries {
		if strings.HasPrefix(queued.SQL, "-- name: "+i.name+"\n") {
			i.once.Do(func() { // a goroutine of its own may end early
				var doing sync.WaitGroup
				doing.Go(i.do)
				doing.Wait()
			})
		}
	}
	return ctx
}

// interpose returns a store for which something happens ahead of a statement.
func interpose(tb testing.TB, pool *pgxpool.Pool, name string, do func()) *stint.Store {
	tb.Helper()
	done := false
	i := &interposer{name: name, do: func() { done = true; do() }}
	i.counts = map[string]int{}
	tb.Cleanup(func() {
		if !done {
			tb.Errorf("nothing happened ahead of %s", name)
		}
	})
	return openStore(tb, poolOf(tb, pool, func(config *pgxpool.Config) {
		config.ConnConfig.Tracer = i
	}), stint.Options{Maintenance: stint.MaintainNever})
}

// failFastMeanwhile is what may happen to a task that only an aborted one needs, between the look
// that finds it and its abort, so that it is not aborted.
var failFastMeanwhile = map[string]func(*testing.T, *stint.Store){
	"replaced": func(t *testing.T, store *stint.Store) {
		t.Helper()
		task := stint.Task{ID: "other", Action: "other"}
		wantErr(t, "ReplaceTasks", store.ReplaceTasks(t.Context(), []stint.Task{task}), nil)
	},
	"debounced": func(t *testing.T, store *stint.Store) {
		t.Helper()
		task := stint.Task{ID: "other", Action: "other"}
		wantErr(t, "Debounce", store.Debounce(t.Context(), task, time.Hour, time.Hour), nil)
	},
	"deleted, and inserted": func(t *testing.T, store *stint.Store) {
		t.Helper()
		wantErr(t, "Delete", errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"other"})), nil)
		insert(t, store, stint.Task{ID: "other", Action: "other"})
	},
	"pruned, and inserted": func(t *testing.T, store *stint.Store) {
		t.Helper()
		owned, err := store.OwnTasks(t.Context(), "actor", 1, []string{"other"}, time.Hour)
		wantErr(t, "OwnTasks", err, nil)
		complete(t, store, owned...)
		wantErr(t, "Delete", errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"end"})), nil)
		wantErr(t, "Prune", errOf(store.Prune(t.Context())), nil)
		insert(t, store, stint.Task{ID: "other", Action: "other"})
	},
	"inserted again, of a network that is new": func(t *testing.T, store *stint.Store) {
		t.Helper()
		ids := []stint.TaskID{"bad", "other", "end"}
		wantErr(t, "Delete", errOf(store.DeleteTasks(t.Context(), ids)), nil)
		insertFastThree(t, store)
	},
	"replaced together with the others": func(t *testing.T, store *stint.Store) {
		t.Helper()
		err := store.ReplaceTasks(t.Context(), []stint.Task{
			{ID: "bad", Action: "act"},
			{ID: "other", Action: "other"},
			failFast("end", "bad", "other"),
		})
		wantErr(t, "ReplaceTasks", err, nil)
	},
	"needed by the failed task, which is retried": func(t *testing.T, store *stint.Store) {
		t.Helper()
		retry(t, store, "bad")
		wantState(t, store, stint.StateBlocked, "end")
	},
	"needed by what replaces the failed task": func(t *testing.T, store *stint.Store) {
		t.Helper()
		err := store.ReplaceTasks(t.Context(), []stint.Task{after("end", "other")})
		wantErr(t, "ReplaceTasks", err, nil)
	},
	"behind a failed task that is replaced": func(t *testing.T, store *stint.Store) {
		t.Helper()
		err := store.ReplaceTasks(t.Context(), []stint.Task{failFast("end")})
		wantErr(t, "ReplaceTasks", err, nil)
	},
	"behind a failed task that is deleted": func(t *testing.T, store *stint.Store) {
		t.Helper()
		wantErr(t, "Delete", errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"end"})), nil)
	},
	"needed by a dependent that is inserted": func(t *testing.T, store *stint.Store) {
		t.Helper()
		insert(t, store, after("late", "other"))
	},
	"needed by a dependent that is added": func(t *testing.T, store *stint.Store) {
		t.Helper()
		insert(t, store, stint.Task{ID: "late", Action: "late"})
		wantErr(t, "AddDependencies", addDependency(t, store, "other", "late"), nil)
	},
}

// Whatever happens between the look and the abort, only the very task that was found is aborted,
// and only if it still is needless: neither a task that took its ID, nor one that somebody needs.
// Proves G68.
func TestFailFast_AbortsOnlyTheTasksThatItFound(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, what := range testrun.Some(slices.Sorted(maps.Keys(failFastMeanwhile))) {
		happens := failFastMeanwhile[what]
		for _, ahead := range []string{"hold_failed", "split_ready"} {
			t.Run(what+", ahead of "+ahead, func(t *testing.T) {
				t.Parallel()
				store, pool := newStoreAndPool(t, stint.Options{
					Maintenance: stint.MaintainNever,
					Retention:   stint.Retention{Completed: stint.KeepNone},
				})
				insertFastThree(t, store)
				finish(t, store, "bad", stint.StatusAborted)
				racing := interpose(t, pool, ahead, func() { happens(t, store) })
				wantErr(t, "FailFastLook", failFastLook(t.Context(), racing), nil)
				if got := info(t, store, "other"); got.Status != "" || got.AbortCause != "" {
					t.Errorf("other was aborted: %s", got.Status)
				}
				maintain(t, store)
				if got := info(t, store, "other"); got.Status != "" || got.AbortCause != "" {
					t.Errorf("other was aborted later: %s", got.Status)
				}
			})
		}
	}
}
