//go:build unix

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestPrune_DeletesWhatFinishedLongAgo(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "done", Action: "do"}, stint.Task{ID: "off", Action: "act"},
		stint.Task{ID: "left", Action: "act"})
	db.complete(t, "do", nil)
	db.run(t, "", "abort", "off").wantExit(t, 0)
	db.exec(t, "UPDATE stint.finished SET finished_at = finished_at - interval '40 days'")
	db.insert(t, stint.Task{ID: "young", Action: "do"}, stint.Task{ID: "asked", Action: "do"},
		stint.Task{ID: "asks", Action: "act", After: []stint.TaskID{"asked"}})
	db.complete(t, "do", nil)
	db.complete(t, "do", nil)

	prune := func(output string, args ...string) {
		t.Helper()
		db.run(t, "", append([]string{"prune", "--yes"}, args...)...).wantExit(t, 0).
			wantOutput(t, output)
	}
	prune("would prune 1 task\n", "--completed-after", "39d", "--dry-run")
	prune(`{"would_prune":2}`, "--completed-after", "39d", "--aborted-after", "39d", "--dry-run",
		"--json")
	prune("pruned 0 tasks\n3 completed and 1 aborted tasks stay\n", "--completed-after", "41d",
		"--aborted-after", "41d")
	prune("pruned 1 task\n", "--completed-after", "39d")
	prune(`{"aborted":0,"completed":2,"pruned":1}`, "--aborted-after", "39d23h", "--json")
	prune("pruned 1 task\n1 completed and 0 aborted tasks stay\n", "--completed-after", "0")
	if got := db.ids(t); !slices.Equal(got, []stint.TaskID{"asked", "asks", "left"}) {
		t.Errorf("there are %q", got)
	}
}

// Only what the flags name is pruned: the log of changes stays, whose retention is the workers'.
func TestPrune_LeavesTheLogOfChangesAlone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "off", Action: "act"})
	db.run(t, "", "abort", "off", "--by", "ann").wantExit(t, 0)
	db.exec(t, "UPDATE stint.changes SET changed_at = changed_at - interval '100 days'")
	db.run(t, "", "prune", "--yes", "--completed-after", "1000d").wantExit(t, 0)
	db.run(t, "", "changes", "off").wantExit(t, 0).wantOutput(t, "ann")
}

func TestPrune_RefusesWhatIsNoAge(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	db.run(t, "", "prune").wantExit(t, 2, "expected --completed-after, --aborted-after or both")
	db.run(t, "", "prune", "--dry-run").wantExit(t, 2)
	for _, age := range []string{"", "-1h", "7", "7 days", "never"} {
		db.run(t, "", "prune", "--aborted-after", age).wantExit(t, 2, "such as 90m")
	}
	db.run(t, "", "prune", "--aborted-after", "1h", "more").wantExit(t, 2)
}

func TestPrune_IsInterruptedWhileItPrunes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "done", Action: "do"})
	db.complete(t, "do", nil)
	db.exec(t, "UPDATE stint.finished SET finished_at = finished_at - interval '1 hour'")
	db.interruptBehind(t, "SELECT FROM stint.tasks FOR UPDATE", "prune",
		"--completed-after", "1h", "--yes")
	db.run(t, "", "show", "done").wantExit(t, 0)
	db.run(t, "y\n", "prune", "--completed-after", "1h").wantExit(t, 2, "no terminal", "--yes")
	db.run(t, "", "show", "done").wantExit(t, 0)
	said := typed(t, db.env, "y\n", "prune", "--completed-after", "100d", "--aborted-after", "1d")
	const want = "of 1 completed task those that ended 100d ago or earlier, and of 0 aborted"
	if !strings.Contains(said, want) || !strings.Contains(said, "pruned 0 tasks") {
		t.Errorf("on a terminal prune says %q", said)
	}
	db.run(t, "", "prune", "--completed-after", "1h", "--yes").wantExit(t, 0).
		wantOutput(t, "pruned 1 task\n")
}
