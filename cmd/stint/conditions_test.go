//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// coin is a network of which one branch is skipped.
const coin = `{"id":"flip","action":"flip"}
{"id":"heads","action":"act","when":[{"after":"flip","results":["heads"]}]}
{"id":"tails","action":"act","when":[{"after":"flip","results":["tails"]}]}
{"id":"mend","action":"act","post_result":true,"when":[{"after":"flip","states":["aborted"]}]}
{"id":"any","action":"act","when_any":[{"after":"heads"},{"after":"tails"}]}
`

// Conditions come from standard input, and what they bring about is shown.
// Proves R23.
func TestConditions_AreReadAndShown(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.run(t, coin, "insert").wantExit(t, 0, "inserted 5 tasks")
	var graph struct {
		Dependencies []struct {
			Predecessor, Dependent string
			States, Results        []string
			Any                    bool
		}
	}
	db.run(t, "", "graph", "flip", "--json").wantExit(t, 0).decode(t, &graph)
	conditions := map[string]string{}
	for _, d := range graph.Dependencies {
		said := strings.Join(append(d.States, d.Results...), " ")
		if d.Any {
			said += " any"
		}
		conditions[d.Predecessor+" "+d.Dependent] = said
	}
	for edge, want := range map[string]string{
		"flip heads": "completed heads", "flip mend": "aborted", "tails any": "completed any",
	} {
		if conditions[edge] != want {
			t.Errorf("%s is %q, want %q", edge, conditions[edge], want)
		}
	}
	svg := db.run(t, "", "graph", "flip", "--format", "svg").wantExit(t, 0)
	svg.wantOutput(t, `<path class="when"`, ">if aborted</text>", ">if &#34;heads&#34;</text>",
		">any of</text>")
	db.complete(t, "flip", []byte("tails"))
	db.run(t, "", "ls", "--state", "skipped").wantExit(t, 0).wantOutput(t, "heads", "mend")
	if aborted := db.run(t, "", "ls", "--state", "aborted", "--json"); aborted.stdout != "" {
		t.Errorf("ls --state aborted has %s", aborted.stdout)
	}
	for _, id := range []string{"mend", "heads"} {
		db.run(t, "", "wait", id).wantExit(t, 0).wantOutput(t, "skipped")
	}
	db.run(t, "", "show", "any").wantExit(t, 0).wantOutput(t, "heads (skipped)", "tails (ready)")
	db.run(t, "", "explain", "mend").wantExit(t, 0).wantOutput(t, `"mend" was skipped at `)
	var stats struct{ Actions []map[string]any }
	db.run(t, "", "stats", "--json").wantExit(t, 0).decode(t, &stats)
	if a := stats.Actions[0]; a["action"] != "act" || a["skipped"] != 2.0 || a["aborted"] != 0.0 {
		t.Errorf("stats has %v", stats.Actions)
	}
	db.run(t, "", "stats").wantExit(t, 0).wantOutput(t, "SKIPPED")
	for input, want := range map[string]string{
		`{"action":"x","when":[{"states":["aborted"]}]}`:                 "line 1",
		`{"action":"x","when":[{"after":"flip","of":"a"}]}`:              "when: must be a list",
		`{"action":"x","when":{"after":"flip"}}`:                         "when: must be a list",
		`{"action":"x","when":[{"after":"flip","states":["ready"]}]}`:    "states of a condition",
		`{"action":"x","after":["flip"],"when_any":[{"after":"heads"}]}`: "when_any",
	} {
		db.run(t, input, "insert").wantExit(t, 2, want)
	}
}

// A file of submit may have conditions, and a skipped task is no failure.
// Proves R23.
func TestSubmit_TakesConditions(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	file := `
- {name: ask, action: stint.External}
- {name: heads, action: act, value: {$result: ask}, when: [{after: ask, results: [heads]}]}
- {name: mend, action: act, when: [{after: ask, states: [aborted, skipped]}]}
`
	waiting := start(t, newCommand(t, db.env, "submit", "--prefix", "t", "--wait", "--json",
		writeFile(t, file)))
	eventually(t, "a submitted task", func() bool {
		tasks, err := db.store.GetTasks(t.Context(), []stint.TaskID{"t/ask"})
		return err == nil && len(tasks) == 1
	})
	db.run(t, "", "answer", "t/ask", "--skipped", "--status", "no need").wantExit(t, 0).
		wantOutput(t, "skipped")
	db.complete(t, "act", nil)
	waiting.wantExit(t, 0)
	if got := string(db.get(t, "t/heads").State); got != "skipped" {
		t.Errorf("heads is %s, want skipped", got)
	}
	db.run(t, "", "answer", "t/ask", "--skipped", "--completed").wantExit(t, 2)
}
