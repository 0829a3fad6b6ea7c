//go:build unix

package upgrade_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// waitForTries waits until somebody has asked, given up and asked again for a lock that keeps all
// others from a table.
func waitForTries(ctx context.Context, pool *pgxpool.Pool, n int) error {
	for tries, asked := 0, false; tries < n; {
		var asks bool
		err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks
			WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND mode = 'AccessExclusiveLock' AND locktype = 'relation'
			AND NOT granted)`).Scan(&asks)
		if err != nil {
			return fmt.Errorf("after %d tries: %w", tries, err)
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
	return nil
}

// Proves G155.
func TestMigrate_LetsOthersWorkWhileItWaitsForALock(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.NewEmpty(t)
	old, latest := oldRelease(t, pool), newRelease(t, pool)
	old.must(t, "", "migrate")
	_, c := old.serve(t)
	s := side{c, t, "old"}
	s.insert(named("held ", "held", 1)...)

	// Somebody has left a transaction open, with a row of ready in his hands.
	holder, err := pool.Begin(t.Context())
	wantErr(t, "Begin", err, nil)
	defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
	var pid int
	err = holder.QueryRow(t.Context(), `SELECT pg_backend_pid()
		FROM stint.ready, set_config('application_name', 'coffee break', true)
		FOR UPDATE OF ready`).Scan(&pid)
	wantErr(t, "FOR UPDATE", err, nil)

	migrating := latest.start(t, nil, "migrate")
	ctx, cancel := context.WithTimeout(t.Context(), late)
	defer cancel()
	tried := make(chan error, 1)
	go func() { tried <- waitForTries(ctx, pool, 2) }()
	for calls, trying := 0, true; trying; calls++ {
		// These would not return if they had to wait until the transaction ends.
		s.insert(named(fmt.Sprintf("others %d/", calls), "act", 3)...)
		s.complete(s.own("act", 3, time.Hour)...)
		select {
		case err := <-tried:
			wantErr(t, "the wait for a second try", err, nil)
			trying = false
		default:
		}
	}
	migrating.says(fmt.Sprintf("waiting for process %d (coffee break), which holds a lock in a "+
		"transaction that began ", pid))
	wantVersion(t, pool, 1)
	wantErr(t, "Commit", holder.Commit(t.Context()), nil)
	migrating.wantExit(0)
	wantVersion(t, pool, migrations.Version())
	s.complete(s.own("held", 1, time.Hour)...)
	wantClean(t, openStore(t, pool), old)
}
