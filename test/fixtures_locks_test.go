package stint_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
)

// begin opens a transaction that is rolled back at the end of the test, unless it has ended.
func begin(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

// strictLevels are the isolation levels at which a transaction keeps its first snapshot.
var strictLevels = []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable}

// beginStrict begins a transaction and takes its snapshot.
func beginStrict(t *testing.T, pool *pgxpool.Pool, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	wantErr(t, "BeginTx", err, nil)
	t.Cleanup(func() { _ = tx.Rollback(t.Context()) })
	_, err = tx.Exec(t.Context(), "SELECT FROM stint.tasks LIMIT 1")
	wantErr(t, "SELECT", err, nil)
	return tx
}

// lockBlocked locks the row of a blocked task until tx ends.
func lockBlocked(t *testing.T, tx pgx.Tx, id stint.TaskID) {
	t.Helper()
	tag, err := tx.Exec(t.Context(), `SELECT FROM stint.blocked JOIN stint.tasks USING (key)
		WHERE id = $1 FOR UPDATE OF blocked`, id)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("lock %q: %d rows, %v", id, tag.RowsAffected(), err)
	}
}

// waitForLocks waits until so many sessions wait for a lock.
func waitForLocks(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("%d sessions wait for a lock", n), func() bool {
		return yields[int](t, pool, "SELECT count(*) FROM pg_stat_activity "+
			"WHERE datname = current_database() AND wait_event_type = 'Lock'") >= n
	})
}

// awaitWaiting waits until each of n calls waits for a lock, or has sent to done that it came
// through without.
func awaitWaiting(t *testing.T, pool *pgxpool.Pool, n int, done <-chan error) {
	t.Helper()
	for got := 0; got+len(done) < n; {
		err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&got)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// wantNoDeadlocks asks the server how many deadlocks it has resolved in the database of a test. A
// session tells what it counted when it ends at the latest, so all others are ended first.
func wantNoDeadlocks(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	ask := func(statement string) (n int) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), statement).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for ask("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()") > 1 {
		pool.Reset() // a store may have used it since
	}
	n := ask("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
	if n > 0 {
		t.Errorf("%d deadlocks", n)
	}
}
