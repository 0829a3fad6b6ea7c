package taskstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/taskstore"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// Two clients.
const ann, bob = 1643, 1532

// soon is how long tests wait for what must come: much longer than it takes on the busiest machine.
const soon = 2 * time.Minute

// minute is a time from now.
const minute = -60_000

func newStore(tb testing.TB) (*taskstore.Store, *pgxpool.Pool) {
	tb.Helper()
	pool := testdb.New(tb)
	return openStore(tb, pool, taskstore.Options{}), pool
}

func openStore(tb testing.TB, pool *pgxpool.Pool, opts taskstore.Options) *taskstore.Store {
	tb.Helper()
	store, err := taskstore.New(pool, opts)
	wantErr(tb, "New", err, nil)
	return store
}

// poolOf returns another pool on the database of a pool.
func poolOf(tb testing.TB, pool *pgxpool.Pool, change func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	config := pool.Config()
	change(config)
	other, err := pgxpool.NewWithConfig(tb.Context(), config)
	wantErr(tb, "NewWithConfig", err, nil)
	tb.Cleanup(other.Close)
	return other
}

func exec(tb testing.TB, pool *pgxpool.Pool, statement string, args ...any) {
	tb.Helper()
	if _, err := pool.Exec(tb.Context(), statement, args...); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

// yields reports what a query that returns one value yields.
func yields[T any](tb testing.TB, pool *pgxpool.Pool, statement string, args ...any) T {
	tb.Helper()
	var value T
	if err := pool.QueryRow(tb.Context(), statement, args...).Scan(&value); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
	return value
}

func wantErr(tb testing.TB, what string, err, want error) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Fatalf("%s = %v, want %v", what, err, want)
	}
}

// wantConflict checks that a call failed because of these tasks and no others.
func wantConflict(tb testing.TB, err error, want taskstore.ConflictError) {
	tb.Helper()
	var got *taskstore.ConflictError
	if !errors.As(err, &got) || !errors.Is(err, taskstore.ErrConflict) {
		tb.Fatalf("the call = %v, want a conflict: %v", err, &want)
	}
	if !slices.Equal(got.Changes, want.Changes) || !slices.Equal(got.Deletes, want.Deletes) ||
		!slices.Equal(got.Depends, want.Depends) || !slices.Equal(got.Owned, want.Owned) {
		tb.Errorf("the conflict is %+v, want %+v", *got, want)
	}
}

func update(tb testing.TB, store *taskstore.Store, r taskstore.Request) []taskstore.Task {
	tb.Helper()
	tasks, err := store.Update(tb.Context(), r)
	wantErr(tb, "Update", err, nil)
	return tasks
}

// add adds a task for each text, which are available.
func add(
	tb testing.TB, store *taskstore.Store, group string, data ...string,
) []taskstore.Task {
	tb.Helper()
	r := taskstore.Request{Client: ann}
	for _, text := range data {
		r.Adds = append(r.Adds, taskstore.Add{Group: group, Data: []byte(text)})
	}
	return update(tb, store, r)
}

func claim(
	tb testing.TB, store *taskstore.Store, client int64, group string,
) (taskstore.Task, bool) {
	tb.Helper()
	task, found, err := store.Claim(tb.Context(), taskstore.Claim{
		Client: client, Group: group, Duration: time.Hour,
	})
	wantErr(tb, "Claim", err, nil)
	return task, found
}

func mustClaim(tb testing.TB, store *taskstore.Store, client int64, group string) taskstore.Task {
	tb.Helper()
	task, found := claim(tb, store, client, group)
	if !found {
		tb.Fatalf("there is nothing to claim in %q", group)
	}
	return task
}

// expire lets the ownership of all tasks expire.
func expire(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	exec(tb, pool, "UPDATE stint.taskstore_tasks SET available = available - 100000000")
}

// wantData checks which tasks a group has, owned or not, by their data, in the order of their IDs.
func wantData(tb testing.TB, store *taskstore.Store, group string, want ...string) {
	tb.Helper()
	tasks, err := store.Group(tb.Context(), group, 0, true)
	wantErr(tb, "Group", err, nil)
	got := []string{}
	for _, task := range tasks {
		got = append(got, string(task.Data))
	}
	if !slices.Equal(got, want) {
		tb.Errorf("group %q has %q, want %q", group, got, want)
	}
}

func idsOf(tasks []taskstore.Task) []int64 {
	ids := make([]int64, len(tasks))
	for i, task := range tasks {
		ids[i] = task.ID
	}
	return ids
}

// now is the time on the clock of the database, in milliseconds since the Epoch.
func now(tb testing.TB, pool *pgxpool.Pool) int64 {
	tb.Helper()
	return yields[int64](tb, pool,
		"SELECT floor(date_part('epoch', clock_timestamp()) * 1000)::bigint")
}

// begin begins a transaction that is rolled back at the end of the test at the latest.
func begin(tb testing.TB, pool *pgxpool.Pool) pgx.Tx {
	tb.Helper()
	tx, err := pool.Begin(tb.Context())
	wantErr(tb, "Begin", err, nil)
	tb.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(tb.Context())) })
	return tx
}

// awaitBlocked waits until so many sessions wait for locks.
func awaitBlocked(tb testing.TB, pool *pgxpool.Pool, sessions int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), soon)
	defer cancel()
	for {
		var blocked int
		err := pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&blocked)
		if err != nil {
			tb.Fatalf("%d sessions do not come to wait: %v", sessions, err)
		}
		if blocked >= sessions {
			return
		}
	}
}

// texts are numbered.
func texts(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(i)
	}
	return all
}

// errOf is the error of a call that returns something else, too.
func errOf[T any](_ T, err error) error { return err }

func readAll(response *http.Response) (string, error) {
	text, err := io.ReadAll(response.Body)
	return string(text), errors.Join(err, response.Body.Close())
}
