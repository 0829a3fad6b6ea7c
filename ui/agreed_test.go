package ui_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// refusedNow agrees to a preview, and wants to be told that something else would come of it now.
func refusedNow(t *testing.T, h http.Handler, page, why string) {
	t.Helper()
	response := send(t, h, agreement(t, page))
	if content := body(t, response); response.StatusCode != http.StatusConflict ||
		!strings.Contains(content, why) || !strings.Contains(content, "Nothing was changed.") {
		t.Errorf("the answer is %s\n%s", response.Status, content)
	}
}

// Nobody changes more than they were told: tasks that depend on others since are not taken with
// these.
func TestChange_TakesNoMoreWithItThanWasSaid(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	for name, shown := range stores {
		h := ui.New(shown, open())
		id := func(n int) stint.TaskID { return stint.TaskID(fmt.Sprint(name, "/", n)) }
		behind := func(n int) stint.Task {
			return stint.Task{ID: id(n), Action: "behind", After: []stint.TaskID{id(0)}}
		}
		insert(t, store, stint.Task{ID: id(0), Action: "first"}, behind(1))
		page := previewOf(t, h, formWith(t, text(t, h, "/"+address("task", id(0))), "abort"))
		insert(t, store, behind(2))
		refusedNow(t, h, page, "more tasks that depend on these")
		wantStates(t, store, stint.StateReady, id(0))
		wantStates(t, store, stint.StateBlocked, id(1), id(2))
		page = previewOf(t, h, formWith(t, text(t, h, "/"+address("task", id(0))), "abort"))
		_, err := store.DeleteTasks(t.Context(), []stint.TaskID{id(2)}) // fewer are no surprise
		wantNil(t, err)
		agree(t, h, page)
		wantStates(t, store, stint.StateAborted, id(0), id(1))
	}
}

// What was paused anew is not resumed by somebody who saw the pause before, and a schedule that was
// changed is not triggered.
func TestChange_IsOfWhatWasSeen(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	h := ui.New(store, open())
	insert(t, store, stint.Task{ID: "a", Action: "mail", Key: "k"})
	by := stint.WithAuthor(t.Context(), stint.Author{Name: "ann", Reason: "moving"})
	nightly := stint.Schedule{
		Name: "nightly", Spec: "@daily", Tasks: []stint.Task{{Action: "report"}},
	}
	wantNil(t, store.PutSchedules(t.Context(), []stint.Schedule{nightly}))
	for page, pause := range map[string]struct{ pause, resume func() error }{
		"/action?name=mail": {
			func() error { return store.PauseKeys(by, "mail", "k") },
			func() error { return store.ResumeKeys(by, "mail", "k") },
		},
		"/schedules": {
			func() error { return store.PauseSchedules(by, "nightly") },
			func() error { return store.ResumeSchedules(by, "nightly") },
		},
	} {
		wantNil(t, pause.pause())
		seen := previewOf(t, h, formWith(t, text(t, h, page), "resume"))
		wantParts(t, seen, "It was paused", ">by ann</a>", "(“moving”)")
		wantNil(t, pause.resume())
		wantNil(t, pause.pause())
		refusedNow(t, h, seen, "It was paused anew")
		agree(t, h, previewOf(t, h, formWith(t, text(t, ui.New(store, open()), page), "resume")))
	}
	seen := previewOf(t, h, formWith(t, text(t, ui.New(store, open()), "/schedules"), "trigger"))
	nightly.Tasks = append(nightly.Tasks, stint.Task{ID: "more", Action: "report"})
	nightly.Tasks[0].ID = "first"
	wantNil(t, store.PutSchedules(t.Context(), []stint.Schedule{nightly}))
	refusedNow(t, h, seen, "Somebody has changed the schedule")
}
