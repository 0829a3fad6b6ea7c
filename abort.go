package stint

import (
	"context"
	"fmt"
)

// AbortTasks cancels tasks, with everything that depends on them: those that have not finished
// become aborted with [CauseCancelled] and the status text, whatever their state, and then their
// dependents with [CauseDependency], unless these run anyway (R12). The owner of a task in progress
// learns of it when its token is refused. A final task stays as it is, without an error.
//
// If there is no task of an ID, the error is [ErrTaskNotFound], in a [*TaskError] that names every
// such ID, and no task is aborted. The call may be repeated after any failure.
func (s *Store) AbortTasks(ctx context.Context, ids []TaskID, status string) error {
	err := s.withdrawNamed(ctx, ids, true, func(s *Store, tasks []withdrawn) error {
		return s.end(ctx, tasks, causeCancelled, status)
	})
	if err != nil {
		return fmt.Errorf("abort tasks: %w", err)
	}
	return nil
}

// end ends the withdrawn tasks that were not final, and settles the consequences for their
// dependents.
func (s *Store) end(
	ctx context.Context, tasks []withdrawn, cause int16, status string,
) error {
	var keys, owned []int64
	var tries []int32
	for _, task := range tasks {
		if !task.final() {
			keys, tries = append(keys, task.key), append(tries, task.tries)
		}
		if task.state == stateInProgress {
			owned = append(owned, task.key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return s.settle(ctx, roundsUsual, nil, func(batch int64, round int, pending *notices) []step {
		pending.lost = owned
		return []step{{
			name: "end_tasks", args: []any{batch, round, cause, statusText(status), keys, tries},
		}}
	})
}
