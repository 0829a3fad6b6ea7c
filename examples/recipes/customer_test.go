package recipes

import (
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/stinttest"
)

// Dependencies do not keep tasks apart when one of them is retried, as the page warns.
func TestDependencies_DoNotExclude(t *testing.T) {
	t.Parallel()
	store := stinttest.New(t, stint.Options{})
	insert(t, store, stint.Task{ID: "1", Action: "serve"},
		stint.Task{ID: "2", Action: "serve", After: []stint.TaskID{"1"}})
	own := func(want stint.TaskID) stint.OwnedTask {
		t.Helper()
		owned, err := store.OwnTasks(t.Context(), "worker", 1, []string{"serve"}, time.Minute)
		if err != nil || len(owned) != 1 || owned[0].ID != want {
			t.Fatalf("OwnTasks = %v, %v, want %s", owned, err, want)
		}
		return owned[0]
	}
	first := own("1")
	err := store.ReturnTask(t.Context(), first.ID, first.Token, "", stint.StatusCompleted)
	if err != nil {
		t.Fatalf("ReturnTask = %v", err)
	}
	own("2")
	if _, err := store.RetryTasks(t.Context(), []stint.TaskID{"1"}); err != nil {
		t.Fatalf("RetryTasks = %v", err)
	}
	own("1") // while 2 is in progress
}
