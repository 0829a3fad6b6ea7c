//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Somebody else inserted the task, and did not ask for its end.
func TestWait_WaitsForTasksThatPostNoResult(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "good", Action: "good"}, stint.Task{ID: "bad", Action: "bad"},
		stint.Task{ID: "gone", Action: "gone"})
	var waiting []*process
	for _, id := range []string{"good", "bad", "gone"} {
		waiting = append(waiting, start(t, newCommand(t, db.env, "wait", id, "--json")))
	}
	eventually(t, "three commands that wait", func() bool { return db.waiters(t) >= len(waiting) })
	db.complete(t, "good", []byte("42"))
	db.run(t, "", "abort", "bad").wantExit(t, 0)
	db.run(t, "", "delete", "gone").wantExit(t, 0)
	waiting[0].wantExit(t, 0)
	waiting[1].wantExit(t, 7)
	waiting[2].wantExit(t, 3)
	for i, want := range []string{`"result":"42"`, `"bad", cause: cancelled`, `not found: "gone"`} {
		if got := waiting[i].output.String(); !strings.Contains(got, want) {
			t.Errorf("it says %s, want %s", got, want)
		}
	}
	db.run(t, "", "wait", "good").wantExit(t, 0).wantOutput(t, "completed")
}
