package shards

import (
	"context"

	"github.com/stint-tasks/stint"
)

// History is [stint.Store.History] on the task's shard.
func (c *Cluster) History(ctx context.Context, id ID) (stint.History, error) {
	var history stint.History
	err := c.ask(ctx, id.Shard, func(ctx context.Context, store Store) (err error) {
		history, err = store.History(ctx, id.Task)
		return err
	})
	return history, said("history", err)
}
