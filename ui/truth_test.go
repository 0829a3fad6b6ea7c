package ui_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui"
)

// An action is known to those who insert it by a schedule, or perform it, though no task has it.
func TestAction_IsKnownToSchedulesAndActors(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	err := store.PutSchedules(t.Context(), []stint.Schedule{{
		Name: "nightly", Spec: "@daily", Tasks: []stint.Task{{Action: "report"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.RegisterActor(t.Context(), "worker-1", []string{"print"}); err != nil {
		t.Fatal(err)
	}
	h := ui.New(store, ui.Options{})
	wantParts(t, text(t, h, "/action?name=report"), "Schedules", "nightly")
	wantParts(t, text(t, h, "/action?name=print"), "worker-1")
	wantParts(t, text(t, h, "/action?name=none"), "Nothing is known of this action")
}

// A debounced task is shown with the body that it has now.
func TestTask_ShowsTheBodyOfADebouncedTask(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	h := ui.New(store, ui.Options{})
	debounce := func(body string) {
		t.Helper()
		err := store.Debounce(t.Context(), stint.Task{
			ID: "a", Action: "index", Body: []byte(body),
		}, time.Hour, 2*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
	}
	debounce("the first body")
	wantParts(t, text(t, h, "/task?id=a"), "the first body")
	debounce("the second body")
	// Answers are shared for a second.
	for begun := time.Now(); ; <-time.After(50 * time.Millisecond) {
		page := text(t, h, "/task?id=a")
		if strings.Contains(page, "the second body") {
			return
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("the page still shows the first body")
		}
	}
}

// A task whose owner nobody watches is on the page of actors, though no actor is registered.
func TestActors_NamesOwnersThatNobodyWatches(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	h := ui.New(store, ui.Options{})
	insert(t, store, stint.Task{ID: "a", Action: "mail"}, stint.Task{ID: "b", Action: "mail"})
	own := func(actor stint.ActorID) {
		t.Helper()
		owned, err := store.OwnTasks(t.Context(), actor, 1, []string{"mail"}, 10*24*time.Hour)
		if err != nil || len(owned) != 1 {
			t.Fatalf("OwnTasks = %v, %v", owned, err)
		}
	}
	if err := store.RegisterActor(t.Context(), "registered", []string{"mail"}); err != nil {
		t.Fatal(err)
	}
	own("registered")
	own("vanished")
	page := text(t, h, "/actors")
	wantParts(t, page, "1 registered actor owns 1 task", "Owners that nobody watches",
		`href="tasks?actor=vanished"`)
	wantParts(t, text(t, h, "/task?id=b"), "Nobody watches the process of its owner")
	found, err := store.Problems(t.Context(), 10)
	if err != nil || len(found.Unwatched) != 1 || found.Unwatched[0].ID != "b" {
		t.Errorf("Problems = %+v, %v, want b as unwatched", found.Unwatched, err)
	}
}
