package main

import (
	"context"
	"errors"
	"time"

	"github.com/stint-tasks/stint"
)

// verbsWorkload is that of W14 about verbs that change many tasks in a call.
const verbsWorkload = "W14-verbs"

// Variants of W14-verbs: what the tasks wait for. In the first, the verbs name all of them, in the
// others only those that wait for nothing.
const (
	unlinked   = "tasks that wait for nothing"
	dependents = "dependents of one task"
	inARow     = "a row"
	inLayers   = "a hundred layers"
)

// Figures of W14-verbs.
const (
	figureCheck  = "Check"
	figureAbort  = "AbortTasks"
	figureRetry  = "RetryTasks"
	figurePieces = "AbortTasks in pieces"
	figurePiece  = "the longest piece"
	figureRemove = "DeleteTasks of all, aborted"
	figureDelete = "DeleteTasks"
	figureChange = "ChangeTasks"
)

func verbsWorkloads() []workload {
	return []workload{{
		id: verbsWorkload, title: "change many tasks", tasks: 100_000, once: true,
		figures: []figure{
			rate,
			{figureCheck, unitSecond},
			{figureAbort, unitSecond},
			{figureRetry, unitSecond},
			{figurePieces, unitSecond},
			{figurePiece, unitSecond},
			{figureRemove, unitSecond},
			{figureInsert, unitSecond},
			{figureChange, unitSecond},
			{figureDelete, unitSecond},
		},
	}}
}

func verbsEntries() []entry {
	var entries []entry
	for _, variant := range []string{unlinked, dependents, inARow, inLayers} {
		entries = append(entries, entry{
			workload: verbsWorkload, variant: variant, measure: timeLargeVerbs,
		})
	}
	return entries
}

// timeLargeVerbs times the verbs that change many tasks, one after the other on the same tasks.
func timeLargeVerbs(ctx context.Context, r *run) error {
	store, err := newStint(ctx, r, drainers)
	if err != nil {
		return err
	}
	tasks, all, roots := r.linkedTasks()
	if err := store.InsertTasks(ctx, tasks); err != nil {
		return err
	}
	changes := func(want int, ids []stint.TaskID, call change) func(context.Context) error {
		return func(ctx context.Context) error {
			affected, err := call(ctx, ids)
			if n := len(affected.Tasks) + affected.Others; err == nil && n != want {
				err = errUnchanged
			}
			return err
		}
	}
	abort := func(ctx context.Context, ids []stint.TaskID) (stint.Affected, error) {
		return store.AbortTasks(ctx, ids, "no longer wanted")
	}
	prefer := func(ctx context.Context, ids []stint.TaskID) (stint.Affected, error) {
		return store.ChangeTasks(ctx, ids, stint.TaskChanges{Priority: new(int16(1)), MaxTries: 7})
	}
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		const calls = 6
		return calls * r.Tasks, r.timeEach(ctx, []timed{
			{figureCheck, func(ctx context.Context) error {
				_, err := store.Check(ctx)
				return err
			}},
			{figureAbort, changes(r.Tasks, roots, abort)},
			{figureRetry, changes(r.Tasks, roots, store.RetryTasks)},
			{figurePieces, func(ctx context.Context) error {
				return r.changeInPieces(ctx, store, abort)
			}},
			{figureRemove, changes(r.Tasks, all, store.DeleteTasks)},
			{figureInsert, func(ctx context.Context) error {
				return store.InsertTasks(ctx, tasks)
			}},
			{figureChange, changes(r.Tasks, all, prefer)},
			{figureDelete, changes(r.Tasks, roots, store.DeleteTasks)},
		})
	})
	return errors.Join(err, checkStint(ctx, r, store), store.Close(ctx))
}

var errUnchanged = errors.New("it has not changed all tasks")

// A change is a verb that changes tasks.
type change func(context.Context, []stint.TaskID) (stint.Affected, error)

// changeInPieces changes all tasks that have not finished, those first that others wait for last.
func (r *run) changeInPieces(ctx context.Context, store *stint.Store, call change) error {
	filter := stint.Filter{NewestFirst: true, Limit: 10_000, States: []stint.State{
		stint.StateReady, stint.StateBlocked,
	}}
	changed, longest := 0, time.Duration(0)
	for {
		begun := now()
		page, err := store.ListTasks(ctx, filter)
		if err != nil {
			return err
		}
		ids := make([]stint.TaskID, len(page.Tasks))
		for i, task := range page.Tasks {
			ids[i] = task.ID
		}
		affected, err := call(ctx, ids)
		if err != nil {
			return err
		}
		changed += len(affected.Tasks) + affected.Others
		longest = max(longest, time.Since(begun))
		if page.Next == "" {
			break
		}
		filter.After = page.Next
	}
	r.set(figurePiece, longest.Seconds())
	if changed != r.Tasks {
		return errUnchanged
	}
	return nil
}

// linkedTasks are the tasks of the variant, and the IDs of all and of those that a verb names.
func (r *run) linkedTasks() (tasks []stint.Task, all, roots []stint.TaskID) {
	const layers, edges = 100, 3
	n := r.Tasks
	width := map[string]int{unlinked: n, dependents: 1, inARow: 1, inLayers: max(n/layers, edges)}
	tasks = stintTasks(0, n, r.BodyBytes)
	for i := range tasks {
		all = append(all, tasks[i].ID)
		switch first := width[r.Variant]; {
		case i < first:
			roots = append(roots, tasks[i].ID)
		case r.Variant == dependents:
			tasks[i].After = all[:1]
		case r.Variant == inARow:
			tasks[i].After = all[i-1 : i]
		default:
			ahead := (i/first - 1) * first
			for edge := range edges {
				tasks[i].After = append(tasks[i].After, all[ahead+(i+edge)%first])
			}
		}
	}
	return tasks, all, roots
}
