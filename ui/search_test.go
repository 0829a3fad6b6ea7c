package ui_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// A list searches in bodies for those who may read them, and a change of all that it finds changes
// no others. Nobody else learns what bodies have: neither from a list nor from a preview.
// Proves G336.
func TestTasks_SearchInBodies(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, stint.Task{ID: "seven", Action: "act", Body: []byte(`{"n": 7}`)},
		stint.Task{ID: "eight", Action: "act", Body: []byte(`{"n": 8}`)},
		stint.Task{ID: "no JSON", Action: "act", Body: []byte(`{"n": 7`)})
	may := func(readBodies bool) http.Handler {
		return ui.New(store, ui.Options{Authorize: func(_ *http.Request, verb ui.Verb) bool {
			return readBodies || verb != ui.ReadBodies
		}})
	}
	const list, bad = "/tasks?body=%24.n+%3D%3D+7", "/tasks?body=%24.n+%3D+7"
	h, blind := may(true), may(false)
	page := text(t, h, list)
	wantParts(t, page, ">seven<", `name="body" value="$.n == 7"`,
		"stint ls --body=&#39;$.n == 7&#39; --newest")
	if strings.Contains(page, ">eight<") || strings.Contains(page, ">no JSON<") {
		t.Errorf("the list has others:\n%s", page)
	}
	if response := get(t, h, bad); response.StatusCode != http.StatusBadRequest {
		t.Errorf("a bad path is %s", response.Status)
	} else {
		wantParts(t, body(t, response), "Filter.Body must have a comparison")
	}
	if got := text(t, blind, "/tasks"); strings.Contains(got, `name="body"`) {
		t.Error("who may not read bodies is asked for a path")
	}
	for _, address := range []string{list, bad} {
		if response := get(t, blind, address); response.StatusCode != http.StatusForbidden {
			t.Errorf("%s is %s to who may not read bodies", address, response.Status)
		}
	}
	sent := formWith(t, text(t, blind, "/tasks"), "delete")
	sent.values.Set("of", "all")
	sent.values.Set("filter", strings.TrimPrefix(list, "/tasks?"))
	if response := send(t, blind, sent); response.StatusCode != http.StatusForbidden {
		t.Errorf("a preview is %s to who may not read bodies", response.Status)
	}
	agree(t, h, previewOf(t, h, formWith(t, page, "delete"), "of", "all"))
	left, err := store.ListTasks(t.Context(), stint.Filter{})
	if err != nil || len(left.Tasks) != 2 || left.Tasks[0].ID != "eight" {
		t.Errorf("left are %v, %v", left.Tasks, err)
	}
}

// A list finds a text in the last messages, also for those who may not read bodies, and a change of
// all that it finds changes no others.
// Proves G336.
func TestTasks_SearchInMessages(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	for id, status := range map[stint.TaskID]string{"late": "It Timed out, 50%", "other": "5000"} {
		insert(t, store, stint.Task{ID: id, Action: "act"})
		_, err := store.AbortTasks(t.Context(), []stint.TaskID{id}, status)
		if err != nil {
			t.Fatal(err)
		}
	}
	h := ui.New(store, ui.Options{Authorize: func(_ *http.Request, verb ui.Verb) bool {
		return verb != ui.ReadBodies
	}})
	page := text(t, h, "/tasks?message=timed+OUT%2C+50%25")
	wantParts(t, page, ">late<", `name="message" value="timed OUT, 50%"`, "<details open>",
		"stint ls --message=&#39;timed OUT, 50%&#39; --newest", "all that pass the filter")
	if strings.Contains(page, ">other<") {
		t.Errorf("the list has others:\n%s", page)
	}
	response := get(t, h, "/tasks?message="+strings.Repeat("x", 513))
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("a long text is %s", response.Status)
	}
	wantParts(t, body(t, response), "Filter.Status bytes")
	agree(t, h, previewOf(t, h, formWith(t, page, "delete"), "of", "all"))
	left, err := store.ListTasks(t.Context(), stint.Filter{})
	if err != nil || len(left.Tasks) != 1 || left.Tasks[0].ID != "other" {
		t.Errorf("left are %v, %v", left.Tasks, err)
	}
}
