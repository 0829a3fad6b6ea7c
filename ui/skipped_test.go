package ui_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui"
)

// aChoice is a task of which one of two others runs, and one that the first of these starts.
func aChoice(branches int) *stint.Graph {
	graph := &stint.Graph{Tasks: []stint.TaskInfo{{
		ID: "flip", Action: "flip", State: stint.StateCompleted,
	}}}
	add := func(after, id stint.TaskID, action string, c stint.EdgeCondition) {
		graph.Tasks = append(graph.Tasks, stint.TaskInfo{
			ID: id, Action: action, State: stint.StateSkipped,
		})
		c.After, c.Dependent = after, id
		graph.Dependencies = append(graph.Dependencies, stint.Dependency{
			Predecessor: after, Dependent: id,
		})
		graph.Conditions = append(graph.Conditions, c)
	}
	for i := range branches {
		heads := stint.EdgeCondition{Condition: stint.Condition{Results: []string{"<heads>"}}}
		add("flip", stint.TaskID(fmt.Sprintf("heads/%d", i)), "heads", heads)
	}
	add("flip", "first", "act", stint.EdgeCondition{Any: true})
	return graph
}

// A picture says by which conditions tasks start, also where a box stands for many, and on a
// canvas.
func TestNetwork_ShowsConditions(t *testing.T) {
	t.Parallel()
	for _, branches := range []int{2, 1000} {
		graph := aChoice(branches)
		h := ui.New(aFake{graph: func(context.Context, stint.TaskID) (*stint.Graph, error) {
			return graph, nil
		}}, ui.Options{})
		page := text(t, h, "/network?id=flip&show=alike")
		wantParts(t, page, ` class="when"/>`, ">if &#34;&lt;heads&gt;&#34;</text>",
			">any of</text>", `class="box skipped`, fmt.Sprintf("%s skipped", number(branches)))
		if labels := strings.Count(page, `class="condition"`); labels != 2 {
			t.Errorf("%d arrows have a text, want 2", labels)
		}
		if branches < 1000 {
			continue
		}
		page = text(t, h, "/network?id=flip&show=all")
		_, layout, _ := strings.Cut(page, `data-layout="`)
		layout, _, _ = strings.Cut(layout, `"`)
		var places struct{ Path, Anyway, When string }
		if err := json.Unmarshal([]byte(text(t, h,
			"/"+strings.ReplaceAll(layout, "&amp;", "&"))), &places); err != nil {
			t.Fatal(err)
		}
		if places.Path != "" || places.Anyway != "" || strings.Count(places.When, "M") != 1001 {
			t.Errorf("the arrows are %+v", places)
		}
		wantParts(t, page, `data-states="466666`)
	}
}

func number(n int) string {
	if n == 1000 {
		return "1,000"
	}
	return fmt.Sprint(n)
}

// Who may not read bodies does not learn for which results tasks wait.
func TestPages_HideTheResultsOfConditions(t *testing.T) {
	t.Parallel()
	graph := aChoice(1)
	fake := aFake{
		graph: func(context.Context, stint.TaskID) (*stint.Graph, error) { return graph, nil },
		explain: func(context.Context, stint.TaskID) (stint.Explanation, error) {
			return stint.Explanation{Task: graph.Tasks[1]}, nil
		},
	}
	reader := ui.New(fake, ui.Options{Authorize: func(_ *http.Request, verb ui.Verb) bool {
		return verb == ui.Read
	}})
	for _, page := range []string{"/network?id=flip", "/task?id=heads/0"} {
		wantParts(t, text(t, ui.New(fake, ui.Options{}), page), "&lt;heads&gt;")
		got := text(t, reader, page)
		wantParts(t, got, "if &#34;…&#34;")
		if strings.Contains(got, "&lt;heads&gt;") {
			t.Errorf("%s tells the result", page)
		}
	}
}

// A skipped task is told of as such, wherever it is shown.
// Proves R23.
func TestPages_TellOfSkippedTasks(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "work", Action: "act"},
		stint.Task{ID: "mend", Action: "mend", When: []stint.Condition{
			{After: "work", States: []stint.State{stint.StateAborted}},
		}},
		stint.Task{ID: "behind", Action: "mend", After: []stint.TaskID{"mend"}})
	h := ui.New(store, ui.Options{})
	wantParts(t, text(t, h, "/task?id=mend"), "Blocked: it waits for 1 task",
		`<span class="said">if aborted</span>`)
	task := own(t, store, "act")[0]
	verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{{
		ID: task.ID, Token: task.Token, Code: stint.StatusCompleted,
	}})
	wantNil(t, errors.Join(append(verdicts, err)...))
	h = ui.New(store, ui.Options{}) // the other one remembers its answers for a while
	wantParts(t, text(t, h, "/task?id=mend"), `<section class="why skipped">`, "Skipped ",
		"its condition cannot be met.", "<h2>Because of</h2>", `<use href="#i-skipped"/>`,
		"stint retry mend")
	wantParts(t, text(t, h, "/tasks?state=skipped"), "behind", "mend", "state skipped")
	if page := text(t, h, "/tasks?state=aborted"); strings.Contains(page, "task?id=mend") {
		t.Error("a list of aborted tasks has a skipped one")
	}
	wantParts(t, text(t, h, "/"), `class="tile skipped"`,
		"Nothing, as far as the store can tell.")
	wantParts(t, text(t, h, "/action?name=mend"), "kipped")
}
