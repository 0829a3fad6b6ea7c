package stint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
)

// ReplaceTasks is [Store.InsertTasks], but where an ID exists it acts as if the old task had been
// aborted and the new one inserted at one instant (R5). Callers of [Store.WaitForTask] see the old
// task aborted with [CauseReplaced]. Its dependencies are removed with it, in both directions: a
// task that waited for it no longer does, and does not wait for the new task unless the call says
// so.
//
// If an old task is in progress, the error is [ErrTaskInProgress], in a [*TaskError] that names
// every such ID, and nothing is replaced. An ID that comes twice is refused with [ErrTaskExists].
//
// The call may be repeated after any failure: it then replaces the tasks by the same ones, or finds
// them in progress already.
func (s *Store) ReplaceTasks(ctx context.Context, tasks []Task) error {
	if err := s.replaceTasks(ctx, tasks); err != nil {
		return fmt.Errorf("replace tasks: %w", err)
	}
	return nil
}

func (s *Store) replaceTasks(ctx context.Context, tasks []Task) error {
	giveIDs(tasks)
	ids := make([]TaskID, len(tasks))
	for i := range tasks {
		if err := checkTask(&tasks[i], i); err != nil {
			return err
		}
		ids[i] = tasks[i].ID
	}
	if repeated := repeatedIDs(tasks); len(repeated) > 0 {
		slices.Sort(repeated)
		return &TaskError{IDs: slices.Compact(repeated), Err: ErrTaskExists}
	}
	if len(tasks) == 0 {
		return s.checkOpen(ctx)
	}
	var err error
	for range attemptsMax {
		err = s.transact(ctx, func(s *Store) error { return s.replaceOnce(ctx, ids, tasks) })
		if !errors.Is(err, ErrTaskExists) { // somebody has inserted one since the look
			return err
		}
	}
	return err
}

func (s *Store) replaceOnce(ctx context.Context, ids []TaskID, tasks []Task) error {
	if err := s.lockDependenciesOf(ctx, ids, tasks); err != nil {
		return err
	}
	old, err := s.withdraw(ctx, ids, false)
	if err != nil {
		return err
	}
	if err := refuseOwned(old); err != nil {
		return err
	}
	if err := s.erase(ctx, old); err != nil {
		return err
	}
	if err := s.insertTasks(ctx, tasks); err != nil {
		return err
	}
	// The old tasks end last, so that a task that waited for an old one and must wait for the new
	// one never stops waiting.
	_, err = s.end(ctx, old, causeReplaced, "")
	return err
}

// lockDependenciesOf takes the locks that edges need, if the old tasks wait for others or the new
// ones name others. The locks on the tasks to replace come after these: every verb takes them in
// this order.
func (s *Store) lockDependenciesOf(ctx context.Context, ids []TaskID, tasks []Task) error {
	ids = slices.Clone(ids)
	for i := range tasks {
		ids = append(ids, tasks[i].After...)
	}
	named, err := s.keysOf(ctx, ids)
	if err != nil {
		return err
	}
	keys := slices.Sorted(maps.Keys(named))
	var waiting []int64
	err = s.run(ctx, step{
		name: "waiting_tasks", args: []any{keys},
		read: func(rows pgx.Rows) error {
			var err error
			waiting, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			return err
		},
	})
	if err != nil || len(waiting) == 0 && !slices.ContainsFunc(tasks, isLinked) {
		return err
	}
	return s.run(ctx, step{name: "lock_dependencies"},
		step{name: "lock_predecessors", args: []any{keys}})
}
