//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestChange_MovesNamedTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	later := time.Now().Add(time.Hour)
	db.insert(t, stint.Task{ID: "report", Action: "act", NotBefore: later},
		stint.Task{ID: "mail", Action: "act", After: []stint.TaskID{"report"}},
		stint.Task{ID: "owned", Action: "own"})
	db.own(t, "own")
	db.run(t, "", "change", "report").wantExit(t, 2, "expected what to change")
	db.run(t, "", "change", "report", "--start-now", "--start-in", "1h").
		wantExit(t, 2, "expected one of --start-now")
	for _, flag := range []string{
		"--start-in=-1h", "--set-max-tries=0", "--set-max-tries=-2", "--set-priority=40000",
		"--start-at=tomorrow", "--start-now=false",
	} {
		name, _, _ := strings.Cut(flag, "=")
		db.run(t, "", "change", "report", flag).wantExit(t, 2, name)
	}
	at := "2099-12-24T18:00:00Z"
	for _, said := range []string{"changed 2 tasks\n", "changed 0 tasks\n"} {
		db.run(t, "", "change", "report", "mail", "--start-at", at, "--set-priority", "5",
			"--set-key", "customer-7", "--set-max-tries", "-1").
			wantExit(t, 0).wantOutput(t, said)
	}
	db.run(t, "", "change", "report", "--set-key=").wantExit(t, 0).
		wantOutput(t, "changed 1 task\n")
	db.run(t, "", "show", "mail").wantOutput(t, "customer-7", "blocked")
	db.run(t, "", "change", "report", "mail", "owned", "--start-now").
		wantExit(t, 6, `task has started: "owned"`)
	db.run(t, "", "change", "report", "--start-now", "--dry-run", "--json").wantExit(t, 0).
		wantOutput(t, `"would_change":["report"]`, `"unchanged":[]`)
	db.run(t, "", "change", "report", "--start-now").wantExit(t, 0).
		wantOutput(t, "changed 1 task\n")
	db.run(t, "", "change", "report", "--start-now").wantExit(t, 0, "had that already: report")
}

// What is so already was left so by nobody else.
func TestChange_SaysWhatFiltersFindSoAlready(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "mail"}, stint.Task{ID: "b", Action: "mail"},
		stint.Task{ID: "c", Action: "mail", Priority: 5})
	change := []string{"change", "--action", "mail", "--set-priority", "5", "--yes"}
	for _, test := range []struct {
		args      []string
		out, said string
	}{
		{[]string{"--dry-run"}, "would change 2 tasks\n", "1 task had that already: c\n"},
		{nil, "changed 2 tasks\n", "1 task had that already: c\n"},
		{nil, "changed 0 tasks\n", "3 tasks had that already: a, b, c\n"},
		{
			[]string{"--newer-than", "1h"},
			"changed 0 tasks\n",
			"3 tasks had that already: a, b, c\n",
		},
		{[]string{"--json"}, `{"changed":[],"found":3,"others":0,"unchanged":["a","b","c"]}`, ""},
	} {
		r := db.run(t, "", append(change, test.args...)...).wantExit(t, 0)
		r.wantOutput(t, test.out)
		if r.stderr != test.said {
			t.Errorf("stint %q says %q, want %q", r.args, r.stderr, test.said)
		}
	}
}

// Proves G219.
func TestChange_TakesFilters(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	later := time.Now().Add(time.Hour)
	tasks := []stint.Task{{ID: "owned", Action: "mail"}, {ID: "other", Action: "act"}}
	const n = 25_000
	for i := range n {
		tasks = append(tasks, stint.Task{
			ID: stint.TaskID(fmt.Sprintf("%05d", i)), Action: "mail", NotBefore: later,
		})
	}
	db.insert(t, tasks...)
	db.own(t, "mail")
	db.run(t, "", "change", "--action", "mail", "--start-now").wantExit(t, 2, "give --yes")
	db.run(t, "", "change", "--state", "aborted", "--start-now", "--yes").
		wantExit(t, 2, "nothing to change")
	db.run(t, "", "change", "--action", "mail", "--start-now", "--dry-run").wantExit(t, 0).
		wantOutput(t, "would change 25,000 tasks\n")
	db.run(t, "", "change", "--action", "mail", "--start-now", "--yes").
		wantExit(t, 0, "changed 10,000 of 25,000 tasks", "changed 20,000 of 25,000 tasks").
		wantOutput(t, "changed 25,000 tasks\n")
	db.run(t, "", "ls", "--action", "mail", "--state", "scheduled").wantExit(t, 0)
	db.run(t, "", "stats").wantOutput(t, "25,000")
}
