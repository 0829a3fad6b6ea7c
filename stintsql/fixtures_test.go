package stintsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/stintsql"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// A service is a store with a database of database/sql on the same pool.
type service struct {
	*stint.Store
	pool *pgxpool.Pool
	db   *sql.DB
}

func newService(t *testing.T, opts stint.Options) *service {
	t.Helper()
	return newServiceOn(t, testdb.New(t), opts)
}

func newServiceOn(t *testing.T, pool *pgxpool.Pool, opts stint.Options) *service {
	t.Helper()
	store, err := stint.New(pool, opts)
	wantErr(t, "New", err, nil)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		wantErr(t, "Close", errors.Join(db.Close(), store.Close(ctx)), nil)
	})
	return &service{store, pool, db}
}

// begin begins a transaction, which is rolled back unless the test ends it, and a store in it.
func (s *service) begin(t *testing.T) (*sql.Tx, *stint.Store) {
	t.Helper()
	tx, err := s.db.BeginTx(t.Context(), nil)
	wantErr(t, "BeginTx", err, nil)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx, s.WithTx(bind(t, tx))
}

func bind(t *testing.T, tx stintsql.Execer) pgx.Tx {
	t.Helper()
	bound, err := stintsql.PgxTx(t.Context(), tx)
	wantErr(t, "PgxTx", err, nil)
	return bound
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s = %v, want %v", what, err, want)
	}
}

func insert(t *testing.T, store *stint.Store, tasks ...stint.Task) {
	t.Helper()
	wantErr(t, "InsertTasks", store.InsertTasks(t.Context(), tasks), nil)
}

// numbered are tasks named prefix/0 and so on.
func numbered(prefix string, n int) []stint.Task {
	tasks := make([]stint.Task, n)
	for i := range tasks {
		tasks[i] = stint.Task{ID: stint.TaskID(fmt.Sprintf("%s/%d", prefix, i)), Action: "act"}
	}
	return tasks
}

func own(t *testing.T, store *stint.Store, n int, actions ...string) []stint.OwnedTask {
	t.Helper()
	owned, err := store.OwnTasks(t.Context(), "actor", n, actions, time.Hour)
	if err != nil || len(owned) != n {
		t.Fatalf("OwnTasks = %d tasks, %v, want %d", len(owned), err, n)
	}
	return owned
}

func stateOf(t *testing.T, store *stint.Store, id stint.TaskID) stint.State {
	t.Helper()
	infos, err := store.GetTasks(t.Context(), []stint.TaskID{id})
	wantErr(t, "GetTasks", err, nil)
	return infos[0].State
}

// count asks for a number in a transaction, or outside.
func count(t *testing.T, in interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, query string, args ...any,
) (n int) {
	t.Helper()
	wantErr(t, query, in.QueryRowContext(t.Context(), query, args...).Scan(&n), nil)
	return n
}

// eventually looks until something is so.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
