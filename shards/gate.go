package shards

import (
	"context"
	"errors"

	"github.com/stint-tasks/stint"
)

// openGate completes a gate. One that is open, or gone, is as good.
func (c *Cluster) openGate(ctx context.Context, shard string, gate stint.TaskID) error {
	store, err := c.Store(ctx, shard)
	if err != nil {
		return err
	}
	verdicts, err := store.AnswerTasks(ctx, clusterActor, []stint.Answer{
		{ID: gate, Code: stint.StatusCompleted},
	})
	if err != nil {
		return inShard(shard, err)
	}
	if err := verdicts[0]; err != nil && !isDone(err) {
		return inShard(shard, err)
	}
	return nil
}

// clusterActor is who answers what a cluster has inserted for itself.
const clusterActor = "stint.Cluster"

// isDone reports that an answer is no longer needed.
func isDone(err error) bool {
	return errors.Is(err, stint.ErrTaskFinished) || errors.Is(err, stint.ErrTaskNotFound)
}

// isClosed reports whether a gate has not opened.
func isClosed(ctx context.Context, store Store, gate stint.TaskID) (bool, error) {
	task, err := find(ctx, store, gate)
	return err == nil && task != nil && task.StatusCode == stint.StatusPending, err
}
