package stint_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestExplain_NamesWhatATaskWaitsFor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	last := after("last", "a", "b", "c")
	last.MaxTries = 3
	insert(t, store, after("a"), after("b"), after("c"), last)
	finish(t, store, "a", stint.StatusCompleted)
	ownOne(t, store)
	got, err := store.Explain(t.Context(), "last")
	wantErr(t, "Explain", err, nil)
	if got.Missing != 2 || len(got.WaitsFor) != 2 || got.WaitsFor[0].ID != "b" ||
		got.WaitsFor[1].ID != "c" || got.TriesLeft != 3 {
		t.Errorf("Explain = %+v", got)
	}
	wantText(t, got.String(), `"last" is blocked: it waits for 2`,
		`"b" (in-progress), "actor" owns it until`, `"c" (ready)`, "tries left: 3 of 3")
	wantNotText(t, got.String(), "asked for")
	exec(t, pool, "UPDATE stint.action_stats SET asked_at = asked_at - interval '5 minutes'")
	got, err = store.Explain(t.Context(), "last")
	wantErr(t, "Explain", err, nil)
	wantText(t, got.String(), `nobody has asked for "act" since `)
}

func TestExplain_NamesWhatATaskWasAbortedFor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, after("a"), after("b"), after("c"), after("d", "a", "b", "c"),
		after("e", "d"), anyway("anyway", "b"))
	finish(t, store, "a", stint.StatusCompleted)
	finish(t, store, "b", stint.StatusAborted)
	wantErr(t, "AbortTasks", errOf(store.AbortTasks(t.Context(), []stint.TaskID{"c"}, "")), nil)
	finish(t, store, "anyway", stint.StatusAborted)
	explain := func(id stint.TaskID) stint.Explanation {
		t.Helper()
		got, err := store.Explain(t.Context(), id)
		wantErr(t, "Explain", err, nil)
		if len(got.WaitsFor) > 0 {
			t.Errorf("%q waits for %v", id, got.WaitsFor)
		}
		return got
	}
	got := explain("d")
	if len(got.BecauseOf) != 2 || got.BecauseOf[0].ID != "b" || got.BecauseOf[1].ID != "c" {
		t.Errorf("BecauseOf = %+v, want b and c", got.BecauseOf)
	}
	wantText(t, got.String(), `"d" was aborted at `, "Z: a predecessor was aborted\n",
		`"b" (aborted: its owner aborted it)`, `"c" (aborted: it was cancelled)`)
	wantText(t, explain("e").String(), `"d" (aborted: a predecessor was aborted)`)
	if got := explain("anyway"); len(got.BecauseOf) > 0 {
		t.Errorf("what was returned is aborted because of %v", got.BecauseOf)
	}
}

func TestExplain_TellsOfEveryState(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	tomorrow := time.Now().Add(24*time.Hour + 59*time.Second) // the machine may be slow
	insert(t, store,
		stint.Task{ID: "later", Action: "act", NotBefore: tomorrow, Deadline: tomorrow},
		stint.Task{ID: "unasked", Action: "other"},
		stint.Task{ID: "both", Action: "act", NotBefore: tomorrow, After: []stint.TaskID{"later"}},
		stint.Task{ID: "done", Action: "act"})
	explain := func(id stint.TaskID) string {
		t.Helper()
		got, err := store.Explain(t.Context(), id)
		wantErr(t, "Explain", err, nil)
		return got.String()
	}
	owned := ownOne(t, store)
	wantText(t, explain("done"), `"done" is in-progress: "actor" owns it until `)
	err := store.ReturnTask(t.Context(), "done", owned.Token, "", stint.StatusAborted)
	wantErr(t, "ReturnTask", err, nil)
	wantText(t, explain("done"), `"done" was aborted at `, "Z: its owner aborted it")
	wantText(t, explain("later"), `"later" is scheduled until `, "in 24h0m", "its deadline is")
	wantText(t, explain("both"), "it waits for 1", `"later" (scheduled)`, "not before ")
	wantText(t, explain("unasked"), `"unasked" is ready: it waits for an actor`,
		`nobody asks for "other"`)
	_, err = store.Explain(t.Context(), "none")
	wantTasks(t, "Explain", err, stint.ErrTaskNotFound, "none")
}

func TestGraph_IsTheNetworkAroundATask(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("a"), after("b"), join("j", "a", "b"), after("z", "j"),
		after("apart"))
	finish(t, store, "a", stint.StatusCompleted)
	graph, err := store.Graph(t.Context(), "z")
	wantErr(t, "Graph", err, nil)
	if len(graph.Tasks) != 4 || len(graph.Dependencies) != 3 || graph.Cut {
		t.Fatalf("Graph = %+v", graph)
	}
	var dot, mermaid strings.Builder
	wantErr(t, "WriteDOT", graph.WriteDOT(&dot), nil)
	wantErr(t, "WriteMermaid", graph.WriteMermaid(&mermaid), nil)
	wantText(t, dot.String(), "digraph tasks {", `label="a\nact\ncompleted"`,
		`label="j\nblocked"`, "shape=ellipse", "n0 -> n2", "n1 -> n2", "n2 -> n3")
	wantText(t, mermaid.String(), "flowchart LR", `n0["a<br/>act<br/>completed"]:::completed`,
		`n2(["j<br/>blocked"]):::blocked`, "n0 --> n2", "classDef completed fill:")
	_, err = store.Graph(t.Context(), "none")
	wantTasks(t, "Graph", err, stint.ErrTaskNotFound, "none")
}

// The task that was asked for is the last one inserted, and all others are next to it.
func TestGraph_IsCutWhereItIsFarthest(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	const most = 10_000
	tasks := make([]stint.Task, most)
	last := join("last")
	for i := range tasks {
		tasks[i] = after(stint.TaskID(fmt.Sprint(i)))
		last.After = append(last.After, tasks[i].ID)
	}
	insert(t, store, append(tasks, last)...)
	for _, id := range []stint.TaskID{"last", "0", "9999"} {
		graph, err := store.Graph(t.Context(), id)
		wantErr(t, "Graph", err, nil)
		named := slices.ContainsFunc(graph.Tasks, func(task stint.TaskInfo) bool {
			return task.ID == id
		})
		if !graph.Cut || !named || len(graph.Tasks) != most ||
			len(graph.Dependencies) != most-1 {
			t.Errorf("Graph(%q) = %d tasks, %d dependencies, cut: %v, itself: %v",
				id, len(graph.Tasks), len(graph.Dependencies), graph.Cut, named)
		}
	}
	wantErr(t, "DeleteTasks", errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"0"})), nil)
	graph, err := store.Graph(t.Context(), "last")
	wantErr(t, "Graph", err, nil)
	if graph.Cut || len(graph.Tasks) != most || len(graph.Dependencies) != most-1 {
		t.Errorf("Graph = %d tasks, %d dependencies, cut: %v",
			len(graph.Tasks), len(graph.Dependencies), graph.Cut)
	}
}

// IDs may hold anything; the drawing must stay one.
func TestGraph_WritesAnyID(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	id := stint.TaskID("\"]; <b>\\ #\n`&")
	insert(t, store, after(id))
	graph, err := store.Graph(t.Context(), id)
	wantErr(t, "Graph", err, nil)
	var dot, mermaid strings.Builder
	wantErr(t, "WriteDOT", graph.WriteDOT(&dot), nil)
	wantErr(t, "WriteMermaid", graph.WriteMermaid(&mermaid), nil)
	wantText(t, dot.String(), `label="\"]; <b>\\ #\n`+"`"+`&\nact\nready"`)
	wantText(t, mermaid.String(),
		`n0["#quot;]; #lt;b#gt;\ #35;<br/>#96;#amp;<br/>act<br/>ready"]`)
}

func wantText(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("the text does not hold %q:\n%s", part, text)
		}
	}
}

func wantNotText(t *testing.T, text, part string) {
	t.Helper()
	if strings.Contains(text, part) {
		t.Errorf("the text holds %q:\n%s", part, text)
	}
}
