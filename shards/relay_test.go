package shards_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testrun"
	"github.com/stint-tasks/stint/shards"
)

// Ends that are more than one batch are all reported, also if the other shard is away at first.
func TestRelay_ReportsManyEndsOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const pairs, batch = 3500, 1000
	d := newDatabases(t, "1", "2")
	var tasks []shards.Task
	for i := range pairs {
		before := fmt.Sprintf("1/a%d", i)
		tasks = append(tasks, task(before), task(fmt.Sprintf("2/b%d", i), before))
	}
	d.relay(t, shards.Options{})
	err := d.cluster(t, shards.Options{}).InsertTasks(t.Context(), tasks)
	wantErr(t, "InsertTasks", err, nil)
	d.awaitDecided(t)
	d.away.Store("2", true)
	d.complete(t, "1", pairs, batch)
	d.relay(t, shards.Options{})
	d.away.Clear()
	d.complete(t, "2", pairs, batch)
}

// complete performs so many tasks of a shard, none of them twice.
func (d *databases) complete(t *testing.T, shard string, all, batch int) {
	t.Helper()
	done := map[stint.TaskID]bool{}
	for len(done) < all {
		owned, err := d.stores[shard].WaitToOwnTasks(
			t.Context(), "worker", batch, []string{"act"}, time.Hour)
		wantErr(t, "WaitToOwnTasks", err, nil)
		returns := make([]stint.Return, len(owned))
		for i, task := range owned {
			if done[task.ID] {
				t.Errorf("shard %s gave %s twice", shard, task.ID)
			}
			done[task.ID] = true
			returns[i] = stint.Return{
				ID: task.ID, Token: task.Token, Code: stint.StatusCompleted,
			}
		}
		verdicts, err := d.stores[shard].ReturnTasks(t.Context(), returns)
		for _, verdict := range verdicts {
			wantErr(t, "ReturnTasks", verdict, nil)
		}
		wantErr(t, "ReturnTasks", err, nil)
	}
}
