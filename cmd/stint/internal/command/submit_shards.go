package command

import (
	"context"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/cmd/stint/internal/tasktree"
	"github.com/stint-tasks/stint/shards"
)

// onShards returns a source that inserts and shows the tasks of a plan on the shards they name,
// if there is a topology, or the service has a cluster; otherwise nil.
func onShards(
	ctx context.Context, db *database, plan *tasktree.Plan,
) (*shardedTasks, error) {
	tasks := plan.OnShards()
	if db.shards != nil {
		c := db.shards.Cluster()
		if tasks == nil {
			return nil, said(errInput, "the tasks name no shards: across shards, the file must "+
				"have the form of enq, see: stint help submit")
		}
		return &shardedTasks{tasks, c.InsertTasks, c.GetTasks}, nil
	}
	if tasks == nil || db.client == nil {
		return nil, nil //nolint:nilnil // as the comment says
	}
	info, err := db.client.ServiceInfo(ctx)
	if err != nil || info.Shard == "" {
		return nil, err
	}
	return &shardedTasks{tasks, db.client.InsertShardTasks, db.client.GetShardTasks}, nil
}

// shardedTasks are the tasks of a plan on their shards.
type shardedTasks struct {
	tasks     []shards.Task
	insertAll func(ctx context.Context, tasks []shards.Task) error
	get       func(ctx context.Context, ids []shards.ID) ([]stint.TaskInfo, error)
}

func (s *shardedTasks) insert(ctx context.Context) error {
	return s.insertAll(ctx, s.tasks)
}

// look returns what the shards know of the tasks, in their order.
func (s *shardedTasks) look(ctx context.Context) ([]stint.TaskInfo, error) {
	ids := make([]shards.ID, len(s.tasks))
	for i, task := range s.tasks {
		ids[i] = shards.ID{Shard: task.Shard, Task: task.Task.ID}
	}
	return s.get(ctx, ids)
}

// ListTasks returns all tasks, whatever the filter.
func (s *shardedTasks) ListTasks(
	ctx context.Context, _ stint.Filter,
) (stint.TaskPage, error) {
	infos, err := s.look(ctx)
	return stint.TaskPage{Tasks: infos}, err
}

// WaitForTasks waits until all tasks have finished, whatever the IDs, and however long one of the
// shards is away.
func (s *shardedTasks) WaitForTasks(
	ctx context.Context, _ []stint.TaskID,
) ([]stint.TaskInfo, error) {
	const every = 250 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		infos, err := s.look(ctx)
		if err != nil && exitCode(err) != exitUnreachable {
			return nil, err
		}
		finished := err == nil
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
