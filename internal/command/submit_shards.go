package command

import (
	"context"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/tasktree"
	"github.com/stint-tasks/stint/shards"
)

// onShards returns a source that inserts and shows the tasks of a plan on the shards they name,
// if the service has a cluster; otherwise nil.
func onShards(
	ctx context.Context, db *database, plan *tasktree.Plan,
) (*shardedTasks, error) {
	tasks := plan.OnShards()
	if tasks == nil || db.client == nil {
		return nil, nil //nolint:nilnil // as the comment says
	}
	info, err := db.client.ServiceInfo(ctx)
	if err != nil || info.Shard == "" {
		return nil, err
	}
	return &shardedTasks{client: db.client, tasks: tasks}, nil
}

// shardedTasks are the tasks of a plan on their shards.
type shardedTasks struct {
	client *client.Client
	tasks  []shards.Task
}

func (s *shardedTasks) insert(ctx context.Context) error {
	return s.client.InsertShardTasks(ctx, s.tasks)
}

// look returns what the shards know of the tasks, in their order.
func (s *shardedTasks) look(ctx context.Context) ([]stint.TaskInfo, error) {
	ids := make([]shards.ID, len(s.tasks))
	for i, task := range s.tasks {
		ids[i] = shards.ID{Shard: task.Shard, Task: task.Task.ID}
	}
	return s.client.GetShardTasks(ctx, ids)
}

// ListTasks returns all tasks, whatever the filter.
func (s *shardedTasks) ListTasks(
	ctx context.Context, _ stint.Filter,
) (stint.TaskPage, error) {
	infos, err := s.look(ctx)
	return stint.TaskPage{Tasks: infos}, err
}

// WaitForTasks waits until all tasks have finished, whatever the IDs.
func (s *shardedTasks) WaitForTasks(
	ctx context.Context, _ []stint.TaskID,
) ([]stint.TaskInfo, error) {
	const every = 250 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		infos, err := s.look(ctx)
		if err != nil {
			return nil, err
		}
		finished := true
		for _, info := range infos {
			finished = finished && !info.FinishedAt.IsZero()
		}
		if finished {
			return infos, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
