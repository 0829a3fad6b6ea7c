package stint_test

import (
	"testing"

	"github.com/stint-tasks/stint"
)

// What waits for a final task may be waited for by that task's predecessor: no cycle, until the
// task is opened again.
func TestRetryTasks_RefusesWhatWouldWaitForItself(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	ctx := t.Context()
	insert(t, store, after("x"), after("down", "x"), anyway("y", "down"))
	wantErr(t, "AbortTasks", store.AbortTasks(ctx, []stint.TaskID{"down"}, ""), nil)
	wantErr(t, "AddDependencies", addDependency(t, store, "y", "x"), nil)
	wantErr(t, "RetryTasks", store.RetryTasks(ctx, []stint.TaskID{"down"}), stint.ErrCycle)
	wantState(t, store, stint.StateAborted, "down")
	if got := completeAll(t, store); len(got) != 2 {
		t.Errorf("completed %q, want y and x", got)
	}
	wantErr(t, "RetryTasks", store.RetryTasks(ctx, []stint.TaskID{"down"}), nil)
	if got := completeAll(t, store); len(got) != 1 {
		t.Errorf("completed %q, want the task that was down", got)
	}
}

// A task that completed has aborted nothing: who waited for another one, too, and was aborted for
// that one, stays down.
func TestRetryTasks_LeavesDownWhatACompletedTaskDidNotBringDown(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("a"), after("b"), after("both", "a", "b"))
	fail(t, store, "b")
	finish(t, store, "a", stint.StatusCompleted)
	wantErr(t, "DeleteTasks", store.DeleteTasks(t.Context(), []stint.TaskID{"b"}), nil)
	retry(t, store, "a")
	wantState(t, store, stint.StateAborted, "both")
}
