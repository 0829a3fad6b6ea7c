package shards

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/verbs"
)

// AbortTasks is [Cluster.AbortTasks].
func (m *Merged) AbortTasks(
	ctx context.Context, names []stint.TaskID, status string,
) (stint.Affected, error) {
	return changeAll(ctx, names, func(ctx context.Context, ids []ID) (Affected, error) {
		return m.cluster.AbortTasks(ctx, ids, status)
	})
}

// RetryTasks is [Cluster.RetryTasks].
func (m *Merged) RetryTasks(
	ctx context.Context, names []stint.TaskID,
) (stint.Affected, error) {
	return changeAll(ctx, names, m.cluster.RetryTasks)
}

// ChangeTasks is [Cluster.ChangeTasks].
func (m *Merged) ChangeTasks(
	ctx context.Context, names []stint.TaskID, to stint.TaskChanges,
) (stint.Affected, error) {
	return changeAll(ctx, names, func(ctx context.Context, ids []ID) (Affected, error) {
		return m.cluster.ChangeTasks(ctx, ids, to)
	})
}

// DeleteTasks is [Cluster.DeleteTasks].
func (m *Merged) DeleteTasks(
	ctx context.Context, names []stint.TaskID,
) (stint.Affected, error) {
	return changeAll(ctx, names, m.cluster.DeleteTasks)
}

func changeAll(
	ctx context.Context, names []stint.TaskID,
	change func(ctx context.Context, ids []ID) (Affected, error),
) (stint.Affected, error) {
	ids, err := parseIDs(names)
	if err != nil {
		return stint.Affected{}, err
	}
	changed, err := change(ctx, ids)
	affected := stint.Affected{Others: changed.Others, InProgress: changed.InProgress}
	for _, id := range changed.Tasks {
		affected.Tasks = append(affected.Tasks, stint.TaskID(id.String()))
	}
	slices.Sort(affected.Tasks)
	return affected, err
}

// AnswerTasks is [stint.Store.AnswerTasks] on each shard concerned. Each does it for itself: where
// one does not answer, that is the verdict on its tasks.
func (m *Merged) AnswerTasks(
	ctx context.Context, actor stint.ActorID, answers []stint.Answer,
) ([]error, error) {
	verdicts, byShard := make([]error, len(answers)), map[string][]int{}
	here := slices.Clone(answers)
	for i := range here {
		id, err := ParseID(string(here[i].ID))
		if err == nil {
			_, err = m.cluster.topology.URL(id.Shard)
		}
		if err != nil {
			return nil, said("answer tasks", err)
		}
		here[i].ID = id.Task
		byShard[id.Shard] = append(byShard[id.Shard], i)
	}
	for _, shard := range slices.Sorted(maps.Keys(byShard)) {
		some := make([]stint.Answer, 0, len(byShard[shard]))
		for _, i := range byShard[shard] {
			some = append(some, here[i])
		}
		var told []error
		err := m.cluster.ask(ctx, shard, func(ctx context.Context, store Store) (err error) {
			told, err = store.AnswerTasks(ctx, actor, some)
			return err
		})
		for k, i := range byShard[shard] {
			if verdicts[i] = err; err == nil {
				verdicts[i] = inShard(shard, told[k])
			}
		}
	}
	return verdicts, nil
}

// asSeen has the verbs for tasks as somebody has seen them.
type asSeen struct {
	*Merged
	states []stint.State
	seen   map[ID]stint.TaskInfo
	err    error // why the tasks cannot be those of a cluster
	dryRun bool
}

// AsSeen returns the verbs AbortTasks, RetryTasks, DeleteTasks and ChangeTasks for tasks that
// somebody has seen: each leaves out those of its tasks that are in none of the states any more, or
// were inserted or have finished at other times than seen has, and checks that in the transaction
// of the change, of which there is one on each shard. The verbs take tasks that are in seen. With
// dryRun they change nothing, and count what is affected on the shards of the tasks themselves.
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
	abort := a.on(aborting(status))
	return a.change(ctx, names, func(ctx context.Context, ids []ID) (Affected, error) {
		return a.cluster.change(ctx, ids, abort)
	})
}

func (a asSeen) RetryTasks(
	ctx context.Context, names []stint.TaskID,
) (stint.Affected, error) {
	retry := a.on(retrying)
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
	remove := a.on(deleting)
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
	change := a.on(changing(to))
	return a.change(ctx, names, func(ctx context.Context, ids []ID) (Affected, error) {
		return a.cluster.change(ctx, ids, change)
	})
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
