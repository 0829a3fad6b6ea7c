package client

import (
	"context"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/shards"
)

var _ shards.Store = (*Client)(nil)

// shardsMax is how long an insert may take besides what an insert on one shard takes: until the
// service has learned that a shard is away, and what became of the insert.
const shardsMax = time.Minute

// InsertShardTasks is [shards.Cluster.InsertTasks], by a service that has a cluster. It is not
// repeated: if its answer is lost, the error is [ErrUnavailable], and GetShardTasks tells a minute
// later whether it took place.
func (c *Client) InsertShardTasks(ctx context.Context, tasks []shards.Task) error {
	plain := make([]stint.Task, len(tasks))
	for i := range tasks {
		plain[i] = tasks[i].Task
	}
	if err := nameAll(plain); err != nil {
		return said("insert tasks of shards", err)
	}
	request, messages := &stintv1.InsertShardTasksRequest{}, c.fromTasks(ctx, plain)
	for i := range tasks {
		tasks[i].Task.ID = plain[i].ID
		request.Tasks = append(request.Tasks, &stintv1.ShardTask{
			Shard: tasks[i].Shard, Task: messages[i],
			After: wire.FromNames(tasks[i].After), When: wire.FromShardConditions(tasks[i].When),
			WhenAny: wire.FromShardConditions(tasks[i].WhenAny),
		})
	}
	return said("insert tasks of shards", c.once(ctx, timeFor(request)+shardsMax,
		func(ctx context.Context, _ bool) error {
			_, err := c.cluster.InsertShardTasks(ctx, request)
			return err
		}))
}

// GetShardTasks is [shards.Cluster.GetTasks], by a service that has a cluster. If one of the tasks
// is not there, it returns none.
func (c *Client) GetShardTasks(
	ctx context.Context, ids []shards.ID,
) (infos []stint.TaskInfo, err error) {
	request := &stintv1.GetShardTasksRequest{Tasks: wire.FromNames(ids)}
	err = c.repeat(ctx, answerMax, func(ctx context.Context, _ bool) error {
		response, err := c.cluster.GetShardTasks(ctx, request)
		infos = wire.ToInfos(response.GetTasks())
		return err
	})
	return infos, said("get tasks of shards", err)
}
