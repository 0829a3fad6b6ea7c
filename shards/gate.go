package shards

import (
	"context"
	"errors"

	"github.com/stint-tasks/stint"
)

// opened is how a gate ends. What is skipped does not count among the predecessors that completed
// or were aborted.
const opened = stint.StateSkipped

// openGate opens a gate. One that is open, or gone, is as good.
func (c *Cluster) openGate(ctx context.Context, shard string, gate stint.TaskID) error {
	return c.end(ctx, ID{shard, gate}, stint.StatusSkipped)
}

// end ends an external task that a cluster has inserted for itself.
func (c *Cluster) end(ctx context.Context, own ID, code stint.StatusCode) error {
	store, err := c.Store(ctx, own.Shard)
	if err != nil {
		return err
	}
	verdicts, err := store.AnswerTasks(ctx, clusterActor, []stint.Answer{
		{ID: own.Task, Code: code},
	})
	if err != nil {
		return inShard(own.Shard, err)
	}
	if err := verdicts[0]; err != nil && !isDone(err) {
		return inShard(own.Shard, err)
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
