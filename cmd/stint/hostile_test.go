//go:build unix

package main

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// hostileText clears a screen, writes from right to left, and returns to the beginning of the line.
const hostileText = "a\x1b[2J\u202e\rb\"\\n</text>#;"

const hostileAction = "act" + hostileText

// No text of a task reaches a terminal but as text, whatever prints it: an ID, an action, a key, a
// status, the names of actors, groups and schedules; in an answer, a question or an error.
// Proves G303.
func TestCommand_WritesNoTextOfOthersToTheTerminal(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.hostile(t)
	for _, args := range slices.Concat(hostileLooks(), hostileSettings(), hostileEnds()) {
		env := append([]string{"TERM=xterm"}, db.env...)
		output, _ := newCommand(t, env, args...).CombinedOutput()
		wantPlain(t, args, string(output))
	}
}

// hostile has such texts in every place that somebody may give a text to.
func (d *database) hostile(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	id, action := stint.TaskID(hostileText), hostileAction
	rate := stint.Rate{Tasks: 1, Per: time.Hour}
	for _, err := range []error{
		d.store.SetLimits(ctx, action, stint.Limits{
			Fair: true, FairGroup: hostileText, ConcurrencyPerKey: 1, Concurrency: 1,
			RatePerKey: rate,
		}),
		d.store.SetWeights(ctx, action, map[string]int{hostileText: 3}),
		d.store.InsertTasks(ctx, []stint.Task{
			{
				ID: id, Action: action, Key: hostileText, Body: []byte(hostileText),
				Headers: map[string]string{"h": "a\x1b[2J\u202eb"},
			},
			{ID: id + "2", Action: action, Key: hostileText},
			{ID: id + "3", Action: action, When: []stint.Condition{
				{After: id, Results: []string{hostileText}},
			}},
			{ID: id + "4", Action: action, After: []stint.TaskID{id}},
		}),
		d.store.PutSchedules(ctx, []stint.Schedule{{
			Name: hostileText, Spec: "@daily", Tasks: []stint.Task{{Action: action}},
		}}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	owned, err := d.store.OwnTasks(ctx, stint.ActorID(hostileText), 1, []string{action}, time.Hour)
	if err != nil || len(owned) != 1 {
		t.Fatalf("OwnTasks = %v, %v", owned, err)
	}
	if err := d.store.SetStatus(ctx, owned[0], hostileText, 0.5); err != nil {
		t.Fatal(err)
	}
}

// hostileLooks are commands that change nothing.
func hostileLooks() [][]string {
	return [][]string{
		{"ls"},
		{"ls", "--state", "ready"},
		{"show", hostileText},
		{"show", hostileText + "3"},
		{"explain", hostileText},
		{"explain", hostileText + "2"},
		{"explain", hostileText + "3"},
		{"graph", hostileText},
		{"graph", hostileText, "--format", "mermaid"},
		{"graph", hostileText, "--format", "svg"},
		{"history", hostileText},
		{"stats"},
		{"limits"},
		{"limits", hostileAction},
		{"actors"},
		{"errors"},
		{"check"},
		{"networks"},
		{"prune", "--dry-run"},
		{"schedule", "ls"},
		{"wait", "--timeout", "1ms", hostileText},
		{"wait", "none" + hostileText},
		{"show", "none" + hostileText},
		{"explain", "none" + hostileText},
		{"graph", "none" + hostileText},
		{"history", "none" + hostileText},
	}
}

// hostileSettings are commands that change schedules, pauses and limits.
func hostileSettings() [][]string {
	return [][]string{
		{"schedule", "next", hostileText},
		{"schedule", "next", "none" + hostileText},
		{"schedule", "pause", hostileText},
		{"schedule", "resume", hostileText},
		{"schedule", "trigger", hostileText},
		{"pause", hostileAction, "--reason", hostileText},
		{"resume", hostileAction},
		{"resume", hostileAction},
		{"pause", hostileAction, "--key", hostileText},
		{"resume", hostileAction, "--key", hostileText},
		{"resume", hostileAction, "--key", hostileText},
		{"limit", hostileAction, "--concurrency", "1"},
		{"weight", hostileAction, hostileText + "=2"},
	}
}

// hostileEnds are commands that change and end tasks, in an order in which there still are some.
func hostileEnds() [][]string {
	return [][]string{
		{"delete", hostileText},
		{"retry", hostileText},
		{"change", hostileText, "--start-now"},
		{"answer", hostileText},
		{"answer", "none" + hostileText},
		{"none" + hostileText},
		{"ls", "--none" + hostileText},
		{"ls", "--state", hostileText},
		{"insert", "--action", hostileAction, "--id", hostileText, "--body", "x"},
		{"abort", hostileText + "2", "--dry-run"},
		{"abort", hostileText + "4"},
		{"abort", "--action", hostileAction, "--state", "ready", "--yes"},
		{"errors"},
		{"retry", hostileText + "4", "--dry-run"},
		{"changes"},
		{"ends"},
		{"ends", "--action", hostileText},
		{"ends", "--from", hostileText},
		{"changes", "--id", hostileText},
		{"delete", hostileText + "2"},
		{"top", "--once"},
		{"migrate", "--schema", hostileText},
		{"ls", "--schema", hostileText},
		{"worker", "--action", hostileAction, "--once", "--", "none" + hostileText},
	}
}

// wantPlain checks that a text has nothing that is not seen. Colours would be for terminals only.
func wantPlain(t *testing.T, args []string, output string) {
	t.Helper()
	for _, r := range output {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			t.Errorf("stint %q writes %q: %.2000q", args, r, output)
			return
		}
	}
}

// Pictures and documents that programs read have the same texts, in the form of their language.
// Proves G303.
func TestGraph_IsReadByProgramsWhateverTheTexts(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: stint.TaskID(hostileText), Action: "act"})
	dot := db.run(t, "", "graph", hostileText).stdout
	want := `label="a\\x1b[2J\\u202e b\"\\n</text>#;\nact\nready"`
	if !strings.Contains(dot, want) {
		t.Errorf("the graph is %s, want %s", dot, want)
	}
	mermaid := db.run(t, "", "graph", hostileText, "--format", "mermaid").stdout
	want = `["a\x1b[2J\u202e b#quot;\n#lt;/text#gt;#35;;<br/>act<br/>ready"]`
	if !strings.Contains(mermaid, want) {
		t.Errorf("the graph is %s, want %s", mermaid, want)
	}
	if path, err := exec.LookPath("dot"); err == nil {
		cmd := exec.CommandContext(t.Context(), path, "-Tsvg")
		cmd.Stdin = strings.NewReader(dot)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("dot: %v: %s", err, output)
		}
	}
	var graph struct{ Tasks []struct{ ID string } }
	text := db.run(t, "", "graph", hostileText, "--json").stdout
	if err := json.Unmarshal([]byte(text), &graph); err != nil || len(graph.Tasks) != 1 ||
		graph.Tasks[0].ID != hostileText {
		t.Errorf("the graph is %s, %v", text, err)
	}
}
