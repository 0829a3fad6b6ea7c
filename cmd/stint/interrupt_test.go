//go:build unix

package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestInsert_IsInterruptedWhileItReads(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	cmd := newCommand(t, db.env, "insert")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	inserting := start(t, cmd)
	// More than a pipe holds: when all is written, some of it was read.
	line := `{"action": "act", "body": "` + strings.Repeat("x", 1<<20) + "\"}\n"
	if _, err := io.WriteString(stdin, line); err != nil {
		t.Fatal(err)
	}
	inserting.interrupt(t)
	inserting.wantExit(t, 130)
	if got := db.ids(t); len(got) != 0 {
		t.Errorf("it inserted %q", got)
	}
}

// waitForWaiter waits until a command waits for a task.
func (d *database) waitForWaiter(t *testing.T) {
	t.Helper()
	eventually(t, "a command that waits", func() bool { return d.waiters(t) > 0 })
}

// waiters counts the commands that wait for a task, or, if they work on a service, have begun to.
func (d *database) waiters(t *testing.T) (n int) {
	t.Helper()
	if isRemote() {
		return int(d.waits.Load())
	}
	if err := d.pool.QueryRow(t.Context(), waitersQuery).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

const waitersQuery = `SELECT count(*) FROM pg_stat_activity
	WHERE datname = current_database() AND application_name = 'stint'
	AND state = 'idle' AND query = 'commit'`

func TestWait_IsInterruptedAndHandsNothingBack(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "slow", Action: "slow", PostResult: true})
	waiting := start(t, newCommand(t, db.env, "wait", "slow"))
	db.waitForWaiter(t)
	waiting.interrupt(t)
	waiting.wantExit(t, 130)
	db.run(t, "", "show", "slow").wantExit(t, 0).wantOutput(t, "ready")
}

// lockWanted reports whether a command waits for a lock.
func (d *database) lockWanted(t *testing.T) (wanted bool) {
	t.Helper()
	err := d.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'stint'
		AND wait_event_type = 'Lock')`).Scan(&wanted)
	if err != nil {
		t.Fatal(err)
	}
	return wanted
}

func (d *database) waitForLock(t *testing.T) {
	t.Helper()
	eventually(t, "a command that waits for a lock", func() bool { return d.lockWanted(t) })
}

// Proves G122.
func TestCommands_AreInterruptedWhileTheDatabaseIsBusy(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "act", PostResult: true},
		stint.Task{ID: "b", Action: "act", After: []stint.TaskID{"a"}},
		stint.Task{ID: "off", Action: "act"})
	db.run(t, "", "abort", "off").wantExit(t, 0)
	before := db.run(t, "", "ls", "--json").wantExit(t, 0).stdout
	for _, args := range linesOnDatabase(t) {
		tables := "NOT IN ('stint_schema_version', 'supported')" // all look at these first
		switch args[0] {
		case "demo", "worker", "serve", "ui": // one has a schema of its own, others end otherwise
			continue
		case "import": // waits for other tables: see importtest
			continue
		case "migrate":
			tables = "= 'stint_schema_version'"
		case "retry":
			args[1] = "off"
		}
		db.whileLocked(t, tables, func() {
			if args[0] == "top" {
				x := startOnTerminal(t, db.env, args...)
				db.waitForLock(t)
				x.press(t, "\x03")
				x.wantExit(t, 130)
			} else {
				cmd := newCommand(t, db.env, args...)
				cmd.Stdin = strings.NewReader(`{"action": "act"}`)
				busy := start(t, cmd)
				db.waitForLock(t)
				busy.interrupt(t)
				busy.wantExit(t, 130)
			}
			// Nor is it done by the server when the lock is gone.
			what := fmt.Sprintf("an end of %q on the server", args)
			eventually(t, what, func() bool { return !db.lockWanted(t) })
		})
	}
	if after := db.run(t, "", "ls", "--json").wantExit(t, 0).stdout; after != before {
		t.Errorf("the tasks were\n%s\nand are\n%s", before, after)
	}
}

func TestWorker_IsInterruptedWhileTheDatabaseIsBusy(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "act"})
	db.whileLocked(t, "IN ('ready', 'leases')", func() {
		dir := processes.Write(t, map[string]string{"act": ""})
		working := work(t, db.env, dir)
		db.waitForLock(t)
		working.end(t)
	})
	eventually(t, "no connection of the worker", func() bool {
		var n int
		err := db.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'stint'`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
	if got := db.get(t, "a"); got.State != stint.StateReady || got.Tries != 0 {
		t.Errorf("the task is %s with %d tries, want it ready", got.State, got.Tries)
	}
}

// awaitMoreOf waits until an application has been idle, and busy again, several times: it has read
// what it was answered, and asks further.
func (d *database) awaitMoreOf(t *testing.T, application string) {
	t.Helper()
	changes := map[string]bool{}
	eventually(t, "further questions of "+application, func() bool {
		var last string
		err := d.pool.QueryRow(t.Context(), `
			SELECT coalesce(max(state_change)::text, '') FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = $1`, application).Scan(&last)
		if err == nil {
			changes[last] = true
		}
		return len(changes) > 3 // one may be of what it did before
	})
}

// whileLocked does something while nobody can read those tables of the schema.
func (d *database) whileLocked(t *testing.T, tables string, do func()) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), d.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `DO $$ BEGIN EXECUTE (
			SELECT 'LOCK ' || string_agg(format('stint.%I', tablename), ', ')
			FROM pg_tables WHERE schemaname = 'stint' AND tablename `+tables+`); END $$`)
		if err == nil {
			do()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Whoever interrupts a command that waits for transactions hears that the limits are in force.
func TestLimit_IsInterruptedWhileATransactionIsOpen(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	err := pgx.BeginFunc(t.Context(), db.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "DELETE FROM stint.leased"); err != nil {
			return err
		}
		limiting := start(t, newCommand(t, db.env, "limit", "mail", "--concurrency", "1"))
		eventually(t, "a limit", func() bool {
			list, err := db.store.ListLimits(t.Context(), "mail")
			return err == nil && len(list) == 1
		})
		if !isRemote() {
			db.awaitMoreOf(t, "stint")
		}
		limiting.interrupt(t)
		limiting.wantExit(t, 130)
		// A service does not hear why it is called no more.
		said := limiting.output.String()
		if !isRemote() && !strings.Contains(said, "are in force") {
			t.Errorf("it said %q", said)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
