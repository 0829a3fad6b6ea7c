package stint_test

import (
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// What only an aborted task needed stays if that was opened meanwhile, and perhaps aborted again,
// or if somebody may wait for one of them since.
// Proves G68.
func TestFailFast_SparesWhatIsNeededAgainAtTheLastLook(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	failed := after("failed", "needed")
	failed.FailFast = true
	insert(t, store, stint.Task{ID: "needed", Action: "act"}, failed)
	wantErr(t, "AbortTasks",
		errOf(store.AbortTasks(t.Context(), []stint.TaskID{"failed"}, "")), nil)
	ended := info(t, store, "failed").FinishedAt
	key := func(id stint.TaskID) int64 {
		return yields[int64](t, pool, "SELECT key FROM stint.tasks WHERE id = $1", string(id))
	}
	needed := func(finishedAt time.Time) bool {
		return yields[bool](t, pool, statements(t)["still_needed"],
			[]int64{key("needed")}, key("failed"), finishedAt)
	}
	if needed(ended) {
		t.Error("what only an aborted task needs is needed")
	}
	if !needed(ended.Add(-time.Second)) {
		t.Error("what is needed by a task that has ended at another time is not needed")
	}
	exec(t, pool, "UPDATE stint.tasks SET post_result = true WHERE id = 'needed'")
	if !needed(ended) {
		t.Error("what somebody may wait for is not needed")
	}
}
