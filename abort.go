package stint

import (
	"context"
	"fmt"
	"slices"
)

// Affected says which tasks a call changed.
type Affected struct {
	// Tasks are the tasks named in the call that were changed, in the order of their IDs.
	Tasks []TaskID
	// Others is how many other tasks were changed with them.
	Others int
}

// AbortTasks cancels tasks and everything that depends on them. Tasks that have not finished are
// aborted with [CauseCancelled] and the status text, whatever their state; then their dependents
// are aborted with [CauseDependency], except those that run anyway (R12). The owner of a task in
// progress learns of it when its token is refused. A final task stays as it is, without an error.
// The result names the tasks that were aborted, and counts the dependents that were aborted with
// them.
//
// If there is no task of an ID, the error is [ErrTaskNotFound], in a [*TaskError] that names every
// such ID, and no task is aborted. The call may be repeated after any failure; its result then
// lacks the tasks that the first call has aborted.
func (s *Store) AbortTasks(
	ctx context.Context, ids []TaskID, status string,
) (aborted Affected, err error) {
	err = s.withdrawNamed(ctx, ids, true, func(s *Store, tasks []withdrawn) error {
		aborted = Affected{Tasks: pendingIDs(tasks)}
		if len(aborted.Tasks) == 0 {
			return s.follow(ctx)
		}
		aborted.Others, err = s.end(ctx, tasks, causeCancelled, status)
		return err
	})
	if err != nil {
		return Affected{}, fmt.Errorf("abort tasks: %w", err)
	}
	return aborted, nil
}

// pendingIDs are the IDs of the withdrawn tasks that were not final, in order.
func pendingIDs(tasks []withdrawn) []TaskID {
	var ids []TaskID
	for _, task := range tasks {
		if !task.final() {
			ids = append(ids, task.id)
		}
	}
	slices.Sort(ids)
	return ids
}

// end ends the withdrawn tasks that were not final, and settles the consequences for their
// dependents. It returns how many of those were aborted or, after a deletion, deleted.
func (s *Store) end(
	ctx context.Context, tasks []withdrawn, cause int16, status string,
) (others int, err error) {
	var keys, owned []int64
	var tries []int32
	var actors []*string
	for _, task := range tasks {
		if !task.final() {
			keys, tries = append(keys, task.key), append(tries, task.tries)
			actors = append(actors, task.actor)
		}
		if task.state == stateInProgress {
			owned = append(owned, task.key)
		}
	}
	if len(keys) == 0 {
		return 0, nil
	}
	counted, named := causeDependency, 0
	if cause == causeDeleted {
		counted, named = causeDeleted, len(keys)
	}
	var settled *notices
	err = s.settle(ctx, roundsUsual, nil, func(batch int64, round int, pending *notices) []step {
		settled = pending
		pending.lost, pending.counted = owned, &counted
		return []step{{
			name: "end_tasks",
			args: []any{batch, round, cause, statusText(status), keys, tries, actors},
		}}
	})
	if err != nil {
		return 0, err
	}
	return settled.count - named, nil
}
