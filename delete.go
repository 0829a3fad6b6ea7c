package stint

import (
	"context"
	"fmt"
	"slices"
)

// DeleteTasks removes tasks from the store, including finished ones, which frees their IDs. The
// dependents of an unfinished task no longer wait for it; a dependent that then has nothing left to
// wait for is deleted too, and so on (R17). The dependents of a finished task stay. The result
// names the tasks of the call, and counts the dependents that were deleted with them.
//
// If a task is in progress, the error is [ErrTaskInProgress]; if there is no task of an ID, it is
// [ErrTaskNotFound]. Either comes in a [*TaskError] that names every such ID, and nothing is
// deleted (R17). If a call whose outcome was unknown is repeated, [ErrTaskNotFound] with all of the
// IDs means that the first call deleted them.
func (s *Store) DeleteTasks(ctx context.Context, ids []TaskID) (deleted Affected, err error) {
	err = s.withdrawNamed(ctx, ids, false, func(s *Store, tasks []withdrawn) error {
		if err := refuseOwned(tasks); err != nil {
			return err
		}
		if err := s.erase(ctx, tasks); err != nil {
			return err
		}
		deleted = Affected{Tasks: slices.Sorted(idsOf(tasks))}
		deleted.Others, err = s.end(ctx, tasks, causeDeleted, "")
		return err
	})
	if err = s.followIf(ctx, err, ErrTaskNotFound); err != nil {
		return Affected{}, fmt.Errorf("delete tasks: %w", err)
	}
	return deleted, nil
}

// erase frees the IDs of withdrawn tasks, and deletes the final ones from the store. The caller
// must still end the others.
func (s *Store) erase(ctx context.Context, tasks []withdrawn) error {
	var keys, final []int64
	for _, task := range tasks {
		keys = append(keys, task.key)
		if task.final() {
			final = append(final, task.key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	slices.Sort(keys)
	slices.Sort(final)
	return s.run(ctx, step{name: "drop_definitions", args: []any{keys}},
		step{name: "erase_tasks", args: []any{final}})
}
