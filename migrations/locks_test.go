package migrations_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// goBack goes one version back, which takes locks on the tables, until ctx ends.
func goBack(ctx context.Context, pool *pgxpool.Pool) error {
	return pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return migrations.MigrateTo(ctx, conn.Conn(), "stint", migrations.Version()-1)
	})
}

func TestMigrateTo_TriesAgainUntilNobodyHoldsALockOrTheContextEnds(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	holder, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := holder.Exec(t.Context(), "SELECT FROM stint.ready FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- goBack(ctx, pool) }()
	awaitTries(t, pool, 2)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("MigrateTo = %v, want context.Canceled", err)
	}
	if got := currentVersion(t, pool, "stint"); got != migrations.Version() {
		t.Errorf("the schema is at version %d, want %d", got, migrations.Version())
	}

	go func() { ended <- goBack(t.Context(), pool) }()
	awaitTries(t, pool, 1)
	if err := holder.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("MigrateTo = %v", err)
	}
	if got := currentVersion(t, pool, "stint"); got != migrations.Version()-1 {
		t.Errorf("the schema is at version %d, want %d", got, migrations.Version()-1)
	}
}

// awaitTries waits until somebody has asked, given up and asked again for a lock that keeps all
// others from a table.
func awaitTries(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	await(t, pool, n, "relation")
}

// await is awaitTries for exclusive locks of a type.
func await(t *testing.T, pool *pgxpool.Pool, n int, locktype string) {
	t.Helper()
	const late = 2 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), late)
	defer cancel()
	for tries, asked := 0, false; tries < n; {
		var asks bool
		err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks
			WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND mode IN ('AccessExclusiveLock', 'ExclusiveLock') AND locktype = $1
			AND NOT granted)`, locktype).Scan(&asks)
		if err != nil {
			t.Fatalf("after %d tries the migrator tries no more: %v", tries, err)
		}
		if asks && !asked {
			tries++
		}
		asked = asks
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}
