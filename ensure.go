package stint

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/network"
	"github.com/stint-tasks/stint/internal/pg"
)

// EnsureTasks is [Store.InsertTasks] for tasks some of which may be there: it leaves out those
// whose IDs are taken, adds all others, or none if one of them cannot be added, and returns the IDs
// of those that it has left out, in the order of the call. Of tasks with the same ID it adds the
// first and leaves out the others, as if they had come in calls of their own.
//
// A task is left out whatever the one that is there is like, and in whichever state it is: the ID
// alone decides (R1). That one stays as it is. An ID is free again when its task has been deleted
// or pruned: see [Retention].
//
// A dependency between a task that is added and one that is left out, whichever of them names it,
// leads to the one that is there, under the conditions of InsertTasks (R3): a predecessor that has
// completed counts as settled, one that was aborted aborts the new task unless it runs anyway, and
// if a dependent has started, the error is [ErrTaskStarted]. What else the tasks name that are left
// out has no effect, such as their WhenAny, and all that a task names whose ID comes again in the
// call: of two tasks that are there, [Store.AddDependencies] makes one wait for the other. If a
// task that is there has [Task.WhenAny], it cannot wait for another besides: the error is an
// [*ArgumentError].
//
// If several calls have the same IDs at once, each task is added by one of them and left out by the
// others, which wait for that one. Calls of EnsureTasks do not deadlock with one another, unless a
// transaction of the caller's makes several.
//
// If ctx ends or the connection breaks during the call, all of the tasks that were missing may have
// been added, or none. Calling again with the same tasks is safe, and leaves out what the first
// call has added: nothing tells these from tasks that were there before.
func (s *Store) EnsureTasks(ctx context.Context, tasks []Task) (existing []TaskID, err error) {
	existing, err = s.ensureTasks(ctx, tasks)
	if err == nil && len(existing) > 0 && len(existing) == len(tasks) {
		err = s.db.WaitForCommit(ctx) // others may have added them just now
	}
	if err != nil {
		return nil, fmt.Errorf("ensure tasks: %w", err)
	}
	return existing, nil
}

func (s *Store) ensureTasks(ctx context.Context, tasks []Task) (existing []TaskID, err error) {
	tasks, bytes, err := s.prepare(ctx, tasks)
	isOther := func(task Task) bool { return !isPlain(task) }
	switch {
	case err != nil:
		return nil, err
	case len(tasks) == 0:
		return nil, s.db.CheckOpen(ctx)
	case len(tasks) > statementTasksMax, bytes > statementBytesMax,
		slices.ContainsFunc(tasks, isOther):
		return s.ensureMany(ctx, tasks)
	}
	var verdicts []error
	if !s.db.InTx() && canShare(tasks, bytes) {
		verdicts = []error{s.insertShared(ctx, true, tasks[0])}
		if !errors.Is(verdicts[0], ErrTaskExists) {
			err = verdicts[0]
		}
	} else {
		verdicts, err = s.insertTogether(ctx, true, tasks, false)
	}
	for i, verdict := range verdicts {
		if verdict != nil {
			existing = append(existing, tasks[i].ID)
		}
	}
	return existing, err
}

// ensureMany looks which tasks there are, and copies the others. It begins again if others have
// added or deleted some since the look: each time, a call of theirs has come to its end.
func (s *Store) ensureMany(ctx context.Context, tasks []Task) (existing []TaskID, err error) {
	ids := make([]string, len(tasks))
	for i := range tasks {
		ids[i] = string(tasks[i].ID)
	}
	for {
		err = s.transact(ctx, func(s *Store) error {
			existing = nil // a deadlock has the work begin again
			seen := make(map[TaskID]bool, len(tasks))
			look := pg.Step{Name: "task_keys", Args: []any{ids}, Read: func(rows pgx.Rows) error {
				var id TaskID
				_, err := pgx.ForEachRow(rows, []any{nil, &id}, func() error {
					seen[id] = true
					return nil
				})
				return err
			}}
			if err := s.db.Run(ctx, look); err != nil {
				return err
			}
			missing, left, into := divide(tasks, seen)
			for _, task := range left {
				existing = append(existing, task.ID)
			}
			if len(missing) == 0 {
				return nil
			}
			return s.insertMany(ctx, missing, into, true)
		})
		var gone *TaskError
		isExisting := func(id TaskID) bool { return slices.Contains(existing, id) }
		switch {
		case errors.Is(err, ErrTaskExists):
		case errors.Is(err, ErrTaskNotFound) && errors.As(err, &gone) &&
			slices.ContainsFunc(gone.IDs, isExisting):
		default:
			return existing, err
		}
	}
}

// divide divides tasks into those that are missing, and those that are left out: their IDs were
// seen, or come again. What those say whose tasks are there about their dependencies on the missing
// ones, it tells these; into is that of newInsertGraph. A task whose ID comes again says nothing:
// in a call of its own, it would come alone.
func divide(tasks []Task, seen map[TaskID]bool) (
	missing []Task, left []*Task, into map[Dependency]*network.Condition,
) {
	missing = make([]Task, 0, len(tasks)-len(seen))
	places := make(map[TaskID]int, len(tasks)) // in missing
	var there []*Task
	for i := range tasks {
		_, again := places[tasks[i].ID]
		switch {
		case seen[tasks[i].ID]:
			there = append(there, &tasks[i])
			left = append(left, &tasks[i])
		case again:
			left = append(left, &tasks[i])
		default:
			places[tasks[i].ID] = len(missing)
			missing = append(missing, tasks[i])
		}
	}
	if !slices.ContainsFunc(there, func(task *Task) bool { return isLinked(*task) }) {
		return missing, left, nil
	}
	into = map[Dependency]*network.Condition{}
	for i := range missing {
		task := &missing[i]
		// What is appended below must not go into the caller's slices.
		task.After, task.ToSignalAfter = slices.Clip(task.After), slices.Clip(task.ToSignalAfter)
	}
	signal := func(after, run TaskID, condition *network.Condition) {
		if i, ok := places[after]; ok {
			missing[i].ToSignalAfter = append(missing[i].ToSignalAfter, run)
			into[Dependency{after, run}] = condition
		}
	}
	for _, task := range there {
		for _, id := range task.After {
			signal(id, task.ID, nil)
		}
		for _, id := range task.ToSignalAfter {
			if i, ok := places[id]; ok {
				missing[i].After = append(missing[i].After, task.ID)
			}
		}
		// A task that is there with WhenAny takes no more, and its definition decides which it is.
		for id, condition := range task.conditionRows() {
			if condition.Accepts&network.OneOfSeveral == 0 {
				signal(id, task.ID, condition)
			}
		}
	}
	return missing, left, into
}
