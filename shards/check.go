package shards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

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
// since the task that reports to them was deleted or they were retried by themselves, for tasks
// that wait for each other across shards, for reports to shards that the topology does not have,
// and for databases that are not those of their shards. A placeholder that nobody answers may be
// deleted, as [Cluster.DeleteTasks] would have done, aborted, or answered
// ([stint.Store.AnswerTasks]). Check changes nothing. A shard that cannot be reached, or is silent
// for twenty seconds ([ErrNoAnswer]), is an error, but the others are checked all the same. It asks
// for the network of each placeholder that is not answered, so it may take long.
func (c *Cluster) Check(ctx context.Context) ([]Inconsistency, error) {
	names, at := c.known(), c.newRound()
	found, errs := make([][]Inconsistency, len(names)), make([]error, len(names))
	var checking sync.WaitGroup
	for i, shard := range names {
		checking.Go(func() { found[i], errs[i] = at.checkShard(ctx, shard) })
	}
	checking.Wait()
	return slices.Concat(found...), said("check", distinct(errs))
}

// distinct joins errors, but leaves out those that say of a shard what another one has said.
func distinct(errs []error) error {
	var all []error
	heard := map[string]bool{}
	for i := 0; i < len(errs); i++ {
		err := errs[i]
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			errs = append(slices.Clone(errs), many.Unwrap()...)
			continue
		}
		if err != nil && !heard[err.Error()] {
			heard[err.Error()] = true
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

func (r *round) checkShard(ctx context.Context, shard string) ([]Inconsistency, error) {
	var all []Inconsistency
	err := r.ask(ctx, shard, func(ctx context.Context, store Store) error {
		checks, ok := store.(checker)
		if !ok {
			return nil
		}
		wrong, err := checks.Check(ctx)
		for _, one := range wrong {
			all = append(all, Inconsistency{shard, one})
		}
		return err
	})
	if errors.Is(err, ErrWrongShard) {
		return []Inconsistency{{shard, stint.Inconsistency{
			Rule: "a shard is where the topology says", ID: nameTask, Found: err.Error(),
		}}}, nil
	}
	if err != nil {
		return all, err
	}
	unknown, err := r.checkTargets(ctx, shard)
	all = append(all, unknown...)
	if err != nil {
		return all, err
	}
	waiting, err := r.checkAllPlaceholders(ctx, shard)
	return append(all, waiting...), err
}

// checkTargets looks for reports that no relay makes, since the topology lacks the shard.
func (r *round) checkTargets(ctx context.Context, shard string) ([]Inconsistency, error) {
	var stats stint.Stats
	err := r.ask(ctx, shard, func(ctx context.Context, store Store) (err error) {
		stats, err = store.Stats(ctx)
		return err
	})
	var all []Inconsistency
	for _, action := range stats.Actions {
		to, ok := strings.CutPrefix(action.Action, reportAction)
		if _, unknown := r.cluster.topology.URL(to); !ok || unknown == nil ||
			action.Ready+action.Blocked+action.Scheduled+action.InProgress == 0 {
			continue
		}
		all = append(all, Inconsistency{shard, stint.Inconsistency{
			Rule: "a shard that waits for another is in the topology", ID: nameTask,
			Found: fmt.Sprintf("tasks of shard %q wait for tasks here, and the topology lacks it",
				to),
		}})
	}
	return all, err
}

func (r *round) checkAllPlaceholders(
	ctx context.Context, shard string,
) (all []Inconsistency, err error) {
	filter := stint.Filter{
		Actions: []string{stint.External}, IDPrefix: placeholderPrefix, Limit: checkedTasks,
		States: []stint.State{stint.StateReady},
	}
	var errs []error
	for {
		var page stint.TaskPage
		bodies := map[stint.TaskID]*stint.TaskInfo{}
		err := r.ask(ctx, shard, func(ctx context.Context, store Store) (err error) {
			if page, err = store.ListTasks(ctx, filter); err != nil {
				return err
			}
			ids := make([]stint.TaskID, len(page.Tasks))
			for i, task := range page.Tasks {
				ids[i] = task.ID
			}
			return getAll(ctx, store, ids, bodies)
		})
		if err != nil {
			return all, errors.Join(append(errs, err)...)
		}
		found, err := r.checkPlaceholders(ctx, shard, bodies)
		all, errs = append(all, found...), append(errs, err)
		if filter.After = page.Next; page.Next == "" {
			return all, distinct(errs)
		}
	}
}

// checkPlaceholders looks whether the tasks that report to placeholders are there, and whether
// these wait for tasks that wait for them.
func (r *round) checkPlaceholders(
	ctx context.Context, shard string, bodies map[stint.TaskID]*stint.TaskInfo,
) ([]Inconsistency, error) {
	reports := map[string][]stint.TaskID{} // by shard
	of := map[ID]stint.TaskID{}            // the placeholder of each
	for _, task := range bodies {
		var p placeholder
		if err := json.Unmarshal(task.Body, &p); err != nil {
			return nil, fmt.Errorf("read %q: %w", task.ID, err)
		}
		reports[p.Shard] = append(reports[p.Shard], p.Report)
		of[ID{p.Shard, p.Report}] = task.ID
	}
	var all []Inconsistency
	var errs []error
	for _, from := range slices.Sorted(maps.Keys(reports)) {
		silent, err := r.silentReports(ctx, from, reports[from])
		errs = append(errs, err)
		for _, report := range silent {
			waits := of[ID{from, report}]
			found, err := findAt(ctx, r, ID{shard, waits})
			if err != nil {
				return all, errors.Join(append(errs, err)...)
			}
			if found == nil || !found.FinishedAt.IsZero() { // it was answered meanwhile
				continue
			}
			all = append(all, Inconsistency{shard, stint.Inconsistency{
				Rule: "a placeholder is answered", ID: waits,
				Found: fmt.Sprintf("nothing reports to it on shard %s; delete or abort it, with "+
					"what waits for it, or answer it", from),
			}})
		}
	}
	cycles, err := r.checkCycles(ctx, shard, slices.Sorted(maps.Keys(bodies)))
	return append(all, cycles...), distinct(append(errs, err))
}

// silentReports returns those of the tasks that report which will not do it, nor do it again: they
// are gone, or have ended. A placeholder that is open all the same was retried by itself.
func (r *round) silentReports(
	ctx context.Context, shard string, reports []stint.TaskID,
) ([]stint.TaskID, error) {
	ids := slices.Clone(reports)
	for _, id := range reports {
		ids = append(ids, id+againSuffix)
	}
	found := make(map[stint.TaskID]*stint.TaskInfo, len(ids))
	err := r.ask(ctx, shard, func(ctx context.Context, store Store) error {
		return getAll(ctx, store, ids, found)
	})
	if errors.Is(err, ErrUnknownShard) {
		return slices.Clone(reports), nil
	}
	if errors.Is(err, ErrWrongShard) { // which the check of that shard says
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	open := func(id stint.TaskID) bool { return found[id] != nil && found[id].FinishedAt.IsZero() }
	return slices.DeleteFunc(slices.Clone(reports), func(id stint.TaskID) bool {
		return open(id) || open(id+againSuffix)
	}), nil
}

// missing returns the tasks that are not in a store.
func missing(ctx context.Context, store Store, ids []stint.TaskID) ([]stint.TaskID, error) {
	_, err := store.GetTasks(ctx, ids)
	var gone *stint.TaskError
	if errors.Is(err, stint.ErrTaskNotFound) && errors.As(err, &gone) {
		return gone.IDs, nil
	}
	return nil, err
}

// checkCycles looks for placeholders that wait for themselves.
func (r *round) checkCycles(
	ctx context.Context, shard string, ids []stint.TaskID,
) ([]Inconsistency, error) {
	var all []Inconsistency
	var errs []error
	for _, id := range ids {
		of, ok := StandsFor(id)
		if !ok {
			continue
		}
		cycle, err := path(ctx, r, ID{shard, id}, of)
		if err != nil && !errors.Is(err, stint.ErrTooLarge) && !errors.Is(err, ErrUnknownShard) &&
			!errors.Is(err, ErrWrongShard) {
			errs = append(errs, err)
		}
		if cycle != nil {
			all = append(all, Inconsistency{shard, stint.Inconsistency{
				Rule: "there is no cycle (R4)", ID: id, Found: fmt.Sprintf("%q", cycle),
			}})
		}
		if ctx.Err() != nil {
			break
		}
	}
	return all, distinct(errs)
}
