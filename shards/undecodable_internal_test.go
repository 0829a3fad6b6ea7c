package shards

import (
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

// What this release does not understand waits for one that does: nothing of an insert is lost.
// Proves G294.
func TestTasksOfRelays_ThatCannotBeDecodedWait(t *testing.T) {
	t.Parallel()
	c := &Cluster{}
	for _, body := range []string{"", "{", `"of another type"`, `[1]`} {
		task := &worker.Task{OwnedTask: stint.OwnedTask{ID: "a", Body: []byte(body)}}
		_, decision := c.performDecision(t.Context(), task)
		_, guarded := c.performGuard(t.Context(), "1", task)
		_, linked := c.performLink(t.Context(), task)
		for what, err := range map[string]error{
			"decision": decision, "guard": guarded, "link": linked,
		} {
			if err == nil || !strings.HasPrefix(err.Error(), "snoozed for ") {
				t.Errorf("%s %q: %v, want it put off", what, body, err)
			}
		}
		one := &reporter{owned: task.OwnedTask}
		_, one.broken = unmarshalReport(task.OwnedTask)
		got := (&reports{tasks: []*reporter{one}}).returns(false)[0]
		if got.Code != stint.StatusPending || got.RetryAfter == 0 || got.Status == "" {
			t.Errorf("report %q: %+v, want it put off", body, got)
		}
	}
}
