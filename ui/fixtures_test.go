package ui_test

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/ui"
)

var _ ui.Store = (*client.Client)(nil)

func TestMain(m *testing.M) { testdb.Main(m) }

// newStore is a store on a database of its own.
func newStore(t *testing.T) *stint.Store {
	t.Helper()
	store, err := stint.New(testdb.New(t), stint.Options{History: stint.HistoryOptions{Tries: 10}})
	wantNil(t, err)
	t.Cleanup(func() { wantNil(t, store.Close(context.WithoutCancel(t.Context()))) })
	return store
}

// aFake is a store whose verbs answer as told, and otherwise with nothing.
type aFake struct {
	stats    func(ctx context.Context) (stint.Stats, error)
	problems func(ctx context.Context, limit int) (stint.Problems, error)
	explain  func(ctx context.Context, id stint.TaskID) (stint.Explanation, error)
	graph    func(ctx context.Context, id stint.TaskID) (*stint.Graph, error)
	list     func(ctx context.Context, filter stint.Filter) (stint.TaskPage, error)
	get      func(ctx context.Context, ids []stint.TaskID) ([]stint.TaskInfo, error)
	history  stint.History
}

func (f aFake) Stats(ctx context.Context) (stint.Stats, error) {
	if f.stats == nil {
		return stint.Stats{}, nil
	}
	return f.stats(ctx)
}

func (f aFake) Problems(ctx context.Context, limit int) (stint.Problems, error) {
	if f.problems == nil {
		return stint.Problems{}, nil
	}
	return f.problems(ctx, limit)
}

func (f aFake) ListActors(context.Context) ([]stint.ActorInfo, error) { return nil, nil }

func (f aFake) ListTasks(ctx context.Context, filter stint.Filter) (stint.TaskPage, error) {
	if f.list == nil {
		return stint.TaskPage{}, nil
	}
	return f.list(ctx, filter)
}

func (f aFake) GetTasks(ctx context.Context, ids []stint.TaskID) ([]stint.TaskInfo, error) {
	if f.get == nil {
		return []stint.TaskInfo{{ID: ids[0]}}, nil
	}
	return f.get(ctx, ids)
}

func (f aFake) Explain(ctx context.Context, id stint.TaskID) (stint.Explanation, error) {
	if f.explain == nil {
		return stint.Explanation{Task: stint.TaskInfo{ID: id}}, nil
	}
	return f.explain(ctx, id)
}

func (f aFake) History(context.Context, stint.TaskID) (stint.History, error) {
	return f.history, nil
}

func (f aFake) Graph(ctx context.Context, id stint.TaskID) (*stint.Graph, error) {
	if f.graph == nil {
		return &stint.Graph{Tasks: []stint.TaskInfo{{ID: id}}}, nil
	}
	return f.graph(ctx, id)
}

// pageNames are the addresses of all pages, with a task to show.
func pageNames(id stint.TaskID) []string {
	return []string{
		"", "problems", "tasks", "waiting", "actions", "actors", "limits", "schedules", "check",
		"changes", address("task", id), "action?name=mail", address("network", id),
		address("layout", id), address("value", id),
	}
}

func address(page string, id stint.TaskID) string {
	return page + "?id=" + url.QueryEscape(string(id))
}

// get asks a handler for a page.
func get(t *testing.T, h http.Handler, target string, headers ...string) *http.Response {
	t.Helper()
	return ask(t, h, http.MethodGet, target, headers...)
}

func ask(
	t *testing.T, h http.Handler, method, target string, headers ...string,
) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// text is a page that must be there.
func text(t *testing.T, h http.Handler, target string) string {
	t.Helper()
	response := get(t, h, target)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s", target, response.Status)
	}
	return body(t, response)
}

func body(t *testing.T, response *http.Response) string {
	t.Helper()
	content, err := io.ReadAll(response.Body)
	wantNil(t, err)
	return string(content)
}

func wantNil(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until ok returns true.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	const every, longest = 20 * time.Millisecond, 20 * time.Second
	tick, late := time.NewTicker(every), time.After(longest)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it has not happened")
		}
	}
}

func wantParts(t *testing.T, page string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q:\n%s", part, page)
		}
	}
}

// A parsedPage is what a page has.
type parsedPage struct {
	elements map[string]int
	ids      map[string]int
	links    []string // what it names: pages, styles, scripts
	text     string
}

// parse reads a page as a browser would, and refuses what the Content-Security-Policy forbids.
func parse(tb testing.TB, page string) parsedPage {
	tb.Helper()
	page = strings.Map(inXML, page)
	found := parsedPage{elements: map[string]int{}, ids: map[string]int{}}
	decoder := xml.NewDecoder(strings.NewReader(page))
	decoder.Strict, decoder.AutoClose, decoder.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var seen strings.Builder
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			found.text = seen.String()
			return found
		}
		if err != nil {
			tb.Fatalf("%v in\n%s", err, page)
		}
		switch token := token.(type) {
		case xml.CharData:
			seen.Write(token)
		case xml.StartElement:
			found.elements[token.Name.Local]++
			for _, a := range token.Attr {
				name := a.Name.Local
				switch {
				case name == "style", strings.HasPrefix(name, "on"):
					tb.Errorf("element %s has the attribute %s", token.Name.Local, name)
				case name == "id":
					if found.ids[a.Value]++; found.ids[a.Value] > 1 {
						tb.Errorf("several elements have the id %q", a.Value)
					}
				case name == "href", name == "src", name == "action":
					found.links = append(found.links, a.Value)
				}
			}
		}
	}
}

// private is where letters are moved that a document of XML cannot hold, and HTML can.
const private = 0xe000

func inXML(r rune) rune {
	if r < ' ' && r != '\n' && r != '\t' && r != '\r' || r&0xfffe == 0xfffe {
		return private + r&0xff
	}
	return r
}

// insert inserts tasks.
func insert(t *testing.T, store *stint.Store, tasks ...stint.Task) {
	t.Helper()
	wantNil(t, store.InsertTasks(t.Context(), tasks))
}

// own owns all tasks of an action that are ready.
func own(t *testing.T, store *stint.Store, action string) []stint.OwnedTask {
	t.Helper()
	owned, err := store.OwnTasks(t.Context(), "worker-1", 100, []string{action}, time.Minute)
	wantNil(t, err)
	return owned
}
