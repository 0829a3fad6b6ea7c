package stint

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/changes"
	"github.com/stint-tasks/stint/internal/network"
	"github.com/stint-tasks/stint/internal/pg"
)

// Affected says which tasks a call changed.
type Affected struct {
	// Tasks are the tasks named in the call that were changed, in the order of their IDs.
	Tasks []TaskID
	// Others is how many other tasks were changed with them.
	Others int
	// InProgress is how many of Tasks were in progress when they were aborted.
	InProgress int

	// The rest is told by a dry run only ([Store.DryRun]). Started is how many other tasks no
	// longer wait for any others then, such as those that run anyway, and begin, at once or at
	// their time. Skipped is how many end skipped, also of those that a retry opens. Later is how
	// many more are aborted within about a second: what only aborted tasks with FailFast need, and
	// those that a retry opens after their Deadline.
	Started, Skipped, Later int
}

// AbortTasks cancels tasks and everything that depends on them. Tasks that have not finished are
// aborted with [CauseCancelled] and the status text, whatever their state; then their dependents
// are aborted with [CauseDependency], except those that run anyway (R12). The owner of a task in
// progress learns of it when its token is refused. A final task stays as it is, without an error.
// The result names the tasks that were aborted, and counts dependents that were aborted with them.
//
// A dependent with a condition about one of the tasks starts if that names StateAborted and nothing
// else is missing. If not, it is aborted, or skipped if it runs anyway; with [Task.WhenAny] only
// when none of its other predecessors is left to start it (R23).
//
// If there is no task of an ID, the error is [ErrTaskNotFound], in a [*TaskError] that names every
// such ID, and no task is aborted. The call may be repeated after any failure; its result then
// lacks the tasks that the first call has aborted.
func (s *Store) AbortTasks(
	ctx context.Context, ids []TaskID, status string,
) (aborted Affected, err error) {
	err = s.withdrawNamed(ctx, ids, true, func(s *Store, tasks []withdrawn) error {
		aborted = Affected{Tasks: pendingIDs(tasks), InProgress: len(ownedIDs(tasks))}
		if len(aborted.Tasks) == 0 {
			return s.db.WaitForCommit(ctx)
		}
		keys := keysWhere(tasks, withdrawn.pending)
		note, err := changes.Tasks(ctx, s.db, "AbortTasks", keys)
		if err != nil {
			return err
		}
		if aborted.Others, err = s.end(ctx, tasks, causeCancelled, status); err != nil {
			return err
		}
		return changes.Others(ctx, s.db, note, aborted.Others)
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

// keysWhere are the keys of some of the withdrawn tasks, in order.
func keysWhere(tasks []withdrawn, is func(withdrawn) bool) (keys []int64) {
	for _, task := range tasks {
		if is(task) {
			keys = append(keys, task.key)
		}
	}
	slices.Sort(keys)
	return keys
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
	counted, named := &endCount{cause: causeDependency}, 0
	if cause == causeDeleted {
		counted.cause, named = causeDeleted, len(keys)
	}
	err = s.settleCounting(ctx, counted, roundsUsual, nil, func(at settling) []pg.Step {
		at.pending.AddKeys(kindLost, owned...)
		return []pg.Step{{
			Name: "end_tasks",
			Args: []any{at.batch, at.round, cause, statusText(status), keys, tries, actors},
		}}
	})
	if err != nil {
		return 0, err
	}
	return counted.tasks - named, nil
}

// DeleteTasks removes tasks from the store, including finished ones, which frees their IDs. The
// dependents of an unfinished task no longer wait for it. A dependent of which all predecessors are
// deleted before they have finished is deleted too, and so on; if one of them has finished, it goes
// on when nothing is left to wait for, whatever came last (R17). The dependents of a finished task
// stay. The result names the tasks of the call, and counts dependents that were deleted with them.
//
// A condition about an unfinished task that is deleted is not met: the dependent is skipped, or,
// with [Task.WhenAny], waits for its other predecessors (R23). What a finished task has decided
// stays decided, also if the dependent is retried later.
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
		note, err := changes.Tasks(ctx, s.db, "DeleteTasks", keysWhere(tasks, withdrawn.any))
		if err != nil {
			return err
		}
		if err := s.erase(ctx, tasks); err != nil {
			return err
		}
		deleted = Affected{Tasks: slices.Sorted(idsOf(tasks))}
		if deleted.Others, err = s.end(ctx, tasks, causeDeleted, ""); err != nil {
			return err
		}
		return changes.Others(ctx, s.db, note, deleted.Others)
	})
	if err = s.waitIfRepeated(ctx, err, ErrTaskNotFound); err != nil {
		return Affected{}, fmt.Errorf("delete tasks: %w", err)
	}
	return deleted, nil
}

// erase frees the IDs of withdrawn tasks, and deletes the final ones from the store. The caller
// must still end the others.
func (s *Store) erase(ctx context.Context, tasks []withdrawn) error {
	keys, final := keysWhere(tasks, withdrawn.any), keysWhere(tasks, withdrawn.final)
	if len(keys) == 0 {
		return nil
	}
	return s.db.Run(ctx, pg.Step{Name: "drop_definitions", Args: []any{keys}},
		pg.Step{Name: "erase_tasks", Args: []any{final}})
}

// ReplaceTasks is [Store.InsertTasks], but where an ID exists it acts as if the old task had been
// aborted and the new one inserted at one instant (R5). Callers of [Store.WaitForTask] see the old
// task aborted with [CauseReplaced]. Its dependencies are removed with it, in both directions: a
// task that waited for it no longer does, and does not wait for the new task unless the call says
// so. A condition about an old task that had not finished is not met: the dependent is skipped, or,
// with [Task.WhenAny], waits for its other predecessors (R23). If the new task names a blocked
// dependent of the old one in [Task.ToSignalAfter], that goes on to wait, under the condition that
// it has.
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
		return s.db.CheckOpen(ctx)
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
	handed, into, err := s.handOver(ctx, old, tasks)
	if err != nil {
		return err
	}
	if err := s.erase(ctx, old); err != nil {
		return err
	}
	if err := s.insertInto(ctx, tasks, into); err != nil {
		return err
	}
	// The old tasks end last, so that a task that waited for an old one and must wait for the new
	// one never stops waiting.
	if _, err = s.end(ctx, old, causeReplaced, ""); err != nil || len(handed) == 0 {
		return err
	}
	after, run := network.Ends(handed)
	return s.db.Run(ctx, pg.Step{Name: "cut_edges", Args: []any{after, run}})
}

// handOver prepares new tasks for the dependents of the old ones that they name: these go on to
// wait, under the conditions that they have. It returns the edges from old tasks to such
// dependents, and the conditions of the new edges.
func (s *Store) handOver(
	ctx context.Context, old []withdrawn, tasks []Task,
) (handed []network.Edge, into map[Dependency]*network.Condition, err error) {
	keys, replaced := map[TaskID]int64{}, map[TaskID]bool{}
	for _, was := range old {
		keys[was.id], replaced[was.id] = was.key, true
	}
	var after []int64
	var run []TaskID
	names := map[int64]TaskID{}
	for i := range tasks {
		key, ok := keys[tasks[i].ID]
		for _, dependent := range tasks[i].ToSignalAfter {
			if ok && !replaced[dependent] {
				after, run = append(after, key), append(run, dependent)
				names[key] = tasks[i].ID
			}
		}
	}
	if len(after) == 0 {
		return nil, nil, nil
	}
	into = map[Dependency]*network.Condition{}
	err = s.db.Run(ctx, pg.Step{
		Name: "hand_over", Args: []any{after, texts(run)},
		Read: func(rows pgx.Rows) error {
			var edge network.Edge
			var id TaskID
			var c network.Condition
			columns := []any{&edge.After, &edge.Run, &id, &c.Accepts, &c.Results}
			_, err := pgx.ForEachRow(rows, columns, func() error {
				handed = append(handed, edge)
				if c.Accepts != 0 {
					into[Dependency{names[edge.After], id}] = new(c)
				}
				return nil
			})
			return err
		},
	})
	return handed, into, err
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
	err = s.db.Run(ctx, pg.Step{
		Name: "waiting_tasks", Args: []any{keys},
		Read: func(rows pgx.Rows) error {
			var err error
			waiting, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			return err
		},
	})
	if err != nil || len(waiting) == 0 && !slices.ContainsFunc(tasks, isLinked) {
		return err
	}
	return s.db.Run(ctx, pg.Step{Name: "lock_dependencies"},
		pg.Step{Name: "lock_predecessors", Args: []any{keys}})
}

// A withdrawn task is one that withdraw_tasks took out of its state, or found owned or final.
type withdrawn struct {
	id    TaskID
	key   int64
	state int16
	tries int32
	// position is where it was in the queue, nil unless it was ready.
	position *int64
	// notBefore is its time, nil unless it was scheduled.
	notBefore *time.Time
	// actor is its owner, nil unless it was owned.
	actor *string
}

func (t withdrawn) final() bool   { return t.state >= stateCompleted }
func (t withdrawn) pending() bool { return !t.final() }
func (withdrawn) any() bool       { return true }

// withdrawNamed withdraws the tasks with these IDs, all of which must exist, and passes them on to
// the rest of the verb, in one transaction.
func (s *Store) withdrawNamed(
	ctx context.Context, ids []TaskID, owned bool, then func(*Store, []withdrawn) error,
) error {
	return s.onNamed(ctx, ids, func(s *Store, ids []TaskID) error {
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

// onNamed does the rest of a verb for tasks by their IDs, each once and in order, in a transaction.
func (s *Store) onNamed(
	ctx context.Context, ids []TaskID, then func(s *Store, ids []TaskID) error,
) error {
	if err := checkIDs(ids); err != nil {
		return err
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	if len(ids) == 0 {
		return s.db.CheckOpen(ctx)
	}
	return s.transact(ctx, func(s *Store) error { return then(s, ids) })
}

// withdraw takes the tasks with these IDs out of their states, except for those that are final. If
// owned is set, it takes those in progress, too; otherwise it readies the final ones for erase. IDs
// that no task has are left out of the answer.
func (s *Store) withdraw(
	ctx context.Context, ids []TaskID, owned bool,
) ([]withdrawn, error) {
	var done []withdrawn
	endsKept := owned // final ones are of no interest then
	for range attemptsMax {
		named, err := s.keysOf(ctx, ids)
		if err != nil || len(named) == 0 {
			return done, err
		}
		taken, err := s.takeOut(ctx, named, owned, &endsKept)
		if err != nil {
			return nil, err
		}
		ids = slices.Collect(maps.Values(named)) // moved on meanwhile: look again
		if !endsKept {                           // tasks to erase must stay final: look again
			taken = slices.DeleteFunc(taken, func(task withdrawn) bool {
				if task.final() {
					ids = append(ids, task.id)
				}
				return task.final()
			})
		}
		done = append(done, taken...)
		if len(ids) == 0 {
			return done, nil
		}
	}
	return nil, taskError(ids, errUnstable)
}

// withdrawKeys withdraws the very tasks with these keys, also those in progress. It leaves a task
// alone that has taken the ID of one of them meanwhile.
func (s *Store) withdrawKeys(ctx context.Context, keys []int64) (done []withdrawn, err error) {
	endsKept := true // final ones are of no interest
	for range attemptsMax {
		named := make(map[int64]TaskID, len(keys))
		err := s.db.Run(ctx, pg.Step{Name: "task_ids", Args: []any{keys}, Read: readNames(named)})
		if err != nil || len(named) == 0 {
			return done, err
		}
		taken, err := s.takeOut(ctx, named, true, &endsKept)
		if err != nil {
			return nil, err
		}
		done = append(done, taken...)
		if len(named) == 0 {
			return done, nil
		}
		keys = slices.Collect(maps.Keys(named)) // moved on meanwhile: look again
	}
	return nil, errUnstable
}

// takeOut takes tasks out of their states, and out of named. What is left of that has moved on.
func (s *Store) takeOut(
	ctx context.Context, named map[int64]TaskID, owned bool, endsKept *bool,
) (done []withdrawn, err error) {
	keys := slices.Sorted(maps.Keys(named))
	var steps []pg.Step
	if !*endsKept {
		steps = append(steps, keepEnds(keys, endsKept))
	}
	steps = append(steps,
		pg.Step{Name: "split_ready", Args: []any{keys}}, splitLeased(singles(keys)))
	pending := &pg.Notices{}
	steps = append(steps, s.limits.UnparkFor(s.db.InCallersTx(), keys, keys, pending))
	if !owned {
		steps = append(steps, pg.Step{Name: "split_finished", Args: []any{keys}})
	}
	err = s.db.Run(ctx, append(steps, pg.Step{
		Name: "withdraw_tasks", Args: []any{keys, owned, !owned},
		Read: func(rows pgx.Rows) error {
			for rows.Next() {
				var task withdrawn
				err := rows.Scan(&task.key, &task.state, &task.tries, &task.position,
					&task.notBefore, &task.actor)
				if err != nil {
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
	s.db.Notify(ctx, pending)
	return done, nil
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
	if owned := ownedIDs(tasks); len(owned) > 0 {
		return &TaskError{IDs: owned, Err: ErrTaskInProgress}
	}
	return nil
}

// ownedIDs are the IDs of the withdrawn tasks that were in progress, in order.
func ownedIDs(tasks []withdrawn) (owned []TaskID) {
	for _, task := range tasks {
		if task.state == stateInProgress {
			owned = append(owned, task.id)
		}
	}
	slices.Sort(owned)
	return owned
}
