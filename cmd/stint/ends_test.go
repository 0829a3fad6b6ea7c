//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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
	var first ran // fewer as long as a transaction lasts, in any database, that began before
	eventually(t, "both ends", func() bool {
		first = db.run(t, "", "ends").wantExit(t, 0)
		return strings.Count(first.stdout, "\n") >= 2
	})
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
		var rest ran
		eventually(t, "the last end", func() bool {
			rest = of("ends", "--from", place).wantExit(t, 0)
			return rest.stdout != ""
		})
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
		ids, next := endedIDs(t, output, 2)
		if len(ids) != 1 || ids[0] != string(id) || next == "" {
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

// A stream of events has the ends of tasks that its caller may read, and goes on behind the last
// ID that he has got; whoever may not ask is told so before it begins.
//
// Proves G332.
func TestServe_StreamsWhatEnds(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db, dir := newDatabase(t), t.TempDir()
	tokens, grants := filepath.Join(dir, "tokens"), filepath.Join(dir, "grants")
	write(t, grants, `mailer: [{verbs: [read], actions: [mail], ids: ["*"]}]`)
	token := db.newToken(t, tokens, "mailer")
	s := db.serve(t, "--tokens", tokens, "--grants", grants)
	s.wantCall(t, 401, "needs a token", get, "/ends", "")
	s.token = token
	s.wantCall(t, 403, "may not list", get, "/ends?actions=scan", "")
	s.wantCall(t, 400, "parameters", get, "/ends?action=mail", "")
	s.wantCall(t, 400, "from: must be", get, "/ends?from=nowhere", "")
	s.wantCall(t, 405, "GET", post, "/ends", "")
	db.insert(t, stint.Task{ID: "scan/1", Action: "scan"}, stint.Task{ID: "mail/1", Action: "mail"},
		stint.Task{ID: "mail/2", Action: "mail"})
	last := ""
	for _, id := range []stint.TaskID{"mail/1", "mail/2"} {
		events := s.stream(t, "/ends?actions=mail", last)
		for _, id := range []stint.TaskID{"scan/1", id} {
			if _, err := db.store.AbortTasks(t.Context(), []stint.TaskID{id}, "off"); err != nil {
				t.Fatal(err)
			}
		}
		told := 0
		for (told == 0 || last == "") && events.Scan() {
			name, value, _ := strings.Cut(events.Text(), ": ")
			switch {
			case name == "id" && told > 0:
				last = value
			case name == "data":
				told++
				if last = ""; !strings.Contains(value, string(id)) {
					t.Errorf("behind %q it told %s", last, value)
				}
			case name != "" && name != "id":
				t.Errorf("it told %s", events.Text())
			}
		}
		if told != 1 || last == "" {
			t.Errorf("it told %d ends, and then %q", told, last)
		}
	}
	s.stop(t)
}

// stream asks for events behind the last one, and returns their lines.
func (s *server) stream(t *testing.T, path, last string) *bufio.Scanner {
	t.Helper()
	request, err := http.NewRequestWithContext(testContext(t), get, s.address+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	answer, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	if got := answer.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("the answer is %s, %q", answer.Status, got)
	}
	return bufio.NewScanner(answer.Body)
}
