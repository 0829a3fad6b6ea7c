package shards

import (
	"context"

	"github.com/stint-tasks/stint"
)

// ListChanges is [stint.Store.ListChanges] on one shard, of a task, or of all if it has no ID. What
// a context with an author changes is noted on the shards of the tasks that are named.
func (c *Cluster) ListChanges(
	ctx context.Context, id ID, filter stint.ChangeFilter,
) (page stint.ChangePage, err error) {
	filter.ID = id.Task
	err = c.ask(ctx, id.Shard, func(ctx context.Context, store Store) (err error) {
		page, err = store.ListChanges(ctx, filter)
		return err
	})
	return page, said("list changes", err)
}
