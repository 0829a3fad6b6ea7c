package shards

import (
	"context"
	"errors"
	"slices"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/verbs"
)

// asSeen has the verbs for tasks as somebody has seen them.
type asSeen struct {
	*Merged
	states []stint.State
	seen   map[ID]stint.TaskInfo
	err    error // why the tasks cannot be those of a cluster
	dryRun bool
}

// AsSeen returns the verbs for tasks that somebody has seen: each leaves out those of its tasks
// that are in none of the states any more, were inserted or have finished at other times than seen
// has, or have begun since if seen has their state. That is checked in the transaction of the
// change, of which there is one on each shard. The verbs take tasks that are in seen. With dryRun
// they change nothing, and count what is affected on the shards of the tasks themselves.
func (m *Merged) AsSeen(
	states []stint.State, seen []stint.TaskInfo, dryRun bool,
) verbs.Changer {
	a := asSeen{m, states, make(map[ID]stint.TaskInfo, len(seen)), nil, dryRun}
	for _, info := range seen {
		id, err := ParseID(string(info.ID))
		if err != nil {
			a.err = err
			break
		}
		info.ID = id.Task
		a.seen[id] = info
	}
	return a
}

func (a asSeen) AbortTasks(
	ctx context.Context, names []stint.TaskID, status string,
) (stint.Affected, error) {
	return a.change(ctx, names, a.plainly(bulk.Aborting(status)))
}

func (a asSeen) RetryTasks(
	ctx context.Context, names []stint.TaskID,
) (stint.Affected, error) {
	retry := a.on(verbs.Changer.RetryTasks)
	return a.change(ctx, names, func(ctx context.Context, ids []ID) (Affected, error) {
		affected, reporters, err := a.cluster.retryNamed(ctx, ids, retry)
		if a.dryRun {
			return affected, err
		}
		return affected, errors.Join(err, a.cluster.reopenAll(ctx, reporters))
	})
}

func (a asSeen) DeleteTasks(
	ctx context.Context, names []stint.TaskID,
) (stint.Affected, error) {
	remove := a.on(verbs.Changer.DeleteTasks)
	return a.change(ctx, names, func(ctx context.Context, ids []ID) (Affected, error) {
		if a.dryRun {
			return a.cluster.change(ctx, ids, remove)
		}
		return a.cluster.deleteTasks(ctx, ids, remove)
	})
}

func (a asSeen) ChangeTasks(
	ctx context.Context, names []stint.TaskID, to stint.TaskChanges,
) (stint.Affected, error) {
	return a.change(ctx, names, a.plainly(bulk.Changing(to)))
}

// plainly is how each shard makes a change for itself.
func (a asSeen) plainly(change bulk.Change) func(context.Context, []ID) (Affected, error) {
	return func(ctx context.Context, ids []ID) (Affected, error) {
		return a.cluster.change(ctx, ids, a.on(change))
	}
}

func (a asSeen) change(
	ctx context.Context, names []stint.TaskID,
	change func(ctx context.Context, ids []ID) (Affected, error),
) (stint.Affected, error) {
	if a.err != nil {
		return stint.Affected{}, a.err
	}
	affected, err := changeAll(ctx, names, change)
	return affected, inWholeNames(err)
}

// errCannotSee reports that a shard's store cannot change tasks as they were seen.
var errCannotSee = errors.New("its store changes no tasks as they were seen")

// on is how a change takes place on a shard.
func (a asSeen) on(change bulk.Change) verb {
	return func(
		ctx context.Context, shard string, store Store, some []stint.TaskID,
	) (stint.Affected, error) {
		seenBy := bulk.AsSeen(store)
		if seenBy == nil {
			return stint.Affected{}, errCannotSee
		}
		tasks, own := make([]bulk.Task, 0, len(some)), []stint.TaskID(nil)
		for _, id := range some {
			if info, ok := a.seen[ID{shard, id}]; ok {
				tasks = append(tasks, bulk.NewTask(&info))
			} else { // of the cluster's, which nobody has seen
				own = append(own, id)
			}
		}
		states := a.states
		if len(own) > 0 {
			infos, err := store.GetTasks(ctx, own)
			if err != nil && !errors.Is(err, stint.ErrTaskNotFound) {
				return stint.Affected{}, err
			}
			for i := range infos {
				tasks = append(tasks, bulk.NewTask(&infos[i]))
			}
			states = slices.Concat(states, bulk.Retryable()) // of the others, the times tell
		}
		return seenBy(ctx, states, tasks, a.dryRun, change)
	}
}

// inWholeNames returns an error of a call in which tasks have their names in the cluster.
func inWholeNames(err error) error {
	if many, ok := err.(interface{ Unwrap() []error }); ok { // one for each shard
		var all []error
		for _, one := range many.Unwrap() {
			all = append(all, inWholeNames(one))
		}
		return errors.Join(all...)
	}
	var at *ShardError
	var tasks *stint.TaskError
	if !errors.As(err, &at) || !errors.As(err, &tasks) {
		return err
	}
	ids := make([]stint.TaskID, len(tasks.IDs))
	for i, id := range tasks.IDs {
		if ids[i] = inName(id); ids[i] == id {
			ids[i] = stint.TaskID(ID{at.Shard, id}.String())
		}
	}
	return &ShardError{at.Shard, &stint.TaskError{IDs: ids, Err: tasks.Err}}
}
