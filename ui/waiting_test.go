package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// Scheduled tasks are started, one from its page or all that pass a filter, and what waits for them
// still does.
// Proves G219, G221.
func TestChange_RunsTasksNow(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	for name, shown := range stores {
		h := ui.New(shown, open())
		id := func(short string) stint.TaskID { return stint.TaskID(name + "/" + short) }
		later := time.Now().Add(time.Hour)
		insert(t, store, stint.Task{ID: id("a"), Action: name, NotBefore: later},
			stint.Task{ID: id("b"), Action: name, NotBefore: later},
			stint.Task{ID: id("c"), Action: name, NotBefore: later},
			stint.Task{ID: id("d"), Action: name},
			stint.Task{ID: id("a+"), Action: name, After: []stint.TaskID{id("a")}})
		page := previewOf(t, h, formWith(t, text(t, h, "/"+address("task", id("a"))), "run"))
		wantParts(t, page, "Starts 1 task.", "They may begin at once", "stint change",
			"--start-now")
		wantStates(t, store, stint.StateScheduled, id("a"))
		form := agreement(t, page)
		wantParts(t, agree(t, h, page), "Started 1 task.")
		wantStates(t, store, stint.StateReady, id("a"))
		wantStates(t, store, stint.StateBlocked, id("a+"))
		response := send(t, h, form) // a second click
		wantParts(t, text(t, h, response.Header.Get("Location")[1:]), "Nothing was changed")
		for _, states := range []string{"&state=completed&state=scheduled&state=ready", ""} {
			list := text(t, h, "/tasks?action="+name+states)
			page = previewOf(t, h, formWith(t, list, "run"), "of", "all")
			wantParts(t, page, "Starts 2 tasks.",
				">stint change --state=scheduled --action="+name+" --start-now<")
		}
		wantParts(t, agree(t, h, page), "Started 2 tasks.")
		wantStates(t, store, stint.StateReady, id("b"), id("c"), id("d"))
		if page := text(t, h, "/"+address("task", id("d"))); strings.Contains(page, `"run"`) {
			t.Errorf("a ready task is offered to be run now:\n%s", page)
		}
	}
}

// asking is the form of a page that asks for more before it says what would change.
func asking(t *testing.T, page string) sentForm {
	t.Helper()
	for _, form := range formsOf(t, page) {
		if form.action == "preview" {
			return form
		}
	}
	t.Fatalf("nothing is asked for on\n%s", page)
	return sentForm{}
}

// Of tasks that wait the form changes what is filled in, and names those that have begun.
// Proves G219, G221.
func TestChange_ChangesHowTasksWait(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	for name, shown := range stores {
		h := ui.New(shown, open())
		id := func(short string) stint.TaskID { return stint.TaskID(name + "/" + short) }
		insert(t, store, stint.Task{ID: id("owned"), Action: "owned"},
			stint.Task{ID: id("a"), Action: name, Key: "old"},
			stint.Task{ID: id("a+"), Action: "behind", After: []stint.TaskID{id("a")}})
		own(t, store, "owned")
		form := formWith(t, text(t, h, "/tasks?prefix="+name+"/"), "change")
		form.values["task"] = form.boxes
		asks := previewOf(t, h, form)
		wantParts(t, asks, "What is left empty stays as it is")
		again := body(t, send(t, h, asking(t, asks)))
		wantParts(t, again, "Say what is to be changed.")
		for field, wrong := range map[string]string{
			"set-priority": "high", "set-max-tries": "0", "start": "soon", "start-at": "tomorrow",
			"set-key": strings.Repeat("k", 256),
		} {
			again := body(t, send(t, h, asking(t, asks), field, wrong))
			wantParts(t, again, `role="alert"`, "What is left empty stays as it is")
		}
		key := "'\"\u00e4 <b>"
		page := body(t, send(t, h, asking(t, asks), "set-priority", "-7", "set-max-tries", "3",
			"set-key", key, "start", "1h0m0s"))
		wantParts(t, page, "Changes 2 tasks.", "Their priority is -7.", "They are tried 3 times",
			"They begin", "Left out", "in progress, or ended already", string(id("owned")))
		agreed := agreement(t, page)
		wantParts(t, agree(t, h, page), "Changed 2 tasks.", "in progress, or ended already")
		found, err := store.GetTasks(t.Context(), []stint.TaskID{id("a"), id("a+")})
		wantNil(t, err)
		for _, task := range found {
			if task.Priority != -7 || task.Key != key || task.MaxTries != 3 ||
				time.Until(task.NotBefore) < 50*time.Minute {
				t.Errorf("%s: the task is %+v", name, task)
			}
		}
		wantStates(t, store, stint.StateBlocked, id("a+"))
		response := send(t, h, agreed) // a second click moves nothing again
		wantParts(t, text(t, h, response.Header.Get("Location")[1:]), "Nothing was changed")
		page = body(t, send(t, h, asking(t, asks), "no-key", "true", "start", "now"))
		wantParts(t, page, "They have no key.", "They may begin at once")
		agree(t, h, page)
		wantStates(t, store, stint.StateReady, id("a"))
		page = body(t, send(t, h, asking(t, asks), "start-at", "2099-12-24T18:00"))
		agree(t, h, page)
		found, err = store.GetTasks(t.Context(), []stint.TaskID{id("a")})
		wantNil(t, err)
		if got := found[0].NotBefore.UTC(); got != time.Date(2099, 12, 24, 18, 0, 0, 0, time.UTC) {
			t.Errorf("%s: the task starts at %v", name, got)
		}
	}
}

// What was never asked for is not agreed to.
func TestChange_NeedsToBeToldHowTasksWait(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "mail"})
	h := ui.New(store, open())
	asks := asking(t, previewOf(t, h, formWith(t, text(t, h, "/task?id=a"), "change")))
	values := url.Values{"states": {"ready"}, "reason": {""}}
	for _, name := range []string{"do", "at", "back", "task"} {
		values[name] = asks.values[name]
	}
	if response := post(t, h, "/change", values.Encode()); response.StatusCode !=
		http.StatusBadRequest {
		t.Errorf("a change to nothing: %s", response.Status)
	}
}
