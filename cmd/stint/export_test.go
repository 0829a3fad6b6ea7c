//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
)

// An exportedLine is a line of an export. Task and ended are kept as text for other commands.
type exportedLine struct {
	Export, Limits, Schedule, Task, Ended, End json.RawMessage

	Info struct {
		State  string
		Tries  int
		Result string
	}
}

// exported are the lines of an export.
func exported(t *testing.T, text string) (lines []exportedLine) {
	t.Helper()
	for line := range strings.Lines(text) {
		var read exportedLine
		if err := json.Unmarshal([]byte(line), &read); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		lines = append(lines, read)
	}
	if len(lines) < 2 || lines[0].Export == nil || lines[len(lines)-1].End == nil {
		t.Fatalf("the export does not begin or does not end: %s", text)
	}
	return lines
}

// tasksOf are the tasks of an export that have not ended, as insert reads them.
func tasksOf(lines []exportedLine) string {
	var text strings.Builder
	for _, line := range lines {
		if line.Task != nil {
			fmt.Fprintf(&text, "%s\n", line.Task)
		}
	}
	return text.String()
}

// open are the tasks of a store that have not ended, without what a copy does not have, and the
// dependencies between them with their conditions.
func (d *database) open(t *testing.T) (map[stint.TaskID]stint.TaskInfo, map[string]bool) {
	t.Helper()
	tasks, edges := map[stint.TaskID]stint.TaskInfo{}, map[string]bool{}
	for _, id := range d.ids(t) {
		if info := d.get(t, id); info.FinishedAt.IsZero() {
			info.InsertedAt, info.OwnedAt, info.LeaseUntil = time.Time{}, time.Time{}, time.Time{}
			if info.State == stint.StateInProgress {
				info.State, info.StatusCode = stint.StateReady, stint.StatusPending
			}
			info.MaxTries, info.Tries = max(info.MaxTries-info.Tries, -1), 0
			info.Actor, info.Status, info.Progress = "", "", 0
			info.TotalDependencies, info.Signals = 0, 0 // those on ended tasks stay behind
			tasks[id] = info
		}
	}
	for id := range tasks {
		graph, err := d.store.Graph(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		isOpen := func(id stint.TaskID) bool { return tasks[id].ID != "" }
		for _, edge := range graph.Dependencies {
			if isOpen(edge.Predecessor) && isOpen(edge.Dependent) {
				edges[fmt.Sprintf("%+v", edge)] = true
			}
		}
		for _, condition := range graph.Conditions {
			if isOpen(condition.After) && isOpen(condition.Dependent) {
				edges[fmt.Sprint(condition.After, condition.Dependent, condition)] = true
			}
		}
	}
	return tasks, edges
}

// manyKinds inserts tasks in all states, with all fields and kinds of dependencies.
func (d *database) manyKinds(t *testing.T) {
	t.Helper()
	later := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	d.insert(t,
		stint.Task{ID: "done", Action: "done", PostResult: true},
		stint.Task{ID: "off", Action: "off"},
		stint.Task{ID: "owned", Action: "owned", MaxTries: 3, Body: []byte("\xff\x00")},
		stint.Task{
			ID: "ready", Action: "act", Key: "k", Body: []byte(`{"a": "\u0000 €"}`), Priority: -7,
			MaxTries: stint.UnlimitedTries, Deadline: later, PostResult: true, FailFast: true,
			Headers: map[string]string{"for": "ann"}, OnAbort: stint.RunAnyway,
			Cost: 1500,
		},
		stint.Task{ID: "later", Action: "act", NotBefore: later, Body: []byte{}},
		stint.Task{ID: "blocked", Action: "act", After: []stint.TaskID{"done", "ready", "later"}},
		stint.Task{ID: "if", Action: "act", After: []stint.TaskID{"owned"}, When: []stint.Condition{
			{
				After: "ready", States: []stint.State{stint.StateAborted, stint.StateCompleted},
				Results: []string{"heads", ""},
			},
			{After: "done", Results: []string{"42"}},
		}},
		stint.Task{ID: "any", Action: stint.Spontaneous, WhenAny: []stint.Condition{
			{After: "later"},
			{After: "done", States: []stint.State{stint.StateAborted}},
			{After: "blocked", States: []stint.State{stint.StateSkipped}},
		}},
		stint.Task{ID: "asked", Action: stint.External, After: []stint.TaskID{"any"}},
	)
	d.insert(t, stint.Task{ID: "early", Action: "act", ToSignalAfter: []stint.TaskID{"blocked"}})
	d.complete(t, "done", []byte("42"))
	d.own(t, "owned")
	d.run(t, "", "abort", "off").wantExit(t, 0)
	d.run(t, "", "limit", "act", "--per-key", "1").wantExit(t, 0)
	d.run(t, "", "schedule", "put", "--name", "s", "--spec", "@daily", "--action", "act").
		wantExit(t, 0)
}

// What has not ended can be inserted into another store: the same tasks, and the same dependencies
// between them.
// Proves G335.
func TestExport_IsReadBackWithTheSameOpenTasksAndDependencies(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db, other := newDatabase(t), newDatabase(t)
	db.manyKinds(t)
	ran := db.run(t, "", "export").wantExit(t, 0, "wrote 14 lines: 10 tasks, of which 2 ended; "+
		"1 schedule, limits of 1 action")
	lines := exported(t, ran.stdout)
	if want := `{"tasks":8,"ended":2,"schedules":1,"limits":1}`; string(
		lines[len(lines)-1].End) != want {
		t.Errorf("the last line is %s, want %s", lines[len(lines)-1].End, want)
	}
	for _, line := range lines {
		var task struct{ ID, Action string }
		switch {
		case line.Ended != nil:
			if err := json.Unmarshal(line.Ended, &task); err != nil {
				t.Fatal(err)
			}
			if task.ID == "done" && (line.Info.Result != "42" || line.Info.Tries != 1) ||
				task.ID == "off" && line.Info.State != "aborted" {
				t.Errorf("task %+v has come to %+v", task, line.Info)
			}
		case line.Limits != nil:
			if !strings.Contains(string(line.Limits), `"per_key":1`) {
				t.Errorf("limits are %s", line.Limits)
			}
		case line.Schedule != nil:
			other.run(t, string(line.Schedule), "schedule", "put").wantExit(t, 0)
		}
	}
	other.run(t, tasksOf(lines), "insert").wantExit(t, 0, "inserted 8 tasks")
	tasks, edges := db.open(t)
	gotTasks, gotEdges := other.open(t)
	if !reflect.DeepEqual(tasks, gotTasks) || !reflect.DeepEqual(edges, gotEdges) {
		t.Errorf("the copy has %+v\n%v\nwant %+v\n%v", gotTasks, gotEdges, tasks, edges)
	}
	if of := other.run(t, "", "schedule", "ls", "--json"); !strings.Contains(of.stdout, `"s"`) {
		t.Errorf("the copy has the schedules %s", of.stdout)
	}
	again := exported(t, other.run(t, "", "export").wantExit(t, 0).stdout)
	if got, want := tasksOf(again), tasksOf(lines); !sameLines(got, want) {
		t.Errorf("the copy exports\n%swant\n%s", got, want)
	}
	if found, err := other.store.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("the copy has %v, %v", found, err)
	}
}

func sameLines(a, b string) bool {
	return slices.Equal(slices.Sorted(strings.Lines(a)), slices.Sorted(strings.Lines(b)))
}

// A task comes once, behind all that it waits for, so that insert reads what is too long to be read
// at once.
func TestExport_HasEachTaskBehindThoseThatItWaitsFor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	const tasks, long, size = 2500, 34, 2 << 20
	all := make([]stint.Task, tasks)
	for i := range all {
		all[i] = stint.Task{ID: stint.TaskID(fmt.Sprint(i)), Action: "act"}
		if i < long {
			all[i].Body = bytes.Repeat([]byte{'a'}, size)
		}
	}
	db.insert(t, all...)
	order := rand.Perm(tasks) // so keys say nothing of what waits for what
	var edges []stint.Dependency
	for i := 1; i < tasks; i++ {
		for range rand.IntN(3) {
			edges = append(edges, stint.Dependency{
				Predecessor: all[order[rand.IntN(i)]].ID, Dependent: all[order[i]].ID,
			})
		}
	}
	if err := db.store.AddDependencies(t.Context(), edges); err != nil {
		t.Fatal(err)
	}
	written, named := map[stint.TaskID]bool{}, 0
	lines := exported(t, db.run(t, "", "export").wantExit(t, 0).stdout)
	for _, line := range lines {
		if line.Task == nil {
			continue
		}
		var task struct {
			ID    stint.TaskID
			After []stint.TaskID
		}
		if err := json.Unmarshal(line.Task, &task); err != nil {
			t.Fatal(err)
		}
		for _, before := range task.After {
			if named++; !written[before] {
				t.Errorf("task %s waits for %s, which comes behind it", task.ID, before)
			}
		}
		if written[task.ID] {
			t.Errorf("task %s is there twice", task.ID)
		}
		written[task.ID] = true
	}
	distinct := map[stint.Dependency]bool{}
	for _, edge := range edges {
		distinct[edge] = true
	}
	if len(written) != tasks || named != len(distinct) {
		t.Errorf("the export has %d tasks and %d dependencies, want %d and %d", len(written), named,
			tasks, len(distinct))
	}
	other := newDatabase(t)
	other.run(t, tasksOf(lines), "insert").wantExit(t, 0, "inserted 2,500 tasks")
	var copied int
	err := other.pool.QueryRow(t.Context(), "SELECT count(*) FROM stint.edges").Scan(&copied)
	if err != nil || copied != len(distinct) {
		t.Errorf("the copy has %d dependencies, %v, want %d", copied, err, len(distinct))
	}
}

// A predecessor that ended and has left the store puts off nothing, though it came later.
func TestExport_PutsNothingOffBehindATaskThatIsGone(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "0", Action: "act"})
	db.insert(t, stint.Task{ID: "gone", Action: "gone"}, stint.Task{ID: "other", Action: "act"})
	edges := []stint.Dependency{
		{Predecessor: "gone", Dependent: "0"}, {Predecessor: "other", Dependent: "0"},
	}
	want := []string{"other", "0"}
	for i := 1; i < 12; i++ { // in an order that is not one by chance
		before, id := stint.TaskID(fmt.Sprint(i-1)), fmt.Sprint(i)
		db.insert(t, stint.Task{ID: stint.TaskID(id), Action: "act"})
		edges = append(edges, stint.Dependency{Predecessor: before, Dependent: stint.TaskID(id)})
		want = append(want, id)
	}
	if err := db.store.AddDependencies(t.Context(), edges); err != nil {
		t.Fatal(err)
	}
	owned, err := db.store.OwnTasks(t.Context(), "actor", 1, []string{"gone"}, time.Hour)
	if err != nil || len(owned) != 1 {
		t.Fatal(owned, err)
	}
	err = db.store.ReturnTask(t.Context(), "gone", owned[0].Token, "", stint.StatusCompleted)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.store.DeleteTasks(t.Context(), []stint.TaskID{"gone"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range exported(t, db.run(t, "", "export").wantExit(t, 0).stdout) {
		var task struct{ ID string }
		if line.Task == nil {
			continue
		}
		if err := json.Unmarshal(line.Task, &task); err != nil {
			t.Fatal(err)
		}
		got = append(got, task.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the tasks are %v, want %v", got, want)
	}
}

// What happens while it is written is not in it.
// Proves G335.
func TestExport_IsOfOneInstant(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	const tasks = 2500
	all := make([]stint.Task, tasks)
	for i := range all { // more than a pipe holds, so the command waits for who reads it
		all[i] = stint.Task{
			ID: stint.TaskID(fmt.Sprint(i)), Action: "act", Body: make([]byte, 1000),
		}
	}
	db.insert(t, all...)
	cmd := newCommand(t, db.env, "export")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReaderSize(stdout, 1<<20)
	text, err := reader.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	db.run(t, "", "abort", "--action", "act", "--yes").wantExit(t, 0)
	db.insert(t, stint.Task{ID: "new", Action: "act"})
	var rest strings.Builder
	if _, err := reader.WriteTo(&rest); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, line := range exported(t, text+rest.String()) {
		if line.Ended != nil || strings.Contains(string(line.Task), `"new"`) {
			t.Fatalf("the export has %s%s", line.Task, line.Ended)
		}
	}
}

// Whoever may read may export.
func TestExport_IsForThoseWhoRead(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.manyKinds(t)
	want := db.run(t, "", "export").wantExit(t, 0).stdout
	got := run(t, db.accounts(t, "monitor")["monitor"], "", "export").wantExit(t, 0).stdout
	_, want, _ = strings.Cut(want, "\n") // behind the line with the time
	if _, got, _ = strings.Cut(got, "\n"); got != want {
		t.Errorf("a monitor exports\n%swant\n%s", got, want)
	}
}

func TestExport_NeedsTheDatabaseItself(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	at, _ := testservice.Start(t, db.pool, db.store, service.Options{})
	run(t, nil, "", "export", "--server", at).wantExit(t, 2, "database itself")
	run(t, nil, "", "export", "--topology", "static:1="+at).wantExit(t, 2, "--topology")
}
