package shards

import (
	"context"
	"errors"
	"slices"

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

// undoPart deletes a part and its gate. If the gate is not there, nor is the part: tasks with the
// same IDs are somebody else's then. If it is open, the part is real. The guard may be owned at
// this moment; it finds nothing left.
func undoPart(
	ctx context.Context, store Store, gate stint.TaskID, tasks []stint.TaskID,
) error {
	ids := append(slices.Clone(tasks), gate)
	for {
		found, err := find(ctx, store, gate)
		if err != nil || found == nil || found.StatusCode != stint.StatusPending {
			return err
		}
		_, err = store.DeleteTasks(ctx, ids)
		var missing *stint.TaskError
		if !errors.Is(err, stint.ErrTaskNotFound) || !errors.As(err, &missing) {
			return err
		}
		ids = slices.DeleteFunc(ids, func(id stint.TaskID) bool {
			return slices.Contains(missing.IDs, id)
		})
	}
}
