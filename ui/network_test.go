package ui_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui"
)

// aNetwork is an order, films, their photos, and what joins them.
func aNetwork(films, photos int) *stint.Graph {
	graph := &stint.Graph{}
	add := func(id, action string, state stint.State, after ...stint.TaskID) stint.TaskID {
		task := stint.TaskInfo{ID: stint.TaskID(id), Action: action, State: state}
		graph.Tasks = append(graph.Tasks, task)
		for _, before := range after {
			graph.Dependencies = append(graph.Dependencies,
				stint.Dependency{Predecessor: before, Dependent: task.ID})
		}
		return task.ID
	}
	order := add("order", "order", stint.StateCompleted)
	var joined []stint.TaskID
	for f := range films {
		scan := add(fmt.Sprintf("film/%d/scan", f), "scan", stint.StateCompleted, order)
		for p := range photos {
			joined = append(joined, add(fmt.Sprintf("film/%d/photo/%d", f, p), "develop",
				stint.StateReady, scan))
		}
	}
	add("book", "bind", stint.StateBlocked, joined...)
	return graph
}

func networkOf(graph *stint.Graph) *ui.Handler {
	return ui.New(aFake{graph: func(context.Context, stint.TaskID) (*stint.Graph, error) {
		return &stint.Graph{Tasks: slices.Clone(graph.Tasks), Dependencies: graph.Dependencies}, nil
	}}, ui.Options{})
}

// A picture of thousands of tasks has a box for all that are alike, and each task is found from it.
func TestNetwork_ShowsAlikeTasksTogether(t *testing.T) {
	t.Parallel()
	h := networkOf(aNetwork(10, 999))
	page := text(t, h, "/network?id=book")
	wantParts(t, page, "10,002 tasks", "scan × 10", "develop × 9,990", "9,990 ready")
	if boxes := strings.Count(page, `class="face"`); boxes != 4 {
		t.Errorf("%d boxes, want 4", boxes)
	}
	if len(page) > 256<<10 {
		t.Errorf("the page has %d bytes", len(page))
	}
	wantParts(t, text(t, h, "/network?id=book&of=film/3/scan"), "Tasks of the box “scan”",
		`href="task?id=film%2f3%2fscan"`)
	page = text(t, h, "/network?id=book&show=all")
	wantParts(t, page, `data-states="44222`, `data-layout="layout?id=book&amp;of=`)
	if len(page) > 128<<10 {
		t.Errorf("the page with the canvas has %d bytes", len(page))
	}
	wantParts(t, text(t, h, "/network?id=film/3/photo/7&show=near"), `class="box ready asked"`,
		"film/3/scan", "book")
	wantParts(t, text(t, h, "/network?id=book&state=blocked"), "Tasks, blocked")
}

// A long chain is one box.
func TestNetwork_ShowsALongChain(t *testing.T) {
	t.Parallel()
	graph := &stint.Graph{}
	for i := range 1000 {
		id := stint.TaskID(fmt.Sprintf("t/%d", i))
		graph.Tasks = append(graph.Tasks, stint.TaskInfo{ID: id, Action: "act"})
		if i > 0 {
			graph.Dependencies = append(graph.Dependencies,
				stint.Dependency{Predecessor: graph.Tasks[i-1].ID, Dependent: id})
		}
	}
	h := networkOf(graph)
	wantParts(t, text(t, h, "/network?id=t/500"), "act × 1,000")
	page := text(t, h, "/network?id=t/500&show=near")
	if got := strings.Count(page, `class="face"`); got != 5 {
		t.Errorf("%d boxes are near, want 5", got)
	}
}

// Few tasks may have very many arrows.
func TestNetwork_BoundsTheArrows(t *testing.T) {
	t.Parallel()
	graph := &stint.Graph{}
	const side = 300
	for i := range 2 * side {
		graph.Tasks = append(graph.Tasks, stint.TaskInfo{
			ID: stint.TaskID(fmt.Sprintf("t/%d", i)), Action: fmt.Sprintf("act-%d", i),
		})
	}
	for from := range side {
		for to := range side {
			graph.Dependencies = append(graph.Dependencies, stint.Dependency{
				Predecessor: graph.Tasks[from].ID, Dependent: graph.Tasks[side+to].ID,
			})
		}
	}
	h := networkOf(graph)
	for _, show := range []string{"", "all", "finely", "near"} {
		page := text(t, h, "/network?id=t/0&show="+show)
		if len(page) > 256<<10 {
			t.Errorf("show=%s has %d bytes", show, len(page))
		}
	}
	if response := get(t, h, "/layout?id=t/0"); response.StatusCode != http.StatusBadRequest {
		t.Errorf("the layout of %d arrows: %s", side*side, response.Status)
	}
}

// The script draws what Go has laid out: the same boxes, and arrows between them.
func TestLayout_SendsThePlacesOfAllBoxes(t *testing.T) {
	t.Parallel()
	h := networkOf(aNetwork(10, 99))
	response := get(t, h, "/layout?id=book", "Accept-Encoding", "br, gzip")
	zipped, err := gzip.NewReader(response.Body)
	wantNil(t, err)
	var got struct {
		Width, Height int
		Box           []int
		Of            int
		IDs, Actions  []string
		Xs, Ys        []int
		Action        []int
		Path          string
	}
	wantNil(t, json.NewDecoder(zipped).Decode(&got))
	if n := len(got.IDs); n != 1002 || len(got.Xs) != n || len(got.Ys) != n ||
		len(got.Action) != n || got.IDs[got.Of] != "book" || len(got.Actions) != 4 ||
		strings.Count(got.Path, "M") != 10+2*990 {
		t.Errorf("the layout is of %d tasks, of %s: %+v", n, got.IDs[got.Of], got.Actions)
	}
	for i := range got.Xs {
		if got.Xs[i]+got.Box[0] > got.Width || got.Ys[i]+got.Box[1] > got.Height {
			t.Errorf("box %d is outside of the picture", i)
		}
	}
}

func TestNetwork_ShowsFewTasksEach(t *testing.T) {
	t.Parallel()
	page := text(t, networkOf(aNetwork(2, 3)), "/network?id=book")
	if got := strings.Count(page, `class="face"`); got != 10 {
		t.Errorf("%d boxes, want 10", got)
	}
	wantParts(t, page, `aria-current="true">All tasks</a>`)
}

// All who look at tasks of a network share it; one that a task has left does not hold it.
func TestNetwork_IsAskedForOnce(t *testing.T) {
	t.Parallel()
	graph := aNetwork(2, 3)
	var asked []stint.TaskID
	h := ui.New(aFake{graph: func(_ context.Context, id stint.TaskID) (*stint.Graph, error) {
		asked = append(asked, id)
		if id == "other" {
			return nil, &stint.TaskError{IDs: []stint.TaskID{id}, Err: stint.ErrTaskNotFound}
		}
		return graph, nil
	}}, ui.Options{})
	text(t, h, "/network?id=book")
	text(t, h, "/network?id=order")
	text(t, h, "/network?id=film/1/scan&show=near")
	if want := []stint.TaskID{"book"}; !slices.Equal(asked, want) {
		t.Errorf("networks were asked for of %q, want %q", asked, want)
	}
	if response := get(t, h, "/network?id=other"); response.StatusCode != http.StatusNotFound {
		t.Errorf("the network of a task that is not there: %s", response.Status)
	}
}

// The first picture of a large network takes what the store takes, and this.
func BenchmarkNetwork(b *testing.B) {
	graph := aNetwork(99, 100)
	for _, page := range []string{
		"network?show=alike&id=book", "network?show=finely&id=book", "network?show=near&id=book",
		"network?show=all&id=book", "layout?id=book",
	} {
		b.Run(page, func(b *testing.B) {
			h := networkOf(graph)
			for b.Loop() {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/"+page, nil)
				r.Header.Set("Accept-Encoding", "gzip")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				b.ReportMetric(float64(w.Body.Len()), "bytes")
			}
		})
	}
}
