package shards_test

import (
	"slices"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// A shard of a cluster ensures tasks of its own: those of an insert over several shards are there,
// and are waited for as in one database.
// Proves R1.
func TestStore_EnsuresTasksOfItsShard(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	c := d.cluster(t, shards.Options{})
	inserted := []shards.Task{task("1/a"), task("2/b", "1/a"), task("1/c", "2/b")}
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), inserted), nil)
	store, err := c.Store(t.Context(), "1")
	wantErr(t, "Store", err, nil)
	again := task("1/a").Task
	last := stint.Task{ID: "last", Action: again.Action, After: []stint.TaskID{"c"}}
	existing, err := store.EnsureTasks(t.Context(), []stint.Task{again, task("1/c").Task, last})
	if err != nil || !slices.Equal(existing, []stint.TaskID{"a", "c"}) {
		t.Fatalf("EnsureTasks = %q, %v", existing, err)
	}
	d.relay(t, shards.Options{})
	d.awaitDecided(t)
	for _, id := range []string{"1/a", "2/b", "1/c", "1/last"} {
		d.end(t, id, stint.StatusCompleted)
	}
	wantSound(t, c)
}
