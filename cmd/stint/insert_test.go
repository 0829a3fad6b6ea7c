//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint"
)

func TestInsert_TakesOneTaskByFlags(t *testing.T) {
	t.Parallel()
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
	db.run(t, "", "insert", "--id", "c").wantExit(t, 2, "need --action")
	db.run(t, "", "insert", "--body", "c").wantExit(t, 2, "need --action")
	db.run(t, "", "insert", "--action", "").wantExit(t, 2, "--action")
	db.run(t, "", "insert", "--action", "a", "--id", "").wantExit(t, 2, "1 to 512 bytes")
	db.run(t, "", "insert", "--action", "a", "--body", "\xff").wantExit(t, 0)
	if got := len(db.ids(t)); got != 3 {
		t.Errorf("there are %d tasks, want 3", got)
	}
}
