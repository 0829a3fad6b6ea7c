package stint_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"

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
