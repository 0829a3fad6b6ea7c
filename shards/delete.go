package shards

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/verbs"
)

// DeleteTasks is [stint.Store.DeleteTasks] on each shard concerned, and what it means for
// dependents on other shards: those of an unfinished task no longer wait for it, and one of which
// all predecessors are deleted is deleted too, and so on from shard to shard. [Affected.Others]
// counts them. Conditions about unfinished tasks that are deleted are not met.
//
// If a task is in progress, the error is [stint.ErrTaskInProgress]; if there is no task of an ID,
// it is [stint.ErrTaskNotFound]; if the network that depends on a task has more than 10,000 tasks
// on a shard, it is [stint.ErrTooLarge]. Each comes in a [*ShardError]. If the call finds this
// before it has deleted anything, or finds that a shard with dependents is away, it deletes
// nothing. After that, each shard does it for itself, as with [Cluster.AbortTasks]. If the process
// dies during the call, dependents on other shards may go on waiting: [Cluster.Check] names what to
// delete then.
func (c *Cluster) DeleteTasks(ctx context.Context, ids []ID) (Affected, error) {
	deleted, err := c.deleteTasks(ctx, ids, plainly(verbs.Changer.DeleteTasks))
	return deleted, said("delete tasks", err)
}

func (c *Cluster) deleteTasks(ctx context.Context, ids []ID, remove verb) (Affected, error) {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, ID.compare)
	ids = slices.Compact(ids)
	if _, err := c.byShard(ids); err != nil {
		return Affected{}, err
	}
	w := walkFrom(c, ids...)
	if err := w.all(ctx); err != nil {
		return Affected{}, err
	}
	if err := w.refuseDelete(ids); err != nil {
		return Affected{}, err
	}
	deleted, err := c.change(ctx, ids, remove)
	if ctx.Err() != nil { // what is begun is finished
		var cancel context.CancelFunc
		ctx, cancel = settling(ctx)
		defer cancel()
	}
	others, failed := c.forget(ctx, w.reported())
	deleted.Others += others
	return deleted, errors.Join(err, failed)
}

func (id ID) compare(other ID) int {
	if id.Shard != other.Shard {
		return strings.Compare(id.Shard, other.Shard)
	}
	return strings.Compare(string(id.Task), string(other.Task))
}

// refuseDelete refuses tasks that cannot be deleted, as far as the walk has seen.
func (w *walk) refuseDelete(ids []ID) error {
	missing, owned := map[string][]stint.TaskID{}, map[string][]stint.TaskID{}
	for _, id := range ids {
		if state := w.states[id]; state == "" {
			missing[id.Shard] = append(missing[id.Shard], id.Task)
		} else if state == stint.StateInProgress {
			owned[id.Shard] = append(owned[id.Shard], id.Task)
		}
	}
	var errs []error
	for _, refused := range []struct {
		tasks map[string][]stint.TaskID
		err   error
	}{{missing, stint.ErrTaskNotFound}, {owned, stint.ErrTaskInProgress}} {
		for _, shard := range slices.Sorted(maps.Keys(refused.tasks)) {
			errs = append(errs,
				inShard(shard, &stint.TaskError{IDs: refused.tasks[shard], Err: refused.err}))
		}
	}
	return errors.Join(errs...)
}

// reported returns the placeholders that the walk has come over, by the tasks that report to them.
func (w *walk) reported() map[ID]ID {
	reported := map[ID]ID{}
	for at, from := range w.from {
		if strings.HasPrefix(string(from.Task), reportPrefix) && from.Shard != at.Shard {
			reported[from] = at
		}
	}
	return reported
}

// forget deletes the placeholders that nothing reports to any more, and which are not answered. It
// returns how many tasks were deleted.
func (c *Cluster) forget(ctx context.Context, reported map[ID]ID) (deleted int, err error) {
	for {
		var reports, orphans []ID
		for report := range reported {
			reports = append(reports, report)
		}
		err := c.each(ctx, reports, func(
			ctx context.Context, shard string, store Store, some []stint.TaskID,
		) error {
			for ids := range slices.Chunk(some, checkedTasks) {
				missing, err := missing(ctx, store, ids)
				if err != nil {
					return err
				}
				for _, id := range missing {
					orphans = append(orphans, reported[ID{shard, id}])
					delete(reported, ID{shard, id})
				}
			}
			return nil
		})
		if err != nil || len(orphans) == 0 {
			return deleted, err
		}
		err = c.each(ctx, orphans, func(
			ctx context.Context, _ string, store Store, some []stint.TaskID,
		) error {
			n, err := deleteUnanswered(ctx, store, some)
			deleted += n
			return err
		})
		if err != nil {
			return deleted, err
		}
	}
}

// deleteUnanswered deletes those placeholders that are not answered, and returns how many tasks
// were deleted.
func deleteUnanswered(ctx context.Context, store Store, ids []stint.TaskID) (int, error) {
	for {
		found := map[stint.TaskID]*stint.TaskInfo{}
		if err := getAll(ctx, store, ids, found); err != nil {
			return 0, err
		}
		ids = slices.DeleteFunc(ids, func(id stint.TaskID) bool {
			return found[id] == nil || found[id].StatusCode != stint.StatusPending
		})
		if len(ids) == 0 {
			return 0, nil
		}
		deleted, err := store.DeleteTasks(ctx, ids)
		if errors.Is(err, stint.ErrTaskNotFound) { // somebody else deletes them
			continue
		}
		return len(deleted.Tasks) + deleted.Others, err
	}
}
