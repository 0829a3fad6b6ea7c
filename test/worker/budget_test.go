package worker_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

// What a handler says that a try has cost counts, however the try ends.
// Proves G342.
func TestTask_SaysWhatItHasSpent(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	rate := stint.Rate{Tasks: 100, Per: time.Hour, Burst: 100}
	wantErr(t, "SetLimits",
		store.SetLimits(t.Context(), "a", stint.Limits{Rate: rate, ByCost: true}), nil)
	insert(t, store, stint.Task{ID: "a", Action: "a", Cost: 30})
	for _, spent := range []int{10, 80} {
		performs(t, store, func(_ context.Context, task *worker.Task) error {
			task.SetSpent(spent)
			if task.Try == 1 {
				return worker.RetryAfter(0)
			}
			return nil
		})
	}
	owned, err := store.OwnTasks(t.Context(), "x", 1, []string{"a"}, time.Hour) // settles
	if err != nil || len(owned) > 0 {
		t.Errorf("OwnTasks = %v, %v", owned, err)
	}
	list, err := store.ListLimits(t.Context(), "a")
	if err != nil || len(list) != 1 || math.Abs(list[0].Tokens-10) > 1 {
		t.Errorf("ListLimits = %+v, %v, want 10 tokens", list, err)
	}
}

// A cost that cannot be counts as the nearest that can be, and the task is returned.
func TestTask_SaysItHasSpentWhatCannotBe(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	for i, spent := range []int{-1, math.MaxInt} {
		insert(t, store, stint.Task{ID: stint.TaskID(fmt.Sprint(i)), Action: "a"})
		performs(t, store, func(_ context.Context, task *worker.Task) error {
			task.SetSpent(spent)
			return nil
		})
	}
	infos, err := store.GetTasks(t.Context(), []stint.TaskID{"0", "1"})
	wantErr(t, "GetTasks", err, nil)
	for _, info := range infos {
		if info.State != stint.StateCompleted {
			t.Errorf("task %s is %s", info.ID, info.State)
		}
	}
}
