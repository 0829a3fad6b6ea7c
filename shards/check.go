package shards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/stint-tasks/stint"
)

// An Inconsistency is a state of a shard, or between shards, that should be impossible.
type Inconsistency struct {
	Shard string
	stint.Inconsistency
}

// String writes the inconsistency in one line.
func (i Inconsistency) String() string {
	return fmt.Sprintf("shard %s: %s", i.Shard, i.Inconsistency)
}

// A checker is a store that can be checked: one that is no client of a service.
type checker interface {
	Check(ctx context.Context) ([]stint.Inconsistency, error)
}

// checkedTasks is how many placeholders are checked at once.
const checkedTasks = 1000

// Check is [stint.Store.Check] on all shards that are known, as far as their stores have it (those
// behind a service are checked there), and looks besides for placeholders that nobody will answer,
// since the task that reports to them was deleted or they were retried by themselves, and for tasks
// that wait for each other across shards. Such a placeholder may be deleted, as
// [Cluster.DeleteTasks] would have done, aborted, or answered ([stint.Store.AnswerTasks]). Check
// changes nothing. A shard that cannot be reached is an error, but the others are checked all the
// same. It asks for the network of each placeholder that is not answered, so it may take long.
func (c *Cluster) Check(ctx context.Context) ([]Inconsistency, error) {
	var all []Inconsistency
	var errs []error
	for _, shard := range c.known() {
		found, err := c.checkShard(ctx, shard)
		all = append(all, found...)
		errs = append(errs, inShard(shard, err))
	}
	return all, said("check", errors.Join(errs...))
}

func (c *Cluster) checkShard(ctx context.Context, shard string) ([]Inconsistency, error) {
	store, err := c.Store(ctx, shard)
	if err != nil {
		return nil, err
	}
	var all []Inconsistency
	if checks, ok := store.(checker); ok {
		wrong, err := checks.Check(ctx)
		if err != nil {
			return nil, err
		}
		for _, one := range wrong {
			all = append(all, Inconsistency{shard, one})
		}
	}
	filter := stint.Filter{
		Actions: []string{stint.External}, IDPrefix: placeholderPrefix, Limit: checkedTasks,
		States: []stint.State{stint.StateReady},
	}
	for {
		page, err := store.ListTasks(ctx, filter)
		if err != nil {
			return all, err
		}
		found, err := c.checkPlaceholders(ctx, shard, store, page.Tasks)
		all = append(all, found...)
		if filter.After = page.Next; err != nil || page.Next == "" {
			return all, err
		}
	}
}

// checkPlaceholders looks whether the tasks that report to placeholders are there, and whether
// these wait for tasks that wait for them.
func (c *Cluster) checkPlaceholders(
	ctx context.Context, shard string, store Store, listed []stint.TaskInfo,
) ([]Inconsistency, error) {
	ids := make([]stint.TaskID, len(listed))
	for i, task := range listed {
		ids[i] = task.ID
	}
	found := map[stint.TaskID]*stint.TaskInfo{}
	if err := getAll(ctx, store, ids, found); err != nil {
		return nil, err
	}
	reports := map[string][]stint.TaskID{} // by shard
	of := map[ID]stint.TaskID{}            // the placeholder of each
	for _, task := range found {
		var p placeholder
		if err := json.Unmarshal(task.Body, &p); err != nil {
			return nil, fmt.Errorf("read %q: %w", task.ID, err)
		}
		reports[p.Shard] = append(reports[p.Shard], p.Report)
		of[ID{p.Shard, p.Report}] = task.ID
	}
	var all []Inconsistency
	for from, some := range reports {
		silent, err := c.silent(ctx, from, some)
		if err != nil {
			return all, inShard(from, err)
		}
		for _, report := range silent {
			closed, err := isClosed(ctx, store, of[ID{from, report}])
			if err != nil {
				return all, err
			}
			if !closed { // it was answered meanwhile
				continue
			}
			all = append(all, Inconsistency{shard, stint.Inconsistency{
				Rule: "a placeholder is answered", ID: of[ID{from, report}],
				Found: fmt.Sprintf("nothing reports to it on shard %s; delete or abort it, with "+
					"what waits for it, or answer it", from),
			}})
		}
	}
	cycles, err := c.checkCycles(ctx, shard, ids)
	return append(all, cycles...), err
}

// silent returns those of the tasks that report which will not do it, nor do it again: they are
// gone, or have ended. A placeholder that is open all the same was retried by itself.
func (c *Cluster) silent(
	ctx context.Context, shard string, reports []stint.TaskID,
) ([]stint.TaskID, error) {
	store, err := c.Store(ctx, shard)
	if err != nil {
		return nil, err
	}
	ids := slices.Clone(reports)
	for _, id := range reports {
		ids = append(ids, id+againSuffix)
	}
	found := make(map[stint.TaskID]*stint.TaskInfo, len(ids))
	if err := getAll(ctx, store, ids, found); err != nil {
		return nil, err
	}
	open := func(id stint.TaskID) bool { return found[id] != nil && found[id].FinishedAt.IsZero() }
	return slices.DeleteFunc(slices.Clone(reports), func(id stint.TaskID) bool {
		return open(id) || open(id+againSuffix)
	}), nil
}

// missing returns the tasks that are not on a shard.
func (c *Cluster) missing(
	ctx context.Context, shard string, ids []stint.TaskID,
) ([]stint.TaskID, error) {
	store, err := c.Store(ctx, shard)
	if err != nil {
		return nil, err
	}
	_, err = store.GetTasks(ctx, ids)
	var gone *stint.TaskError
	if errors.Is(err, stint.ErrTaskNotFound) && errors.As(err, &gone) {
		return gone.IDs, nil
	}
	return nil, err
}

// checkCycles looks for placeholders that wait for themselves.
func (c *Cluster) checkCycles(
	ctx context.Context, shard string, ids []stint.TaskID,
) ([]Inconsistency, error) {
	var all []Inconsistency
	for _, id := range ids {
		of, ok := StandsFor(id)
		if !ok {
			continue
		}
		path, err := c.path(ctx, ID{shard, id}, of)
		if err != nil && !errors.Is(err, stint.ErrTooLarge) {
			return all, err
		}
		if path != nil {
			all = append(all, Inconsistency{shard, stint.Inconsistency{
				Rule: "there is no cycle (R4)", ID: id, Found: fmt.Sprintf("%q", path),
			}})
		}
	}
	return all, nil
}
