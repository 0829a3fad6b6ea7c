//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Each end comes once, in order, also to a call that goes on from the place that another one named.
//
// Proves G332.
func TestEnds_GoOnWhereAnotherCallEnded(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "mail/1", Action: "mail"}, stint.Task{ID: "scan/1", Action: "scan"},
		stint.Task{ID: "mail/2", Action: "mail"})
	s := db.serve(t)
	remote := func(args ...string) ran {
		return run(t, nil, "", append(args, "--server", s.address)...)
	}
	db.run(t, "", "ends").wantExit(t, 0)
	db.run(t, "", "abort", "scan/1", "--reason", "off\nfor ever").wantExit(t, 0)
	db.run(t, "", "abort", "mail/1").wantExit(t, 0)
	first := db.run(t, "", "ends").wantExit(t, 0)
	if lines := strings.Split(first.stdout, "\n"); len(lines) != 3 ||
		!strings.HasSuffix(lines[0], " aborted (cancelled) scan scan/1: off") {
		t.Errorf("ends lists %q", lines)
	}
	_, place, found := strings.Cut(strings.TrimSpace(first.stderr), "go on: --from ")
	if !found {
		t.Fatalf("stderr names no place: %s", first.stderr)
	}
	db.run(t, "", "abort", "mail/2").wantExit(t, 0)
	for _, of := range []func(...string) ran{
		func(args ...string) ran { return db.run(t, "", args...) }, remote,
	} {
		rest := of("ends", "--from", place).wantExit(t, 0)
		if strings.Count(rest.stdout, "\n") != 1 || !strings.Contains(rest.stdout, "mail/2") {
			t.Errorf("behind %s ends lists %s", place, rest.stdout)
		}
		mails := of("ends", "--action", "mail", "--json").wantExit(t, 0)
		ids, next := endedIDs(t, strings.NewReader(mails.stdout), 3)
		if !slices.Equal(ids, []string{"mail/1", "mail/2"}) || next == "" {
			t.Errorf("ends of mail lists %q, and then %q", ids, next)
		}
	}
	db.run(t, "", "ends", "--from", "nowhere").wantExit(t, 2)
}

// endedIDs reads a number of lines.
func endedIDs(t *testing.T, from io.Reader, lines int) (ids []string, next string) {
	t.Helper()
	reader := json.NewDecoder(from)
	for range lines {
		var line struct{ ID, Next string }
		if err := reader.Decode(&line); err != nil {
			t.Fatalf("after %q: %v", ids, err)
		}
		if next = line.Next; next == "" {
			ids = append(ids, line.ID)
		}
	}
	return ids, next
}

// Proves G332.
func TestEnds_FollowUntilInterruptedAndWaitForTheDatabase(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "act"}, stint.Task{ID: "b", Action: "act"})
	proxy, env := db.throughProxy(t)
	cmd := newCommand(t, env, "ends", "--follow", "--json")
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, id := range []stint.TaskID{"a", "b"} {
		if _, err := db.store.AbortTasks(t.Context(), []stint.TaskID{id}, ""); err != nil {
			t.Fatal(err)
		}
		if ids, next := endedIDs(t, output, 2); len(ids) != 1 || ids[0] != string(id) || next == "" {
			t.Errorf("it told %q, and then %q", ids, next)
		}
		if id == "a" {
			db.goAway(t, proxy)
			if line, err := bufio.NewReader(said).ReadString('\n'); err != nil ||
				!strings.HasSuffix(line, "; trying again\n") {
				t.Errorf("without a database it says %q, %v", line, err)
			}
			proxy.Refuse(false)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("interrupted it ends with %v", err)
	}
}
