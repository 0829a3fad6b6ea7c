package shards

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/stint-tasks/stint"
)

// GetTasks returns what the shards know of tasks, in the order asked; of tasks of different shards,
// not as of one instant. If there is no task of an ID, the error is [stint.ErrTaskNotFound], in a
// [*ShardError] for each shard; the others are still returned.
func (c *Cluster) GetTasks(ctx context.Context, ids []ID) ([]stint.TaskInfo, error) {
	return c.GetTasksWithin(ctx, ids, math.MaxInt64)
}

// GetTasksWithin is [Cluster.GetTasks] for tasks whose bodies, results and texts have so many bytes
// together at most. If they have more, the error is [stint.ErrTooLarge]; what was read beyond that
// are tasks of one shard at most, of one that is a service.
func (c *Cluster) GetTasksWithin(
	ctx context.Context, ids []ID, bytes int64,
) ([]stint.TaskInfo, error) {
	found := make(map[ID]stint.TaskInfo, len(ids))
	left := bytes
	err := c.each(ctx, ids, func(
		ctx context.Context, shard string, store Store, some []stint.TaskID,
	) error {
		size, err := bytesAhead(ctx, store, some, bytes)
		if err != nil {
			return err
		}
		if left < size {
			left = -1 // so that no other shard is read
			return tooLarge(bytes)
		}
		infos, err := store.GetTasks(ctx, some)
		for _, info := range infos {
			left -= int64(len(info.Body) + len(info.Result) + len(info.Status))
			found[ID{shard, info.ID}] = info
		}
		return err
	})
	if left < 0 && err == nil {
		err = tooLarge(bytes)
	}
	infos := make([]stint.TaskInfo, 0, len(ids))
	for _, id := range ids {
		if info, ok := found[id]; ok {
			infos = append(infos, info)
		}
	}
	return infos, said("get tasks", err)
}

// bytesAhead returns how many bytes tasks have, without reading them; 0 if nobody wants to know, or
// if the shard is a service, which does not say.
func bytesAhead(
	ctx context.Context, store Store, ids []stint.TaskID, most int64,
) (int64, error) {
	direct, ok := store.(interface{ Remote() *stint.Remote })
	if !ok || most == math.MaxInt64 {
		return 0, nil
	}
	return direct.Remote().CountBytes(ctx, ids)
}

func tooLarge(bytes int64) error {
	return &stint.ArgumentError{
		Argument: "ids", Index: -1, Err: stint.ErrTooLarge,
		Problem: fmt.Sprintf("their tasks have over %d bytes: ask for fewer", bytes),
	}
}

// WaitForTask is [stint.Store.WaitForTask] on the task's shard. If that is silent from the
// beginning, the error is [ErrNoAnswer]; later the call waits on.
func (c *Cluster) WaitForTask(ctx context.Context, id ID) (stint.TaskInfo, error) {
	infos, err := c.waitForTasks(ctx, []ID{id})
	if err != nil {
		return stint.TaskInfo{}, said("wait for task", err)
	}
	return infos[0], nil
}

// WaitForTasks is [stint.Store.WaitForTasks] on each shard concerned, on all of them at once. If
// one of the tasks cannot be waited for, it returns the error at once, in a [*ShardError]; if a
// shard is silent from the beginning, the error is [ErrNoAnswer].
func (c *Cluster) WaitForTasks(ctx context.Context, ids []ID) ([]stint.TaskInfo, error) {
	infos, err := c.waitForTasks(ctx, ids)
	return infos, said("wait for tasks", err)
}

func (c *Cluster) waitForTasks(ctx context.Context, ids []ID) ([]stint.TaskInfo, error) {
	byShard, err := c.byShard(ids)
	if err != nil {
		return nil, err
	}
	waits, waiting := errgroup.WithContext(ctx)
	var mutex sync.Mutex
	found := make(map[ID]stint.TaskInfo, len(ids))
	for shard, some := range byShard {
		waits.Go(func() error {
			// A wait goes on where the shard is away, so it must not begin there.
			err := c.ask(waiting, shard, func(ctx context.Context, store Store) error {
				_, err := nameOf(ctx, store)
				if isNotAllowed(err) {
					return nil
				}
				return err
			})
			if err != nil {
				return err
			}
			store, err := c.Store(waiting, shard)
			if err != nil {
				return err
			}
			infos, err := store.WaitForTasks(waiting, some)
			mutex.Lock()
			defer mutex.Unlock()
			for _, info := range infos {
				found[ID{shard, info.ID}] = info
			}
			return inShard(shard, err)
		})
	}
	if err := waits.Wait(); err != nil {
		return nil, err
	}
	infos := make([]stint.TaskInfo, len(ids))
	for i, id := range ids {
		infos[i] = found[id]
	}
	return infos, nil
}

// each calls a verb on each shard, with the tasks of that shard, shard by shard in order.
func (c *Cluster) each(
	ctx context.Context, ids []ID,
	verb func(ctx context.Context, shard string, store Store, some []stint.TaskID) error,
) error {
	byShard, err := c.byShard(ids)
	if err != nil {
		return err
	}
	var errs []error
	for _, shard := range slices.Sorted(maps.Keys(byShard)) {
		errs = append(errs, c.ask(ctx, shard, func(ctx context.Context, store Store) error {
			return verb(ctx, shard, store, byShard[shard])
		}))
	}
	return errors.Join(errs...)
}

// byShard returns the tasks of each shard.
func (c *Cluster) byShard(ids []ID) (map[string][]stint.TaskID, error) {
	all := map[string][]stint.TaskID{}
	for _, id := range ids {
		if _, err := c.topology.URL(id.Shard); err != nil {
			return nil, err
		}
		all[id.Shard] = append(all[id.Shard], id.Task)
	}
	return all, nil
}

// said says which call has failed, in the words of its caller.
func said(call string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", call, inWords(err))
}
