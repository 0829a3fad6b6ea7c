package stint_test

import (
	"testing"
	"time"

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

func TestAwaitTasks_IsWoken(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{PollInterval: time.Hour})
	_ = pool
	done := make(chan error, 1)
	go func() {
		got, err := store.AwaitTasks(t.Context(), "me", 1, []string{"act"}, time.Hour)
		if err == nil && len(got) != 1 {
			t.Errorf("got %+v", got)
		}
		done <- err
	}()
	time.Sleep(300 * time.Millisecond)
	insert(t, store, stint.Task{ID: "a", Action: "act", PostResult: true})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	_ = store.Close(t.Context())
}
