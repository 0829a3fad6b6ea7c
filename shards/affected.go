package shards

import (
	"context"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
)

// Affected says which tasks a call changed.
type Affected struct {
	// Tasks are the tasks named in the call that were changed, shard by shard in order.
	Tasks []ID
	// Others is how many other tasks of the same shards were changed with them, those that the
	// cluster has inserted for itself included.
	Others int
	// InProgress is how many of Tasks were in progress when they were aborted.
	InProgress int
}

// A verb changes tasks of one shard, and plainly is how a store does that.
type verb func(
	ctx context.Context, shard string, store Store, some []stint.TaskID,
) (stint.Affected, error)

func plainly(change bulk.Change) verb {
	return func(
		ctx context.Context, _ string, store Store, some []stint.TaskID,
	) (stint.Affected, error) {
		return change(store, ctx, some)
	}
}

func (c *Cluster) change(ctx context.Context, ids []ID, change verb) (Affected, error) {
	var all Affected
	err := c.each(ctx, ids, func(
		ctx context.Context, shard string, store Store, some []stint.TaskID,
	) error {
		changed, err := change(ctx, shard, store, some)
		for _, id := range changed.Tasks {
			all.Tasks = append(all.Tasks, ID{shard, id})
		}
		all.Others += changed.Others
		all.InProgress += changed.InProgress
		return err
	})
	return all, err
}
