package stint_test

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// skipOne inserts a network of which the tasks "mend" and "behind" are skipped, and "bad" is
// aborted.
func skipOne(t *testing.T, store *stint.Store) {
	t.Helper()
	insert(t, store,
		after("work"), when("mend", ended("work", isAborted)), after("behind", "mend"),
		after("bad"), after("worse", "bad"))
	play(t, store, nil, "bad")
}

func wantSame(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s = %+v, want %+v", what, got, want)
	}
}

func idsListed(t *testing.T, store *stint.Store, filter stint.Filter) (ids []string) {
	t.Helper()
	for {
		page, err := store.ListTasks(t.Context(), filter)
		wantErr(t, "ListTasks", err, nil)
		for _, info := range page.Tasks {
			ids = append(ids, string(info.ID))
		}
		if filter.After = page.Next; page.Next == "" {
			slices.Sort(ids)
			return ids
		}
	}
}

// Skipped tasks are listed as such, and not as aborted ones.
// Proves R23.
func TestListTasks_TellsSkippedFromAborted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	skipOne(t, store)
	for state, want := range map[stint.State]string{
		isSkipped: "behind mend", isAborted: "bad worse", isCompleted: "work",
	} {
		for _, filter := range []stint.Filter{
			{States: []stint.State{state}},
			{States: []stint.State{state}, NewestFirst: true},
			{States: []stint.State{state}, Actions: []string{"act"}},
			{States: []stint.State{state, stint.StateBlocked}, Limit: 1},
		} {
			if got := strings.Join(idsListed(t, store, filter), " "); got != want {
				t.Errorf("%+v lists %q, want %q", filter, got, want)
			}
		}
	}
	infos, err := listTasks(t.Context(), store, stint.Filter{States: []stint.State{isSkipped}})
	wantErr(t, "ListTasks", err, nil)
	for _, info := range infos {
		if info.StatusCode != stint.StatusSkipped || info.AbortCause != "" ||
			info.FinishedAt.IsZero() || info.Actor != "" {
			t.Errorf("a skipped task is %+v", info)
		}
	}
}

// Skipped tasks are counted as such, raise no problem, and are told of as such.
// Proves R23.
func TestStats_TellSkippedFromAborted(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	skipOne(t, store)
	stats, err := store.Stats(t.Context())
	wantErr(t, "Stats", err, nil)
	if a := stats.Actions[0]; a.Skipped != 2 || a.Aborted != 2 || a.Completed != 1 {
		t.Errorf("Stats = %+v", a)
	}
	problems, err := store.Problems(t.Context(), 10)
	wantErr(t, "Problems", err, nil)
	for _, task := range problems.Failed {
		if task.ID != "bad" {
			t.Errorf("%q is a problem, and is %s", task.ID, task.State)
		}
	}
	e, err := store.Explain(t.Context(), "mend")
	wantErr(t, "Explain", err, nil)
	if text := e.String(); !strings.Contains(text, "was skipped at") || len(e.BecauseOf) != 1 {
		t.Errorf("Explain = %q", text)
	}
}

// Where there are many, they are estimated.
func TestStats_EstimateSkippedTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	tasks := []stint.Task{after("work")}
	for _, task := range numbered("t", 3000) {
		task.When = []stint.Condition{ended("work", isAborted)}
		tasks = append(tasks, task)
	}
	insert(t, store, tasks...)
	play(t, store, nil)
	exec(t, pool, "ANALYZE stint.finished")
	stats, err := store.Stats(t.Context())
	wantErr(t, "Stats", err, nil)
	if !slices.Contains(stats.Estimated, isSkipped) {
		t.Errorf("estimated = %v, want skipped among them", stats.Estimated)
	}
	if a := stats.Actions[0]; a.Skipped < 2000 || a.Skipped > 4500 || a.Aborted != 0 {
		t.Errorf("Stats = %+v", a)
	}
}

// A graph has the conditions of its edges, byte by byte.
// Proves R23.
func TestGraph_HasTheConditionsOfItsEdges(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	long := strings.Repeat("x", 255)
	insert(t, store,
		after("a"), after("b"), after("plain", "a"),
		when("c", answers("a", "heads", "\xff\x00", long), ended("b", isSkipped, isAborted)),
		whenAny("d", ended("a"), stint.Condition{
			After: "b", States: []stint.State{isAborted, isCompleted}, Results: []string{""},
		}))
	graph, err := store.Graph(t.Context(), "a")
	wantErr(t, "Graph", err, nil)
	if len(graph.Dependencies) != 5 {
		t.Errorf("dependencies = %v", graph.Dependencies)
	}
	slices.SortFunc(graph.Conditions, func(x, y stint.EdgeCondition) int {
		return cmp.Or(cmp.Compare(x.Dependent, y.Dependent), cmp.Compare(x.After, y.After))
	})
	completed := []stint.State{isCompleted}
	wantSame(t, "conditions", graph.Conditions, []stint.EdgeCondition{
		{Dependent: "c", Condition: stint.Condition{
			After: "a", States: completed, Results: []string{"heads", "\xff\x00", long},
		}},
		{Dependent: "c", Condition: stint.Condition{
			After: "b", States: []stint.State{isAborted, isSkipped},
		}},
		{Dependent: "d", Any: true, Condition: stint.Condition{After: "a", States: completed}},
		{Dependent: "d", Any: true, Condition: stint.Condition{
			After: "b", States: []stint.State{isCompleted, isAborted}, Results: []string{""},
		}},
	})
	var dot, mermaid strings.Builder
	wantErr(t, "WriteDOT", graph.WriteDOT(&dot), nil)
	wantErr(t, "WriteMermaid", graph.WriteMermaid(&mermaid), nil)
	for _, want := range []string{
		`label="if \"heads\" or \"\\xff\\x00\" or \"xxxxxxxxxxxxxxxxxxxxxxx…"`,
		`[style=dotted, label="if aborted or skipped"]`, `label="any of"`,
		`label="any of, if \"\" or aborted"`,
	} {
		if !strings.Contains(dot.String(), want) {
			t.Errorf("the drawing lacks %s:\n%s", want, &dot)
		}
	}
	if !strings.Contains(mermaid.String(), `-. "if aborted or skipped" .->`) {
		t.Errorf("the drawing is\n%s", &mermaid)
	}
}

// A schedule keeps the conditions of its tasks, which are about those of the same occurrence.
// Proves R23.
func TestSchedules_KeepConditions(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	schedule := stint.Schedule{Name: "coin", Spec: "@daily", Tasks: []stint.Task{
		after("flip"), when("heads", answers("flip", "heads")),
		whenAny("any", ended("flip", isAborted), ended("heads")),
	}}
	wantErr(t, "PutSchedules", store.PutSchedules(t.Context(), []stint.Schedule{schedule}), nil)
	infos, err := store.ListSchedules(t.Context(), "coin")
	wantErr(t, "ListSchedules", err, nil)
	wantSame(t, "when", infos[0].Tasks[1].When, schedule.Tasks[1].When)
	wantSame(t, "when any", infos[0].Tasks[2].WhenAny, schedule.Tasks[2].WhenAny)
	at, err := store.TriggerSchedule(t.Context(), "coin")
	wantErr(t, "TriggerSchedule", err, nil)
	states := play(t, store, map[stint.TaskID]string{at + "/flip": "tails"})
	wantSame(t, "states", states, map[stint.TaskID]stint.State{
		at + "/flip": isCompleted, at + "/heads": isSkipped, at + "/any": isSkipped,
	})
	for what, condition := range map[string]stint.Condition{
		"another schedule's task": ended("other"), "no text": answers("flip", "\xff"),
	} {
		bad := schedule
		bad.Tasks = []stint.Task{after("flip"), when("x", condition)}
		err := store.PutSchedules(t.Context(), []stint.Schedule{bad})
		wantErr(t, what, err, stint.ErrInvalidArgument)
	}
	task := when("deb", ended("flip"))
	wantErr(t, "Debounce", store.Debounce(t.Context(), task, time.Second, time.Second),
		stint.ErrInvalidArgument)
}

// An owner is told of skipped predecessors as such.
// Proves R23.
func TestInputs_TellOfSkippedTasks(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("work"), when("mend", ended("work", isAborted)),
		anyway("join", "work", "mend"))
	finish(t, store, "work", stint.StatusCompleted)
	joined := own(t, store, 1)
	inputs, err := store.Inputs(t.Context(), joined[0])
	wantErr(t, "Inputs", err, nil)
	ends := map[stint.TaskID]stint.StatusCode{}
	for _, input := range inputs {
		ends[input.ID] = input.StatusCode
	}
	wantSame(t, "inputs", ends, map[stint.TaskID]stint.StatusCode{
		"work": stint.StatusCompleted, "mend": stint.StatusSkipped,
	})
}

// Skipped tasks are pruned as aborted ones are, also if they have FailFast, about which nobody does
// anything then.
// Proves R23.
func TestPrune_TakesSkippedTasks(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{
		Retention: stint.Retention{Completed: stint.KeepForever, Aborted: time.Minute},
	})
	fast := when("fast", ended("work", isAborted))
	fast.FailFast = true
	insert(t, store, after("work"), fast, when("mend", ended("work", isAborted)),
		after("behind", "mend"))
	play(t, store, nil)
	for _, want := range []int64{0, 3} {
		if n, err := store.Prune(t.Context()); n != want || err != nil {
			t.Errorf("Prune = %d, %v, want %d", n, err, want)
		}
		exec(t, pool, "UPDATE stint.finished SET finished_at = finished_at - interval '1 hour'")
	}
}
