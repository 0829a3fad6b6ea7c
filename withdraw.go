package stint

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// AbortTasks cancels tasks, with everything that depends on them: those that have not finished
// become aborted with [CauseCancelled] and the status text, whatever their state, and then their
// dependents with [CauseDependency], unless they run anyway (R12). The owner of a task in progress
// learns of it when its token is refused. A task that is final already stays as it is, and that is
// no error.
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

// DeleteTasks removes tasks from the store, finished ones included, so that their IDs are free.
// What depends on an unfinished one no longer waits for it; a task that then has nothing left to
// wait for is deleted too, and so on (R17). What depends on a finished one stays.
//
// If one of them is in progress, the error is [ErrTaskInProgress]; if there is no task of an ID, it
// is [ErrTaskNotFound]. Either comes in a [*TaskError] that names every such ID, and nothing is
// deleted (R17). After a call whose outcome is unknown, [ErrTaskNotFound] naming all of the IDs
// tells that they had been deleted.
func (s *Store) DeleteTasks(ctx context.Context, ids []TaskID) error {
	err := s.withdrawNamed(ctx, ids, false, func(s *Store, tasks []withdrawn) error {
		if err := refuseOwned(tasks); err != nil {
			return err
		}
		if err := s.erase(ctx, tasks); err != nil {
			return err
		}
		return s.end(ctx, tasks, causeDeleted, "")
	})
	if err != nil {
		return fmt.Errorf("delete tasks: %w", err)
	}
	return nil
}

// ReplaceTasks is [Store.InsertTasks], but where an ID exists it acts as if the old task had been
// aborted and the new one inserted at one instant (R5). The old task is aborted with
// [CauseReplaced] for those who call WaitForTask. Its dependencies go with it, in both directions:
// a task that waited for it no longer does, and does not wait for the new one unless the call says
// so.
//
// If one of the old tasks is in progress, the error is [ErrTaskInProgress], in a [*TaskError] that
// names every such ID, and nothing is replaced. An ID that comes twice is refused with
// [ErrTaskExists].
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
		return s.quiet(ctx)
	}
	var err error
	for range withdrawAttempts {
		err = s.transact(ctx, func(s *Store) error { return s.replaceOnce(ctx, ids, tasks) })
		if !errors.Is(err, ErrTaskExists) { // inserted by somebody since the look
			return err
		}
	}
	return err
}

func (s *Store) replaceOnce(ctx context.Context, ids []TaskID, tasks []Task) error {
	if err := s.lockNetworksOf(ctx, ids, tasks); err != nil {
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
	// Last, so that what waited for an old task and shall wait for the new one never ceases to.
	return s.end(ctx, old, causeReplaced, "")
}

// lockNetworksOf takes the locks that edges need ahead of those on the tasks to replace, where the
// old tasks wait for others or the new ones name others: every verb takes them in this order.
func (s *Store) lockNetworksOf(ctx context.Context, ids []TaskID, tasks []Task) error {
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
	return s.run(ctx, step{name: "lock_networks"},
		step{name: "lock_predecessors", args: []any{keys}})
}

// withdrawAttempts is how often a verb looks again for tasks that moved on while it looked. Each
// look waits for whoever holds the task, so a second one hardly ever misses.
const withdrawAttempts = 20

// The states that withdraw_tasks tells of.
const (
	withdrawnOwned = 2
	withdrawnFinal = 3
)

// A withdrawn task is one that withdraw_tasks took out of its state, or found owned or final.
type withdrawn struct {
	id    TaskID
	key   int64
	state int16
	tries int32
}

// withdrawNamed withdraws the tasks with these IDs, all of which must exist, and passes them on to
// the rest of the verb, in one transaction.
func (s *Store) withdrawNamed(
	ctx context.Context, ids []TaskID, owned bool, then func(*Store, []withdrawn) error,
) error {
	if err := checkIDs(ids); err != nil {
		return err
	}
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 {
		return s.quiet(ctx)
	}
	return s.transact(ctx, func(s *Store) error {
		tasks, err := s.withdraw(ctx, ids, owned)
		if err != nil {
			return err
		}
		if err := requireAll(ids, idsOf(tasks)); err != nil {
			return err
		}
		return then(s, tasks)
	})
}

// withdraw takes the tasks with these IDs out of their states, except for those that are final. If
// owned is set, it takes those in progress, too; otherwise it readies the final ones for erase. IDs
// that no task has are left out of the answer.
func (s *Store) withdraw(
	ctx context.Context, ids []TaskID, owned bool,
) ([]withdrawn, error) {
	var done []withdrawn
	kept := owned // final ones are of no interest then
	for range withdrawAttempts {
		named, err := s.keysOf(ctx, ids)
		if err != nil || len(named) == 0 {
			return done, err
		}
		keys := slices.Sorted(maps.Keys(named))
		ids = nil
		var steps []step
		if !kept {
			steps = append(steps, keepEnds(keys, &kept))
		}
		steps = append(steps,
			step{name: "carve_ready", args: []any{keys}}, carveLeased(singles(keys)))
		if !owned {
			steps = append(steps, step{name: "carve_finished", args: []any{keys}})
		}
		err = s.run(ctx, append(steps, step{
			name: "withdraw_tasks", args: []any{keys, owned, !owned},
			read: func(rows pgx.Rows) error {
				for rows.Next() {
					var task withdrawn
					if err := rows.Scan(&task.key, &task.state, &task.tries); err != nil {
						return err
					}
					task.id = named[task.key]
					delete(named, task.key)
					done = append(done, task)
				}
				return rows.Err()
			},
		})...)
		if err != nil {
			return nil, err
		}
		for _, id := range named { // moved on meanwhile: look again
			ids = append(ids, id)
		}
		if !kept { // what is to be erased shall stay final: look again
			done = slices.DeleteFunc(done, func(task withdrawn) bool {
				if task.state == withdrawnFinal {
					ids = append(ids, task.id)
				}
				return task.state == withdrawnFinal
			})
		}
		if len(ids) == 0 {
			return done, nil
		}
	}
	return nil, taskError(ids, errRestless)
}

// errRestless can only be met in a transaction that is stricter than READ COMMITTED, whose caller
// shall begin again.
var errRestless = fmt.Errorf("task changed its state at every look: %w", &pgconn.PgError{
	Severity: "ERROR", Code: codeSerializationFailure,
	Message: "could not serialize access due to concurrent update",
})

// keysOf finds tasks, by key, behind the first steps; IDs that no task has are left out.
func (s *Store) keysOf(
	ctx context.Context, ids []TaskID, first ...step,
) (map[int64]TaskID, error) {
	named := make(map[int64]TaskID, len(ids))
	find := step{name: "task_keys", args: []any{texts(ids)}, read: readNames(named)}
	return named, s.run(ctx, append(first, find)...)
}

// requireAll refuses IDs that no task has.
func requireAll(ids []TaskID, found iter.Seq[TaskID]) error {
	has := make(map[TaskID]bool, len(ids))
	for id := range found {
		has[id] = true
	}
	missing := slices.DeleteFunc(slices.Clone(ids), func(id TaskID) bool { return has[id] })
	if len(missing) > 0 {
		return taskError(missing, ErrTaskNotFound)
	}
	return nil
}

// idsOf yields the IDs of withdrawn tasks.
func idsOf(tasks []withdrawn) iter.Seq[TaskID] {
	return func(yield func(TaskID) bool) {
		for _, task := range tasks {
			if !yield(task.id) {
				return
			}
		}
	}
}

func refuseOwned(tasks []withdrawn) error {
	var owned []TaskID
	for _, task := range tasks {
		if task.state == withdrawnOwned {
			owned = append(owned, task.id)
		}
	}
	if len(owned) == 0 {
		return nil
	}
	slices.Sort(owned)
	return &TaskError{IDs: owned, Err: ErrTaskInProgress}
}

// end ends the withdrawn tasks that were not final, and settles what follows from it.
func (s *Store) end(
	ctx context.Context, tasks []withdrawn, cause int16, status string,
) error {
	var keys, owned []int64
	var tries []int32
	for _, task := range tasks {
		if task.state != withdrawnFinal {
			keys, tries = append(keys, task.key), append(tries, task.tries)
		}
		if task.state == withdrawnOwned {
			owned = append(owned, task.key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return s.settle(ctx, roundsUsual, nil, func(batch int64, round int, told *news) []step {
		told.lost = owned
		return []step{{
			name: "end_tasks", args: []any{batch, round, cause, statusText(status), keys, tries},
		}}
	})
}

// erase frees the IDs of withdrawn tasks, and takes those that are final out of the store; the
// others are still to end.
func (s *Store) erase(ctx context.Context, tasks []withdrawn) error {
	var keys, final []int64
	for _, task := range tasks {
		keys = append(keys, task.key)
		if task.state == withdrawnFinal {
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
