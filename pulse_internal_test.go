package stint

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testrun"
)

// asksNow asks the server for a value that does not matter.
func asksNow(ctx context.Context, s *Store) error {
	return s.run(ctx, step{name: "now", read: func(rows pgx.Rows) error {
		rows.Close()
		return rows.Err()
	}})
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
func TestTransact_GoesOnWhileTheProcessIsBusy(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store, err := New(pool, Options{Maintenance: MaintainNever})
	if err != nil {
		t.Fatal(err)
	}
	err = store.transact(t.Context(), func(s *Store) error {
		if err := asksNow(t.Context(), s); err != nil {
			return err
		}
		var began time.Time
		pid := s.tx.Conn().PgConn().PID()
		if err := pool.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&began); err != nil {
			return err
		}
		waitUntil(t, pool, `SELECT state_change > $2::timestamptz + interval '7 s'
			FROM (SELECT pg_sleep(0.1)) AS pause, pg_stat_activity WHERE pid = $1`, pid, began)
		return asksNow(t.Context(), s)
	})
	if err != nil {
		t.Errorf("transact = %v", err)
	}
}

// A process that does not go on, such as one that was stopped, is told why its verb failed.
func TestTransact_OfAStoppedProcessSaysWhichLimitEndedIt(t *testing.T) {
	t.Parallel()
	direct := testdb.New(t)
	config := direct.Config()
	config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "100ms"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := New(pool, Options{Maintenance: MaintainNever})
	if err != nil {
		t.Fatal(err)
	}
	err = store.transact(t.Context(), func(s *Store) error {
		s.pulse.end()
		waitUntil(t, direct, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)`,
			s.tx.Conn().PgConn().PID())
		s.pulse.used = s.pulse.used.Add(-5 * time.Second)
		return asksNow(t.Context(), s)
	})
	if !wasCutOff(err) || !strings.Contains(err.Error(), "idle_in_transaction_session_timeout") {
		t.Errorf("transact = %v", err)
	}
}
