package stint_test

import (
	"testing"

	"github.com/stint-tasks/stint"
)

func TestWaitForTask_ReturnsWhenTheTaskHasFinished(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "act", PostResult: true})
	done := make(chan error, 1)
	go func() {
		got, err := store.WaitForTask(t.Context(), "a")
		if err == nil && (got.StatusCode != stint.StatusCompleted || got.Status != "ok") {
			t.Errorf("got %+v", got)
		}
		done <- err
	}()
	task := ownOne(t, store)
	if err := store.ReturnTask(t.Context(), task.ID, task.Token, "ok", stint.StatusCompleted); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
