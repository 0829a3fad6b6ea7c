//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/cmd/stint/internal/demo"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// wantNoDemo checks that nothing of a demo is left: no process that has a connection, no schema.
func (d *database) wantNoDemo(t *testing.T) {
	t.Helper()
	eventually(t, "a database without a demo", func() bool {
		var connections, schemas int
		err := d.pool.QueryRow(t.Context(), `SELECT
			(SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'stint'),
			(SELECT count(*) FROM pg_namespace WHERE nspname = 'stint_demo')`).
			Scan(&connections, &schemas)
		if err != nil {
			t.Fatal(err)
		}
		return connections == 0 && schemas == 0
	})
}

// A demoEvent is one of --json.
type demoEvent struct {
	demo.Event
	Summary demo.Summary
}

func decodeDemo(t *testing.T, output io.Reader) []demoEvent {
	t.Helper()
	var events []demoEvent
	decoder := json.NewDecoder(output)
	for decoder.More() {
		var line json.RawMessage
		var event demoEvent
		err := decoder.Decode(&line)
		if err := errors.Join(err, json.Unmarshal(line, &event.Event),
			json.Unmarshal(line, &event.Summary)); err != nil {
			t.Fatal(err)
		}
		events = append(events, event)
	}
	return events
}

func TestDemo_EndsAsItShould(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := databaseOn(t, testdb.NewEmpty(t))
	elsewhere := []string{"STINT_TOPOLOGY=static:a=" + nowhere} // the flag wins, in both processes
	r := run(t, elsewhere, "", "demo", "--json", "--database-url", testdb.URL(db.pool)).
		wantExit(t, 0)
	if r.stderr != "" {
		t.Errorf("beside its story, the demo says\n%.500s", r.stderr)
	}
	db.wantNoDemo(t)
	events := decodeDemo(t, strings.NewReader(r.stdout))
	var told []demo.Kind
	pictures := 0
	for _, event := range events {
		switch event.Kind {
		case demo.KindProgress:
			pictures++
		case demo.KindHandedOn:
			const lease = 30 // seconds
			if event.After >= lease {
				t.Errorf("the tasks were handed on after %v s", event.After)
			}
			told = append(told, event.Kind)
		default:
			told = append(told, event.Kind)
		}
	}
	want := []demo.Kind{
		demo.KindInserted, demo.KindWorking, demo.KindFailed, demo.KindAborted, demo.KindKilled,
		demo.KindHandedOn, demo.KindPrinted, demo.KindSprinted, "summary",
	}
	if !slices.Equal(told, want) || pictures < 20 {
		t.Errorf("it told %q, and drew %d pictures; want %q", told, pictures, want)
	}
	sum := events[len(events)-1].Summary
	if !sum.OK || len(sum.Problems) > 0 || sum.Tasks != 2510 || sum.HandedOn == 0 ||
		sum.States["completed"] != 2457 || sum.States["aborted"] != 53 || sum.Photos != 2000 ||
		sum.Causes["cancelled"] != 1 || sum.Causes["dependency"] != 52 ||
		sum.Noticed > sum.Taken || sum.Noticed < 0.5 {
		t.Errorf("summary: %+v", sum)
	}
}

func TestDemo_OnTerminalsIsDrawn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := databaseOn(t, testdb.NewEmpty(t))
	got := onTerminal(t, db.env, "demo", "--keep")
	for _, part := range []string{
		"\x1b[32m█", "killed worker-2", "every task ended", "show --schema stint_demo book/bind",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("the terminal has no %q", part)
		}
	}
	if strings.Count(got, "\x1b[?25l") != 1 || strings.Count(got, "\x1b[?25h") == 0 {
		t.Error("the cursor was not hidden and shown again")
	}
	db.run(t, "", "show", "--schema", "stint_demo", "book/bind").wantExit(t, 0).
		wantOutput(t, "completed", "told of 2,402 completed and 52 aborted tasks")
	db.run(t, "", "ls", "--schema", "stint_demo", "--state", "in-progress").
		wantExit(t, 0, "no tasks")
}

func TestDemo_InterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := databaseOn(t, testdb.NewEmpty(t))
	playing := start(t, newCommand(t, db.env, "demo"))
	playing.says(t, "own tasks")
	db.run(t, "", "demo").wantExit(t, 6, "another stint demo")
	playing.interrupt(t)
	playing.wantExit(t, 130)
	db.wantNoDemo(t)
	if got := playing.output.String(); strings.Contains(got, "\x1b") {
		t.Errorf("it is coloured: %q", got)
	}
}

// Proves G122.
func TestDemo_InterruptedLeavesNoServer(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	env, dir := privateHome(t)
	playing := start(t, newCommand(t, env, "demo"))
	playing.says(t, "own tasks")
	playing.interrupt(t)
	playing.wantExit(t, 130)
	wantNoServer(t, dir)
}

func TestDemo_KilledTakesItsWorkerWithIt(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := databaseOn(t, testdb.NewEmpty(t))
	cmd := newCommand(t, db.env, "demo", "--json")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if strings.Contains(lines.Text(), `"working"`) {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	db.exec(t, "COMMENT ON SCHEMA stint_demo IS 'mine now'")
	db.run(t, "", "demo").wantExit(t, 6, "stint demo did not make", "--schema")
	db.exec(t, "COMMENT ON SCHEMA stint_demo IS 'made by: stint demo'")

	// Somebody who reads no further than the first line also ends it; and it drops what was left.
	cmd = newCommand(t, db.env, "demo", "--json")
	if stdout, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !bufio.NewScanner(stdout).Scan() {
		t.Error("no first line")
	}
	stdout.Close()
	_ = cmd.Wait() // the exit code says it all
	if got := cmd.ProcessState.ExitCode(); got != 141 {
		t.Errorf("exit code %d, want 141", got)
	}
	db.wantNoDemo(t)
}

func TestDemo_RefusesSchemasOfOthers(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	db.run(t, "", "demo", "--schema", "stint").wantExit(t, 6, `"stint"`, "did not make")
	db.run(t, "", "ls").wantExit(t, 0)
	db.run(t, "", "demo", "now").wantExit(t, 2)
}
