//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
)

func TestShow_NamesWhatTheTaskWaitsForAndWhatWaitsForIt(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	tasks := []stint.Task{
		{ID: "done", Action: "do"},
		{ID: "mid", Action: "mid", After: []stint.TaskID{"done", "to\tdo"}},
		{ID: "to\tdo", Action: "act"},
		{ID: "alone", Action: "act"},
	}
	for i := range 1012 {
		tasks = append(tasks, stint.Task{
			ID: stint.TaskID(fmt.Sprintf("after/%04d", i)), Action: "act",
			After: []stint.TaskID{"mid"},
		})
	}
	db.insert(t, tasks...)
	db.complete(t, "do", nil)
	db.run(t, "", "show", "mid").wantExit(t, 0).wantOutput(t,
		"predecessors  \"to\\tdo\" (ready)\n              done (completed)\n",
		"dependents    after/0000 (blocked)\n              after/0001 (blocked)\n",
		"after/0009 (blocked)\n              and 1,002 more\n")
	var got struct {
		ID                       string
		Predecessors, Dependents []struct{ ID, State string }
	}
	db.run(t, "", "show", "mid", "--json").wantExit(t, 0).decode(t, &got)
	if got.ID != "mid" || len(got.Predecessors) != 2 || len(got.Dependents) != 1012 ||
		got.Predecessors[0].ID != "to\tdo" || got.Predecessors[1].State != "completed" ||
		got.Dependents[1011].ID != "after/1011" {
		t.Errorf("show --json = %+v", got)
	}
	for _, flags := range [][]string{nil, {"--json"}} {
		r := db.run(t, "", append([]string{"show", "alone"}, flags...)...).wantExit(t, 0)
		if strings.Contains(r.stdout, "predecessors") || strings.Contains(r.stdout, "dependents") {
			t.Errorf("of a task without neighbours show %q prints %s", flags, r.stdout)
		}
	}
}
