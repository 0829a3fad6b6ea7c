package shards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/verbs"
)

// isUndecided reports whether a task is of a part whose gate has not opened and whose insert is not
// known to have taken place, or is gone, as after an insert that was undone meanwhile. The guards
// name the tasks of their parts.
func (c *Cluster) isUndecided(ctx context.Context, store Store, id stint.TaskID) (bool, error) {
	filter := stint.Filter{
		Actions: []string{guardAction}, IDPrefix: guardPrefix, Limit: checkedTasks,
		States: bulk.Abortable(),
	}
	for {
		page, err := store.ListTasks(ctx, filter)
		if err != nil {
			return false, err
		}
		for _, info := range page.Tasks {
			found, err := find(ctx, store, info.ID) // one by one: they may be large
			if err != nil {
				return false, err
			}
			if found == nil {
				continue
			}
			var of guard
			if err := json.Unmarshal(found.Body, &of); err != nil {
				return false, fmt.Errorf("read %q: %w", info.ID, err)
			}
			if slices.Contains(of.Tasks, id) {
				closed, err := isClosed(ctx, store, of.Gate)
				if err != nil || closed {
					return closed && !c.isMade(ctx, of), err
				}
			}
		}
		if filter.After = page.Next; page.Next == "" {
			there, err := find(ctx, store, id)
			return err == nil && there == nil, err
		}
	}
}

// isMade reports whether the insert of a guard is known to have taken place. It is not if the shard
// that decides is away, or silent.
func (c *Cluster) isMade(ctx context.Context, of guard) bool {
	var made *decision
	err := c.ask(ctx, of.Decides, func(ctx context.Context, store Store) (err error) {
		made, err = readDecision(ctx, store, of.Decision)
		return err
	})
	return err == nil && made != nil && !made.Undone
}

// undoPart deletes a part, with what others have made to wait for it on other shards, and then its
// gate. If the gate is not there, nor is the part: tasks with the same IDs are somebody else's. If
// it is open, the part is real. The guard may be owned at this moment; it finds nothing left.
func (c *Cluster) undoPart(
	ctx context.Context, shard string, store Store, gate stint.TaskID, tasks []stint.TaskID,
) error {
	for {
		found, err := find(ctx, store, gate)
		if err != nil || found == nil || found.StatusCode != stint.StatusPending {
			return err
		}
		own, err := insertedWith(ctx, store, found, tasks)
		if err != nil {
			return err
		}
		if len(own) == 0 {
			_, err = store.DeleteTasks(ctx, []stint.TaskID{gate})
			if errors.Is(err, stint.ErrTaskNotFound) {
				err = nil
			}
			return err
		}
		reported, err := c.reportedFrom(ctx, shard, own)
		if err != nil {
			return err
		}
		if err := deleteSeen(ctx, store, own); err != nil {
			return err
		}
		if _, err := c.forget(ctx, reported); err != nil {
			return err
		}
	}
}

// reportedFrom returns the placeholders by which others have made tasks of other shards wait for
// those of a part, and so on from there, by the tasks that report to them. Its own ones go with
// their parts. In networks of more than 10,000 tasks on a shard, some may be missing.
func (c *Cluster) reportedFrom(
	ctx context.Context, shard string, own []bulk.Task,
) (map[ID]ID, error) {
	var starts, reports []ID
	for _, task := range own {
		id := ID{shard, task.ID}
		if strings.HasPrefix(string(task.ID), reportPrefix) {
			reports = append(reports, id)
		} else {
			starts = append(starts, id)
		}
	}
	w := walkFrom(c, starts...)
	for _, id := range reports {
		w.from[id] = id // as if it had gone there
	}
	if err := w.all(ctx); err != nil && !errors.Is(err, stint.ErrTooLarge) {
		return nil, err
	}
	return w.reported(), nil
}

// insertedWith returns those of the tasks of a part that were inserted with its gate, the last of
// them. A task that has replaced one of them since is younger, and somebody else's; one that was
// debounced is as old, but waits for nothing.
func insertedWith(
	ctx context.Context, store Store, gate *stint.TaskInfo, tasks []stint.TaskID,
) ([]bulk.Task, error) {
	var own []bulk.Task
	for some := range slices.Chunk(tasks, checkedTasks) {
		infos, err := getSmall(ctx, store, some)
		if err != nil {
			return nil, err
		}
		for i := range infos {
			if !infos[i].InsertedAt.After(gate.InsertedAt) && infos[i].TotalDependencies > 0 {
				seen := bulk.NewTask(&infos[i])
				seen.State = "" // in whatever state it is: one in progress is refused
				own = append(own, seen)
			}
		}
	}
	return own, nil
}

// getSmall looks tasks up, without bodies and results where the store can leave them out. Those
// that are not there are left out.
func getSmall(
	ctx context.Context, store Store, ids []stint.TaskID,
) (infos []stint.TaskInfo, err error) {
	if direct, ok := store.(interface{ Remote() *stint.Remote }); ok {
		infos, _, err = direct.Remote().GetSmallTasks(ctx, ids, 0)
		if errors.Is(err, stint.ErrTaskNotFound) {
			err = nil
		}
		return infos, err
	}
	found := map[stint.TaskID]*stint.TaskInfo{}
	if err := getAll(ctx, store, ids, found); err != nil {
		return nil, err
	}
	for _, info := range found {
		infos = append(infos, *info)
	}
	return infos, nil
}

// deleteSeen deletes those of the tasks that are as they were seen, in one transaction; all of them
// if the store cannot see to that.
func deleteSeen(ctx context.Context, store Store, tasks []bulk.Task) error {
	var err error
	if asSeen := bulk.AsSeen(store); asSeen != nil {
		states := append(bulk.Deletable(), stint.StateInProgress)
		_, err = asSeen(ctx, states, tasks, false, verbs.Changer.DeleteTasks)
	} else {
		_, err = store.DeleteTasks(ctx, bulk.IDs(tasks))
	}
	if errors.Is(err, stint.ErrTaskNotFound) {
		return nil // the caller looks again
	}
	return err
}
