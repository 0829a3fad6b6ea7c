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

// AbortTasks is [stint.Store.AbortTasks] on each shard concerned. What depends on the tasks on
// other shards is aborted when relays have reported it there, and is not counted.
//
// Each shard does it for itself: after an error, it is done on those that the error does not name.
func (c *Cluster) AbortTasks(ctx context.Context, ids []ID, status string) (Affected, error) {
	affected, err := c.change(ctx, ids, plainly(bulk.Aborting(status)))
	return affected, said("abort tasks", err)
}

// RetryTasks is [stint.Store.RetryTasks] on each shard concerned. What was aborted on other shards
// because of the tasks is retried when these are completed; to name it, too, is refused with
// [stint.ErrPredecessorAborted] as long as they are not. Each shard does it for itself, as with
// [Cluster.AbortTasks].
//
// Where [stint.Task.FailFast] has aborted more than depended on the failed task, retry these tasks
// with it, as on one shard; the edges between them and to what had completed are put in order.
func (c *Cluster) RetryTasks(ctx context.Context, ids []ID) (Affected, error) {
	affected, reporters, err := c.retryNamed(ctx, ids, plainly(verbs.Changer.RetryTasks))
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
	affected, err := c.change(ctx, ids, plainly(bulk.Changing(to)))
	return affected, said("change tasks", err)
}

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
