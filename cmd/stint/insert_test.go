//go:build unix

package main

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestInsert_TakesOneTaskByFlags(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	const ignored = "no JSON, which is not read"
	r := db.run(t, ignored, "insert", "--action", "greet", "--body", "world").wantExit(t, 0)
	made := strings.TrimSpace(r.stdout)
	if _, err := uuid.Parse(made); err != nil || r.stderr != "inserted 1 task\n" {
		t.Errorf("insert printed %q and %q", r.stdout, r.stderr)
	}
	if got := db.get(t, stint.TaskID(made)); got.Action != "greet" || string(got.Body) != "world" {
		t.Errorf("the task is %+v", got)
	}
	args := []string{"insert", "--action", "greet", "--id", "a/b", "--json"}
	r = db.run(t, "", args...).wantExit(t, 0)
	if got := db.get(t, "a/b"); r.stdout != "{\"inserted\":1,\"new_ids\":[]}\n" || got.Body != nil {
		t.Errorf("insert printed %q, and the task is %+v", r.stdout, got)
	}
	db.run(t, "", args...).wantExit(t, 6, `task exists: "a/b"`)
	db.run(t, "", "insert", "--action", "greet", "--id", "keyed", "--key", "ann").wantExit(t, 0)
	if got := db.get(t, "keyed"); got.Key != "ann" {
		t.Errorf("the task with a key is %+v", got)
	}
	db.run(t, "", "insert", "--action", "greet", "--id", "headed", "--header", "tenant=a,b",
		"--header", "traceparent=").wantExit(t, 0)
	want := map[string]string{"tenant": "a,b", "traceparent": ""}
	if got := db.get(t, "headed"); !maps.Equal(got.Headers, want) {
		t.Errorf("the task has the headers %q", got.Headers)
	}
	db.run(t, "", "insert", "--action", "greet", "--id", "urgent", "--priority", "-7",
		"--max-tries", "-1").wantExit(t, 0)
	if got := db.get(t, "urgent"); got.Priority != -7 || got.MaxTries != stint.UnlimitedTries {
		t.Errorf("the task has the priority %d and %d tries", got.Priority, got.MaxTries)
	}
	for flag, wrong := range map[string]string{"--priority": "40000", "--max-tries": "0"} {
		db.run(t, "", "insert", "--action", "a", flag, wrong).wantExit(t, 2, flag)
		db.run(t, "", "insert", flag, "1").wantExit(t, 2, flag+" needs --action")
	}
	for _, wrong := range []string{"tenant", "Tenant=a", "=a"} {
		db.run(t, "", "insert", "--action", "a", "--header", wrong).
			wantExit(t, 2, "invalid --header")
	}
	db.run(t, "", "insert", "--header", "a=b").wantExit(t, 2, "needs --action")
	db.run(t, "", "insert", "--cost", "5").wantExit(t, 2, "--cost needs --action")
	db.run(t, "", "insert", "--key", "ann").wantExit(t, 2, "needs --action")
	db.run(t, "", "insert", "--action", "a", "--key", "").wantExit(t, 2, "invalid --key")
	db.run(t, "", "insert", "--id", "c").wantExit(t, 2, "needs --action")
	db.run(t, "", "insert", "--body", "c").wantExit(t, 2, "needs --action")
	db.run(t, "", "insert", "--action", "").wantExit(t, 2, "--action")
	db.run(t, "", "insert", "--action", "a", "--id", "").wantExit(t, 2, "1 to 512 bytes")
	db.run(t, "", "insert", "--action", "a", "--body", "\xff").wantExit(t, 0)
	if got := len(db.ids(t)); got != 6 {
		t.Errorf("there are %d tasks, want 6", got)
	}
}

func TestInsert_TakesOneTaskPerPeriod(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	const long = "1000000h" // such that no test runs in two of them: until 2084
	args := []string{"insert", "--action", "report", "--id", "r/7", "--once-per", long}
	db.run(t, "", args...).wantExit(t, 0)
	const id = "r/7@1970-01-01T00:00:00Z"
	if got := db.get(t, id); got.Action != "report" {
		t.Errorf("the task is %+v", got)
	}
	db.run(t, "", args...).wantExit(t, 6, "task exists: \""+id+"\"")
	db.run(t, "", "insert", "--action", "report", "--once-per", "1h").
		wantExit(t, 2, "--once-per needs --id")
	db.run(t, "", "insert", "--action", "report", "--id", "a", "--once-per", "0s").
		wantExit(t, 2, "--once-per must be positive")
	db.run(t, "", "insert", "--once-per", "1h").wantExit(t, 2, "needs --action")
}

func TestDebounce_ReplacesWhatHasNotStarted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	debounce := func(more ...string) []string {
		return append([]string{
			"debounce", "index/7", "--action", "index", "--quiet", "1h", "--at-most", "2h",
		}, more...)
	}
	db.run(t, "", debounce("--body", "1")...).wantExit(t, 0).wantOutput(t, "debounced index/7\n")
	db.run(t, "", debounce("--body", "2", "--key", "ann", "--json")...).wantExit(t, 0).
		wantOutput(t, `{"id":"index/7"}`)
	got := db.get(t, "index/7")
	if string(got.Body) != "2" || got.Key != "ann" || got.State != stint.StateScheduled {
		t.Errorf("the task is %+v", got)
	}
	db.run(t, "", "debounce", "a", "--action", "x", "--quiet", "1s").
		wantExit(t, 2, "expected --at-most")
	db.run(t, "", "debounce", "a", "--action", "x", "--quiet", "2s", "--at-most", "1s").
		wantExit(t, 2, "--at-most")
	db.run(t, "", "debounce").wantExit(t, 2, "expected one task ID")
}
