package pgcut_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

const locksOnKept = `SELECT count(*) FROM pg_locks
	WHERE pid = $1 AND relation = 'kept'::regclass AND granted`

// At each stop all statements ahead of it are executed, and none behind it.
func TestStepper_StopsAheadOfEachStatementOfABatch(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	proxy, through, direct := newProxy(t)
	stepper := proxy.Step(func(statement string) bool {
		return strings.HasPrefix(statement, "INSERT") || statement == "COMMIT"
	})
	done := make(chan error, 1)
	go func() {
		batch := &pgx.Batch{}
		batch.Queue("BEGIN")
		batch.Queue("INSERT INTO kept VALUES ($1)", 1)
		batch.Queue("COMMIT")
		done <- through.SendBatch(t.Context(), batch).Close()
	}()
	for _, want := range []struct {
		prefix      string
		locks, rows int
	}{{"INSERT", 0, 0}, {"COMMIT", 1, 0}} {
		stop := <-stepper.Stops()
		if !strings.HasPrefix(stop.Statement, want.prefix) {
			t.Fatalf("stopped ahead of %q, want %s", stop.Statement, want.prefix)
		}
		if n := count(t, direct, locksOnKept, stop.PID); n != want.locks {
			t.Errorf("ahead of %s the session has %d locks, want %d", want.prefix, n, want.locks)
		}
		if n := count(t, direct, "SELECT count(*) FROM kept"); n != want.rows {
			t.Errorf("ahead of %s there are %d rows, want %d", want.prefix, n, want.rows)
		}
		stop.Release()
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := count(t, direct, "SELECT count(*) FROM kept"); n != 1 {
		t.Errorf("there are %d rows, want 1", n)
	}
}

// The server skips what comes behind a statement that fails, so there is nothing to stop ahead of.
func TestStepper_PassesWhatIsBehindAFailure(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	proxy, through, _ := newProxy(t)
	stepper := proxy.Step(func(statement string) bool { return statement != "ROLLBACK" })
	done := make(chan error, 1)
	go func() {
		batch := &pgx.Batch{}
		batch.Queue("SELECT 1 / $1::integer", 0)
		batch.Queue("INSERT INTO kept VALUES ($1)", 1)
		done <- through.SendBatch(t.Context(), batch).Close()
	}()
	stop := <-stepper.Stops()
	stop.Release()
	select {
	case err := <-done:
		if err == nil {
			t.Error("the batch has not failed")
		}
	case stop := <-stepper.Stops():
		t.Errorf("stopped ahead of %q", stop.Statement)
		stop.Release()
	}
	stepper.End()
	if _, err := through.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Errorf("behind the end of the stepper: %v", err)
	}
}

func TestProxy_ChangesWhatIsPrepared(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	proxy, through, _ := newProxy(t)
	proxy.Change(func(statement string) string {
		return strings.Replace(statement, "+ 1", "+ 2", 1)
	})
	if n := count(t, through, "SELECT $1::integer + 1", 1); n != 3 {
		t.Errorf("the server has answered %d, want 3", n)
	}
}
