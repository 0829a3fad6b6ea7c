package ui_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui"
)

// A list has the columns that its address names, and keeps them; bodies are for those who may read
// them, and bounded.
func TestTasks_HaveTheColumnsChosen(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store,
		stint.Task{ID: "a", Action: "mail", Key: "acme", Priority: -7, Body: []byte(`{"to": 1}`)},
		stint.Task{ID: "b", Action: "mail", Body: []byte{0xff, 0x00}},
		stint.Task{ID: "c", Action: "mail", Body: []byte(strings.Repeat("x", 3000))})
	h := ui.New(store, ui.Options{})
	if page := text(t, h, "/tasks"); strings.Contains(page, "tasks?key=acme") ||
		strings.Contains(page, "Priority</th>") || strings.Contains(page, "Took</th>") {
		t.Error("columns are shown that nobody has chosen")
	}
	page := text(t, h, "/tasks?prefix=&with-key=true&with-priority=true&with-body=true")
	wantParts(t, page, `<a href="tasks?key=acme">acme</a>`, `<td class="n">-7</td>`,
		`<td class="body">{&#34;to&#34;: 1}</td>`, `<td class="body">2 bytes</td>`,
		`name="with-key" value="true" checked`)
	if strings.Contains(page, "xxx") {
		t.Error("a large body is shown")
	}
	if r := get(t, h, "/tasks?with-key=yes"); r.StatusCode != http.StatusBadRequest {
		t.Errorf("an unknown value: %s", r.Status)
	}
	blind := ui.New(store, ui.Options{Authorize: func(_ *http.Request, verb ui.Verb) bool {
		return verb == ui.Read
	}})
	if r := get(t, blind, "/tasks?with-body=true"); r.StatusCode != http.StatusForbidden {
		t.Errorf("bodies for somebody who may not read them: %s", r.Status)
	}
	r := get(t, h, "/tasks?with-body=true", "Accept-Encoding", "gzip", "Sec-Fetch-Site", "none")
	if r.Header.Get("Content-Encoding") != "" {
		t.Error("a page with bodies is compressed")
	}
}

// Of a task that its owner has returned, the list says how long that took since it was fetched.
func TestTasks_SayHowLongTheyTook(t *testing.T) {
	t.Parallel()
	inserted := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	h := ui.New(aFake{list: func(context.Context, stint.Filter) (stint.TaskPage, error) {
		return stint.TaskPage{Tasks: []stint.TaskInfo{
			{
				ID: "ended", State: stint.StateCompleted, InsertedAt: inserted.Add(-time.Hour),
				OwnedAt: inserted, FinishedAt: inserted.Add(2500 * time.Millisecond),
			},
			{ID: "not yet", State: stint.StateReady, InsertedAt: inserted},
		}}, nil
	}}, ui.Options{})
	page := text(t, h, "/tasks?prefix=&with-took=true")
	wantParts(t, page, ">Took</th>", `<td class="n">2.5 s</td>`, `<td class="n"></td>`)
}
