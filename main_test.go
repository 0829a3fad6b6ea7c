package stint_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(workerDatabase); url != "" {
		os.Exit(performAsWorker(url))
	}
	testdb.Main(m)
}

// newStore returns a store on a database of its own, maintained by nobody but the test.
func newStore(tb testing.TB) *stint.Store {
	tb.Helper()
	store, _ := newStoreAndPool(tb, stint.Options{})
	return store
}

func newStoreAndPool(tb testing.TB, opts stint.Options) (*stint.Store, *pgxpool.Pool) {
	tb.Helper()
	store, pool := newUncheckedStore(tb, opts)
	tb.Cleanup(func() { checkStore(tb, pool) })
	return store, pool
}

// newUncheckedStore is for tests that write into the tables what cannot be.
func newUncheckedStore(tb testing.TB, opts stint.Options) (*stint.Store, *pgxpool.Pool) {
	tb.Helper()
	pool := testdb.New(tb)
	opts.Maintenance = stint.MaintainNever
	store, err := stint.New(pool, opts)
	if err != nil {
		tb.Fatalf("New = %v", err)
	}
	tb.Cleanup(func() {
		wantErr(tb, "Close", store.Close(context.WithoutCancel(tb.Context())), nil)
	})
	return store, pool
}

// checkStore looks at the end of a test whether the tables agree with one another.
func checkStore(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		tb.Errorf("New = %v", err)
		return
	}
	found, err := store.Check(context.WithoutCancel(tb.Context()))
	if err != nil {
		tb.Errorf("Check = %v", err)
	}
	for _, inconsistency := range found {
		tb.Error(inconsistency)
	}
}

func insert(tb testing.TB, store *stint.Store, tasks ...stint.Task) {
	tb.Helper()
	if err := store.InsertTasks(tb.Context(), tasks); err != nil {
		tb.Fatalf("InsertTasks = %v", err)
	}
}

// own owns up to n tasks with action "act" for an hour.
func own(tb testing.TB, store *stint.Store, n int) []stint.OwnedTask {
	tb.Helper()
	owned, err := store.OwnTasks(tb.Context(), "actor", n, []string{"act"}, time.Hour)
	if err != nil {
		tb.Fatalf("OwnTasks = %v", err)
	}
	return owned
}

func ownOne(tb testing.TB, store *stint.Store) stint.OwnedTask {
	tb.Helper()
	owned := own(tb, store, 1)
	if len(owned) != 1 {
		tb.Fatalf("OwnTasks gave %d tasks, want 1", len(owned))
	}
	return owned[0]
}

func info(tb testing.TB, store *stint.Store, id stint.TaskID) stint.TaskInfo {
	tb.Helper()
	infos, err := store.GetTasks(tb.Context(), []stint.TaskID{id})
	if err != nil {
		tb.Fatalf("GetTasks = %v", err)
	}
	return infos[0]
}

func maintain(tb testing.TB, store *stint.Store) {
	tb.Helper()
	if err := store.Maintain(tb.Context()); err != nil {
		tb.Fatalf("Maintain = %v", err)
	}
}

func exec(tb testing.TB, pool *pgxpool.Pool, statement string, args ...any) {
	tb.Helper()
	if _, err := pool.Exec(tb.Context(), statement, args...); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

func wantErr(tb testing.TB, call string, got, want error) {
	tb.Helper()
	if !errors.Is(got, want) {
		tb.Fatalf("%s = %v, want %v", call, got, want)
	}
}

// wantTasks checks that err is about these tasks.
func wantTasks(tb testing.TB, call string, err, want error, ids ...stint.TaskID) {
	tb.Helper()
	wantErr(tb, call, err, want)
	var about *stint.TaskError
	if !errors.As(err, &about) {
		tb.Fatalf("%s = %T, want a TaskError", call, err)
	}
	if !slices.Equal(about.IDs, ids) {
		tb.Fatalf("%s is about %q, want %q", call, about.IDs, ids)
	}
}

func idsOf(owned []stint.OwnedTask) []stint.TaskID {
	ids := make([]stint.TaskID, len(owned))
	for i := range owned {
		ids[i] = owned[i].ID
	}
	return ids
}
