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

// A verb changes tasks of one shard, and plainly is how a store does that.
type verb func(
	ctx context.Context, shard string, store Store, some []stint.TaskID,
) (stint.Affected, error)

func plainly(change bulk.Change) verb {
	return func(
		ctx context.Context, _ string, store Store, some []stint.TaskID,
	) (stint.Affected, error) {
		return change(store, ctx, some)
	}
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

// AsSeen returns the verbs for tasks that somebody has seen: each leaves out those of its tasks
// that are in none of the states any more, or were inserted or have finished at other times than
// seen has, and checks that in the transaction of the change, of which there is one on each shard.
// The verbs take tasks that are in seen. With dryRun they change nothing, and count what is
// affected on the shards of the tasks themselves.
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
