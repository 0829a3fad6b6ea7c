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
