package ui_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// Whatever IDs, keys and names hold, forms bring it to where it belongs.
func TestChange_TakesAnyText(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	h := ui.New(store, open())
	texts := append(hostileTexts(), "\r\n", "a\rb\n", "'\"", strings.Repeat("\U0001f600", 63))
	for _, hostile := range testrun.Some(texts) {
		id := stint.TaskID(hostile)
		insert(t, store, stint.Task{ID: id, Action: hostile, Key: hostile})
		page := previewOf(t, h, formWith(t, text(t, h, "/"+address("task", id)), "abort"))
		agree(t, h, page, "reason", hostile)
		wantStates(t, store, stint.StateAborted, id)
		list := text(t, h, "/tasks?key="+url.QueryEscape(hostile))
		form := formWith(t, list, "retry")
		form.values["task"] = form.boxes
		agree(t, h, previewOf(t, h, form))
		wantStates(t, store, stint.StateReady, id)
		agree(t, h, previewOf(t, h, formWith(t, list, "delete"), "of", "all"))
		wantStates(t, store, "gone", id)
		insert(t, store, stint.Task{ID: id, Action: hostile, Key: hostile})
		action := "/action?name=" + url.QueryEscape(hostile)
		agree(t, h, previewOf(t, h, formWith(t, text(t, h, action), "pause")))
		wantNil(t, store.PauseKeys(t.Context(), hostile, hostile))
		for range 2 { // the action, and its key
			agree(t, h, previewOf(t, h, formWith(t, text(t, h, action), "resume")))
		}
		limits, err := store.ListLimits(t.Context(), hostile)
		wantNil(t, err)
		if len(limits) > 0 {
			t.Errorf("%q is still paused: %+v", hostile, limits)
		}
		agree(t, h, previewOf(t, h, formWith(t, text(t, h, action), "limit")), "concurrency", "7")
		limits, err = store.ListLimits(t.Context(), hostile)
		wantNil(t, err)
		if len(limits) != 1 || limits[0].Limits.Concurrency != 7 {
			t.Errorf("the limits of %q are %+v", hostile, limits)
		}
	}
}

// Forms of a page with 1,000 tasks are read, and those that are too large or are not of these pages
// are refused, with nothing changed.
func TestChange_ReadsFormsWithinBounds(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	h := ui.New(store, ui.Options{Authorize: everything, Logger: slog.New(slog.DiscardHandler)})
	const n = 1000
	long := strings.Repeat("\U0001f600", 120)
	tasks := make([]stint.Task, n)
	for i := range tasks {
		tasks[i] = stint.Task{ID: stint.TaskID(fmt.Sprint(long, i)), Action: "mail"}
	}
	insert(t, store, tasks...)
	form := formWith(t, text(t, h, "/tasks?size=1000"), "abort")
	form.values["task"] = form.boxes
	page := previewOf(t, h, form)
	wantParts(t, page, "Aborts 1,000 tasks.")
	agreed := agreement(t, page)
	for what, change := range map[string]struct {
		code int
		edit func(url.Values)
	}{
		"a huge form": {http.StatusRequestEntityTooLarge, func(v url.Values) {
			v.Set("reason", strings.Repeat("x", 9<<20))
		}},
		"too many tasks": {http.StatusRequestEntityTooLarge, func(v url.Values) {
			v["task"] = slices.Repeat(v["task"], 11)
		}},
		"no UTF-8": {http.StatusBadRequest, func(v url.Values) { v.Set("reason", "\xff") }},
		"a zero":   {http.StatusBadRequest, func(v url.Values) { v.Set("reason", "a\x00") }},
		"no tasks": {http.StatusBadRequest, func(v url.Values) { v.Del("task") }},
		"nonsense": {http.StatusBadRequest, func(v url.Values) { v.Set("task", "%%%") }},
		"a piece": {http.StatusBadRequest, func(v url.Values) {
			v.Set("task", v.Get("task")[:40])
		}},
		"a zero in IDs": {http.StatusBadRequest, func(v url.Values) { v.Set("task", "AQAAAA") }},
		"other states": {http.StatusBadRequest, func(v url.Values) {
			v.Set("states", "ready,done")
		}},
		"no such change": {http.StatusBadRequest, func(v url.Values) { v.Set("do", "drop") }},
		"no time":        {http.StatusBadRequest, func(v url.Values) { v.Del("at") }},
	} {
		values := url.Values{}
		for name := range agreed.values {
			values[name] = slices.Clone(agreed.values[name])
		}
		change.edit(values)
		response := post(t, h, "/change", values.Encode())
		if content := body(t, response); response.StatusCode != change.code {
			t.Errorf("%s: %s\n%s", what, response.Status, content)
		}
	}
	if response := post(t, h, "/change", "do=abort&%zz"); response.StatusCode !=
		http.StatusBadRequest {
		t.Errorf("a form with a bad escape: %s", response.Status)
	}
	wantStates(t, store, stint.StateReady, tasks[0].ID, tasks[n-1].ID)
	wantParts(t, agree(t, h, page), "Aborted 1,000 tasks.")
	wantStates(t, store, stint.StateAborted, tasks[0].ID, tasks[n-1].ID)
}

// Proxies take only so much: the address of the page that tells of a change stays short.
func TestChange_LeadsToAShortAddress(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	h := ui.New(store, open())
	long := strings.Repeat("任", 160)
	var tasks []stint.Task
	for i := range 50 {
		tasks = append(tasks, stint.Task{ID: stint.TaskID(fmt.Sprint(long, i)), Action: "mail"})
	}
	insert(t, store, tasks...)
	list := "/tasks?prefix=" + url.QueryEscape(long)
	page := previewOf(t, h, formWith(t, text(t, h, list), "abort"), "of", "all")
	response := send(t, h, agreement(t, page))
	if to := response.Header.Get("Location"); len(to) > 3<<10 {
		t.Errorf("it leads to %d bytes: %s", len(to), to)
	}
	wantParts(t, text(t, h, response.Header.Get("Location")[1:]), "Aborted 50 tasks.",
		`href="tasks">Back`)
	if page := text(t, h, list); !strings.Contains(page, "aborted") {
		t.Errorf("they are not aborted:\n%s", page)
	}
}

// Links back lead to pages of the handler's, whatever a form says.
func TestChange_LeadsBackToItsPages(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "mail"})
	h := ui.New(store, open())
	form := formWith(t, text(t, h, "/task?id=a"), "abort")
	for back, want := range map[string]string{
		"tasks?key=%0A&action=b": "tasks?action=b&amp;key=%0A",
		"https://evil.example/":  "./", "//evil.example/tasks": "./",
		"javascript:alert(1)": "./", "change?do=abort": "./", "tasks?%zz": "./",
		"../tasks": "./", "tasks/../..//evil": "./", "": "./", "task?id=%00": "./",
	} {
		page := previewOf(t, h, form, "back", back)
		wantParts(t, page, `<a class="button quiet" href="`+want+`">Change nothing</a>`)
		response := get(t, h, "/changed?do=abort&tasks=1&back="+url.QueryEscape(back))
		wantParts(t, body(t, response), `href="`+want+`">`)
	}
}
