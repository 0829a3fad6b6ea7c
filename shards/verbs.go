package shards

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/verbs"
)

// GetTasks returns what the shards know of tasks, in the order asked; of tasks of different shards,
// not as of one instant. If there is no task of an ID, the error is [stint.ErrTaskNotFound], in a
// [*ShardError] for each shard; the others are still returned.
func (c *Cluster) GetTasks(ctx context.Context, ids []ID) ([]stint.TaskInfo, error) {
	found := make(map[ID]stint.TaskInfo, len(ids))
	err := c.each(ctx, ids, func(
		ctx context.Context, shard string, store Store, some []stint.TaskID,
	) error {
		infos, err := store.GetTasks(ctx, some)
		for _, info := range infos {
			found[ID{shard, info.ID}] = info
		}
		return err
	})
	infos := make([]stint.TaskInfo, 0, len(ids))
	for _, id := range ids {
		if info, ok := found[id]; ok {
			infos = append(infos, info)
		}
	}
	return infos, said("get tasks", err)
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

// AbortTasks is [stint.Store.AbortTasks] on each shard concerned. What depends on the tasks on
// other shards is aborted when relays have reported it there, and is not counted.
//
// Each shard does it for itself: after an error, it is done on those that the error does not name.
func (c *Cluster) AbortTasks(ctx context.Context, ids []ID, status string) (Affected, error) {
	affected, err := c.change(ctx, ids, plainly(aborting(status)))
	return affected, said("abort tasks", err)
}

// A verb changes tasks of one shard, and plainly is how a store does that.
type verb func(
	ctx context.Context, shard string, store Store, some []stint.TaskID,
) (stint.Affected, error)

func plainly(change bulk.Change) verb {
	return func(
		ctx context.Context, _ string, store Store, some []stint.TaskID,
	) (stint.Affected, error) {
		return change(ctx, store, some)
	}
}

func changing(to stint.TaskChanges) bulk.Change {
	return func(
		ctx context.Context, by verbs.Changer, ids []stint.TaskID,
	) (stint.Affected, error) {
		return by.ChangeTasks(ctx, ids, to)
	}
}

func aborting(status string) bulk.Change {
	return func(
		ctx context.Context, by verbs.Changer, ids []stint.TaskID,
	) (stint.Affected, error) {
		return by.AbortTasks(ctx, ids, status)
	}
}

func retrying(
	ctx context.Context, by verbs.Changer, ids []stint.TaskID,
) (stint.Affected, error) {
	return by.RetryTasks(ctx, ids)
}

func deleting(
	ctx context.Context, by verbs.Changer, ids []stint.TaskID,
) (stint.Affected, error) {
	return by.DeleteTasks(ctx, ids)
}

// RetryTasks is [stint.Store.RetryTasks] on each shard concerned. What was aborted on other shards
// because of the tasks is retried when these are completed; to name it, too, is refused with
// [stint.ErrPredecessorAborted] as long as they are not. Each shard does it for itself, as with
// [Cluster.AbortTasks].
//
// Where [stint.Task.FailFast] has aborted more than depended on the failed task, retry these tasks
// with it, as on one shard; the edges between them and to what had completed are put in order.
func (c *Cluster) RetryTasks(ctx context.Context, ids []ID) (Affected, error) {
	affected, reporters, err := c.retryNamed(ctx, ids, plainly(retrying))
	err = errors.Join(err, c.reopenAll(ctx, reporters))
	return affected, said("retry tasks", err)
}

// retryNamed retries tasks, with the placeholders that this takes. It returns the tasks that report
// to these, which are to be opened, too.
func (c *Cluster) retryNamed(
	ctx context.Context, ids []ID, retry verb,
) (affected Affected, reporters []ID, err error) {
	placeholders, reporters, err := c.cutEdges(ctx, ids)
	if err != nil && !errors.Is(err, stint.ErrTaskNotFound) { // which the verb says of all
		return Affected{}, nil, err
	}
	all := slices.Concat(ids, placeholders) // before what reports to them
	affected, err = c.change(ctx, all, retry)
	named := len(affected.Tasks)
	affected.Tasks = slices.DeleteFunc(affected.Tasks, func(id ID) bool { return IsOwn(id.Task) })
	affected.Others += named - len(affected.Tasks)
	return affected, reporters, err
}

// reopenAll opens tasks that report.
func (c *Cluster) reopenAll(ctx context.Context, reporters []ID) error {
	if ctx.Err() != nil { // what is begun is finished
		var cancel context.CancelFunc
		ctx, cancel = settling(ctx)
		defer cancel()
	}
	return c.each(ctx, reporters, func(
		ctx context.Context, _ string, store Store, some []stint.TaskID,
	) error {
		return reopen(ctx, store, some)
	})
}

// ChangeTasks is [stint.Store.ChangeTasks] on each shard concerned. Each shard does it for itself,
// as with [Cluster.AbortTasks].
func (c *Cluster) ChangeTasks(
	ctx context.Context, ids []ID, to stint.TaskChanges,
) (Affected, error) {
	affected, err := c.change(ctx, ids, plainly(changing(to)))
	return affected, said("change tasks", err)
}

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
