package pg

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// open opens a DB whose schema has the version of the migrations.
func open(t *testing.T, pool *pgxpool.Pool) *DB {
	t.Helper()
	db, err := New(Config{
		Pool: pool, Schema: migrations.DefaultSchema,
		Version: migrations.Version(),
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return db
}

// ask sends a statement whose effect does not matter.
func ask(ctx context.Context, db *DB) error {
	return db.Run(ctx, Step{Name: "limit_waiting", NoPlanner: true})
}

// waitUntil waits until a query about a server process says true, from another connection.
func waitUntil(t *testing.T, pool *pgxpool.Pool, query string, args ...any) {
	t.Helper()
	for said := false; !said; {
		if err := pool.QueryRow(t.Context(), query, args...).Scan(&said); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
}

// However long a process prepares the next statement of a verb, its transaction goes on as long as
// the process does.
// Proves G5.
func TestTransact_GoesOnWhileTheProcessIsBusy(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	db := open(t, pool)
	err := db.Transact(t.Context(), func(db *DB) error {
		if err := ask(t.Context(), db); err != nil {
			return err
		}
		var began time.Time
		pid := db.tx.Conn().PgConn().PID()
		if err := pool.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&began); err != nil {
			return err
		}
		waitUntil(t, pool, `SELECT state_change > $2::timestamptz + interval '7 s'
			FROM (SELECT pg_sleep(0.1)) AS pause, pg_stat_activity WHERE pid = $1`, pid, began)
		return ask(t.Context(), db)
	})
	if err != nil {
		t.Errorf("transact = %v", err)
	}
}

// A process that does not go on, such as one that was stopped, is told why its verb failed.
// Proves G5.
func TestTransact_OfAStoppedProcessSaysWhichLimitEndedIt(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	direct := testdb.New(t)
	config := direct.Config()
	config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "100ms"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db := open(t, pool)
	err = db.Transact(t.Context(), func(db *DB) error {
		db.pulse.end()
		waitUntil(t, direct, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)`,
			db.tx.Conn().PgConn().PID())
		db.pulse.used = db.pulse.used.Add(-5 * time.Second)
		return ask(t.Context(), db)
	})
	if !WasCutOff(err) || !strings.Contains(err.Error(), "idle_in_transaction_session_timeout") {
		t.Errorf("transact = %v", err)
	}
}
