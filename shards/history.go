package shards

import (
	"context"

	"github.com/stint-tasks/stint"
)

// History is [stint.Store.History] on the task's shard.
func (c *Cluster) History(ctx context.Context, id ID) (stint.History, error) {
	store, err := c.Store(ctx, id.Shard)
	if err != nil {
		return stint.History{}, said("history", err)
	}
	history, err := store.History(ctx, id.Task)
	if err != nil {
		return stint.History{}, said("history", inShard(id.Shard, err))
	}
	return history, nil
}
