package recipes

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/stinttest"
)

// serveInTurn has tasks of a customer, who is their key, performed one after the other.
func serveInTurn(ctx context.Context, store *stint.Store) error {
	return store.SetLimits(ctx, "serve", stint.Limits{ConcurrencyPerKey: 1})
}

// A customer's next task is handed out once the one before has ended, and others need not wait.
func TestServeInTurn_ServesACustomerInTurn(t *testing.T) {
	t.Parallel()
	store := stinttest.New(t, stint.Options{})
	if err := serveInTurn(t.Context(), store.Store); err != nil {
		t.Fatalf("serveInTurn = %v", err)
	}
	for _, id := range []stint.TaskID{"a1", "a2", "b1", "a3"} {
		insert(t, store, stint.Task{ID: id, Action: "serve", Key: string(id[:1])})
	}
	for _, want := range [][]stint.TaskID{{"a1", "b1"}, {"a2"}, {"a3"}} {
		owned, err := store.OwnTasks(t.Context(), "worker", 10, []string{"serve"}, time.Minute)
		if err != nil {
			t.Fatalf("OwnTasks = %v", err)
		}
		var got []stint.TaskID
		for _, task := range owned {
			got = append(got, task.ID)
			err := store.ReturnTask(t.Context(), task.ID, task.Token, "", stint.StatusCompleted)
			if err != nil {
				t.Fatalf("ReturnTask = %v", err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v were handed out, want %v", got, want)
		}
	}
}

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
