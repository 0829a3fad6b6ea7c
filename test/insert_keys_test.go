package stint_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A server that was restored, or took over from one that had more, may give out keys again that a
// store has used.
func TestInsertTasks_TakesOtherKeysIfTheServerRepeatsThem(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, task := range map[string]stint.Task{
		"ready":            {},
		"scheduled":        {NotBefore: time.Now().Add(time.Hour)},
		"with a deadline":  {Deadline: time.Now().Add(time.Hour)},
		"that waits":       {After: []stint.TaskID{"predecessor"}},
		"with a long body": {Body: make([]byte, 2<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := testdb.New(t)
			stores := make([]*stint.Store, 3)
			for i := range stores {
				stores[i] = openStore(t, pool, stint.Options{})
			}
			insert(t, stores[0], stint.Task{ID: "predecessor", Action: "act"})
			task.Action = "act"
			for i, store := range stores {
				task.ID = stint.TaskID(fmt.Sprint("task ", i))
				if i < 2 {
					insert(t, store, task)
				} else {
					ensure(t, store, []stint.Task{task})
				}
				exec(t, pool, "SELECT setval('stint.blocks', $1, false)", i+1)
			}
		})
	}
}
