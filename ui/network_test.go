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
	wantParts(t, page, "10,002 tasks", "scan × 10", ">10 completed</text>", "develop × 9,990",
		">9,990 ready</text>")
	if boxes := strings.Count(page, `class="face"`); boxes != 4 {
		t.Errorf("%d boxes, want 4", boxes)
	}
	if len(page) > 256<<10 {
		t.Errorf("the page has %d bytes", len(page))
	}
	wantParts(t, text(t, h, "/network?id=book&of=film/3/scan"), "Tasks of the box “scan × 10”",
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

// aChain is tasks one after the other.
func aChain(tasks int, actions ...string) *stint.Graph {
	graph := &stint.Graph{}
	for i := range tasks {
		id := stint.TaskID(fmt.Sprintf("t/%d", i))
		graph.Tasks = append(graph.Tasks, stint.TaskInfo{
			ID: id, Action: actions[i%len(actions)], State: stint.StateBlocked,
		})
		if i > 0 {
			graph.Dependencies = append(graph.Dependencies,
				stint.Dependency{Predecessor: graph.Tasks[i-1].ID, Dependent: id})
		}
	}
	return graph
}

// boxLinks are the addresses of the boxes of a picture.
func boxLinks(page string) (links []string) {
	for _, part := range strings.Split(page, `<a href="`)[1:] {
		link, rest, _ := strings.Cut(part, `"`)
		if strings.HasPrefix(rest, ` class="box`) {
			links = append(links, strings.ReplaceAll(link, "&amp;", "&"))
		}
	}
	return links
}

// A network of more tasks than a graph of the store has is shown whole, in groups.
func TestNetwork_IsWholeWhereItIsVeryLarge(t *testing.T) {
	t.Parallel()
	const all = 12_000
	tasks := make([]stint.Task, all)
	for i := range tasks {
		tasks[i] = stint.Task{ID: stint.TaskID(fmt.Sprintf("t/%d", i)), Action: "work"}
		if i > 0 {
			tasks[i].After = []stint.TaskID{tasks[0].ID}
		}
	}
	store := newStore(t)
	wantNil(t, store.InsertTasks(t.Context(), tasks))
	h := ui.New(store, ui.Options{})
	for _, id := range []string{"t/0", "t/11999"} {
		var page string
		eventually(t, func() bool {
			page = text(t, h, "/network?id="+id)
			return !strings.Contains(page, "more is being read")
		})
		wantParts(t, page, "<strong>12,000 tasks</strong>", "11,999 blocked", "work × 11,999")
		if strings.Contains(page, "larger network") {
			t.Error("the page says that there is more")
		}
	}
	graph, err := store.Graph(t.Context(), "t/0")
	if wantNil(t, err); len(graph.Tasks) != 10_000 || !graph.Cut {
		t.Errorf("the store tells of %d tasks, more %t", len(graph.Tasks), graph.Cut)
	}
}

// A chain of thousands of tasks is a box, and one comes to each of them from there, box by box.
func TestNetwork_LeadsFromALongChainToItsTasks(t *testing.T) {
	t.Parallel()
	for name, actions := range map[string][]string{
		"chain of 10,000 act": {"act"}, "chain of 1,666 train, judge": {"train", "judge"},
	} {
		h := networkOf(aChain(10_000, actions...))
		page := text(t, h, "/network?id=t/5000")
		wantParts(t, page, name, "10,000 blocked", `<a href="task?id=t%2f0">t/0</a>`)
		steps := 0
		for ; steps < 16; steps++ {
			links := boxLinks(page)
			if len(links) == 0 || len(links) > 60 {
				t.Fatalf("%d boxes", len(links))
			}
			last := links[len(links)-1]
			if strings.HasPrefix(last, "task?") {
				break
			}
			page = text(t, h, "/"+last)
		}
		wantParts(t, page, `href="task?id=t%2F9999" class="box blocked`)
		if steps > 5 {
			t.Errorf("there are %d steps", steps)
		}
	}
}

// All tasks of a box can be seen, page by page.
func TestNetwork_ListsEachTaskOfABox(t *testing.T) {
	t.Parallel()
	h := networkOf(aNetwork(3, 99))
	seen := 0
	next := "/network?id=book&of=film/1/photo/1&state=ready"
	for pages := 0; next != ""; pages++ {
		page := text(t, h, next)
		wantParts(t, page, "Tasks of the box “develop × 297”, ready", "of 297")
		seen += strings.Count(page, `<tr data-key="film/`)
		_, rest, more := strings.Cut(page, `rel="next" href="`)
		link, _, _ := strings.Cut(rest, `"`)
		if next = ""; more {
			next = "/" + strings.ReplaceAll(strings.TrimSuffix(link, "#list"), "&amp;", "&")
		}
		if pages > 3 {
			t.Fatal("the pages do not end")
		}
	}
	if seen != 297 {
		t.Errorf("%d tasks are listed", seen)
	}
}

// What is near a task has the conditions between its tasks, whatever others have.
func TestNetwork_ShowsConditionsNearATask(t *testing.T) {
	t.Parallel()
	graph := aChain(4, "act")
	other := stint.TaskInfo{ID: "other", Action: "act", State: stint.StateBlocked}
	graph.Tasks = append(graph.Tasks, other)
	graph.Dependencies = append(graph.Dependencies,
		stint.Dependency{Predecessor: other.ID, Dependent: "t/1"})
	graph.Conditions = []stint.EdgeCondition{{
		Dependent: "t/1",
		Condition: stint.Condition{After: "t/0", States: []stint.State{stint.StateAborted}},
	}}
	h := ui.New(aFake{graph: func(context.Context, stint.TaskID) (*stint.Graph, error) {
		return graph, nil
	}}, ui.Options{})
	for _, show := range []string{"near", "all"} {
		page := text(t, h, "/network?id=t/0&show="+show)
		wantParts(t, page, ">if aborted</text>")
		if got := strings.Count(page, `class="condition"`); got != 1 {
			t.Errorf("%d conditions are shown", got)
		}
	}
}

// The longest chain is of tasks that have not ended, and its first task says what it waits for.
func TestNetwork_MarksTheLongestChain(t *testing.T) {
	t.Parallel()
	graph := aNetwork(3, 2)
	graph.Tasks[1].State = stint.StateInProgress // the scan of the first film
	graph.Tasks[2].State, graph.Tasks[3].State = stint.StateBlocked, stint.StateBlocked
	h := ui.New(aFake{
		graph: func(context.Context, stint.TaskID) (*stint.Graph, error) { return graph, nil },
		explain: func(_ context.Context, id stint.TaskID) (stint.Explanation, error) {
			return stint.Explanation{Task: stint.TaskInfo{
				ID: id, State: stint.StateInProgress, Actor: "worker-7",
			}}, nil
		},
	}, ui.Options{})
	page := text(t, h, "/network?id=book")
	wantParts(t, page, "unfinished tasks has 3;",
		`<a href="task?id=film%2f0%2fscan">film/0/scan</a>`,
		`<a href="tasks?actor=worker-7">worker-7</a> owns it.`,
		`href="task?id=film%2F0%2Fscan" class="box in-progress chain"`,
		`href="task?id=film%2F0%2Fphoto%2F0" class="box blocked chain"`,
		`class="box blocked asked chain"`)
	if got := strings.Count(page, ` chain"`); got != 3+2 { // boxes, and arrows between them
		t.Errorf("%d boxes and arrows are marked", got)
	}
	for i := range graph.Tasks {
		graph.Tasks[i].State = stint.StateCompleted
	}
	if page = text(t, networkOf(graph), "/network?id=book"); strings.Contains(page, "chain\"") {
		t.Error("there is a chain of unfinished tasks where all have ended")
	}
}

// What is only a part of a network says so.
func TestNetwork_SaysThatItIsCut(t *testing.T) {
	t.Parallel()
	graph := aNetwork(2, 3)
	graph.Cut = true
	h := ui.New(aFake{graph: func(context.Context, stint.TaskID) (*stint.Graph, error) {
		return graph, nil
	}}, ui.Options{})
	wantParts(t, text(t, h, "/network?id=book"), "The nearest <strong>10 tasks</strong>",
		"of a larger network", "chain of unfinished tasks among these has 2")
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

// A box says how many of its tasks are in each state, those first of which one should know.
func TestNetwork_CountsTheStatesOfABox(t *testing.T) {
	t.Parallel()
	graph := aNetwork(1, 8000)
	for i := range graph.Tasks[2:8002] {
		state := stint.StateCompleted
		switch {
		case i < 2:
			state = stint.StateAborted
		case i < 100:
			state = stint.StateBlocked
		}
		graph.Tasks[i+2].State = state
	}
	page := text(t, networkOf(graph), "/network?id=book")
	_, box, _ := strings.Cut(page, "<title>develop × 8,000")
	box, _, _ = strings.Cut(box, "</a>")
	wantParts(t, box, "98 blocked\n7,900 completed\n2 aborted</title>")
	at := 0
	for _, part := range []string{
		"#i-aborted", ">2</text>", "#i-blocked", ">98</text>", "#i-completed", ">7,900</text>",
	} {
		found := strings.Index(box[at:], part)
		if found < 0 {
			t.Fatalf("the box lacks %s, or has it elsewhere:\n%s", part, box)
		}
		at += found
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
