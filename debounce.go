package stint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

// followUpSuffix makes the ID of the task that runs after one in progress.
const followUpSuffix = "+"

// Debounce inserts a task that starts when the calls for its ID have been quiet for a while, such
// as the update of a search index after the last of many changes. The task of the latest call
// stands for all calls before it that have not started:
//
//   - If there is no task of the ID, or a final one, the task is inserted, or replaces that one as
//     by [Store.ReplaceTasks]. It starts quiet after this call.
//   - If it is scheduled or blocked, the new task replaces it. It starts quiet after this call, but
//     at most atMost after the first of the calls that it stands for, which is its
//     [TaskInfo.InsertedAt].
//   - If it is ready, the new task replaces it and takes its place in the queue, behind what was
//     inserted with it in one call. If it waits for its next try, the new task starts at the time
//     of that. Its tries count anew.
//   - If it is in progress, the new task is inserted under another ID, that of the task with "+"
//     behind it, and runs after the one in progress, however that ends: it is made to wait for it,
//     with [RunAnyway]. It starts quiet after this call at the earliest. Further calls change it
//     as long as it waits for that one: callers that wait for it, and tasks that depend on it, go
//     on to do so, and it goes on to wait for others. All else of it is new: its tries, its
//     history, its steps and whatever an earlier task of that ID had, such as FailFast. Once the
//     first one has ended, they replace it under the ID of the task again, which in turn waits for
//     one under the other ID that is in progress.
//
// So no call drops the newest task (an abort does, also that of a task with FailFast that depends
// on it), it runs after all before it have ended, and there is at most
// one that has not started. A task that starts at atMost waits for a worker like any other. Both
// times are on the database's clock, from the call on, also in a transaction that began before.
//
// A handler learns from the body what the task is about, since the ID may have a "+". To replace a
// task means what it does in [Store.ReplaceTasks]: callers of [Store.WaitForTask] see it aborted
// with [CauseReplaced], others that depend on it no longer do, conditions about it are not met, so
// that tasks with these are skipped (R23), and the token of a late owner is void. To get rid of a
// task, abort or delete both IDs.
//
// The ID must be given and have at most 511 bytes. NotBefore, AnswerKey, FailFast and what names
// other tasks (After, When and so on) must be zero, the action not [Spontaneous], quiet positive,
// atMost at least quiet; else the error is an [*ArgumentError]. If tasks of both IDs are in
// progress, which only other verbs bring about, such as [Store.RetryTasks], the error is
// [ErrTaskInProgress], in a [*TaskError] that names both, and nothing has changed.
//
// If ctx ends or the connection breaks during the call, it may have taken effect. Calling again is
// safe: it is a further call with the same task.
func (s *Store) Debounce(ctx context.Context, task Task, quiet, atMost time.Duration) error {
	if err := s.debounce(ctx, task, quiet, atMost); err != nil {
		return fmt.Errorf("debounce task: %w", err)
	}
	return nil
}

func (s *Store) debounce(ctx context.Context, task Task, quiet, atMost time.Duration) error {
	task = s.withHeaders(ctx, []Task{task})[0]
	if err := checkDebounced(&task, quiet, atMost); err != nil {
		return err
	}
	var err error
	for range attemptsMax {
		err = s.transact(ctx, func(s *Store) error {
			return s.debounceOnce(ctx, task, quiet, atMost)
		})
		if !errors.Is(err, ErrTaskExists) { // somebody has inserted one since the look
			return err
		}
	}
	return err
}

func checkDebounced(task *Task, quiet, atMost time.Duration) error {
	if err := task.check(); err != nil {
		return err
	}
	switch {
	case len(task.ID) > idBytesMax-len(followUpSuffix):
		return tooLarge("Task.ID bytes", len(task.ID), idBytesMax-len(followUpSuffix))
	case task.Action == Spontaneous:
		return argumentError("Task.Action", "must not be Spontaneous")
	case task.AnswerKey != "":
		return argumentError("Task.AnswerKey", "must be empty")
	case task.FailFast:
		return argumentError("Task.FailFast", "must be false: the task waits for no others")
	case !task.NotBefore.IsZero():
		return argumentError("Task.NotBefore", "must be zero: quiet says when the task starts")
	case len(task.After) > 0:
		return argumentError("Task.After", "must be empty")
	case len(task.ToSignalAfter) > 0:
		return argumentError("Task.ToSignalAfter", "must be empty")
	case len(task.conditions()) > 0:
		return argumentError("Task.When and WhenAny", "must be empty")
	case quiet <= 0:
		return argumentError("quiet", "must be positive")
	case atMost < quiet:
		return argumentError("atMost", "must be at least quiet")
	}
	return nil
}

func (s *Store) debounceOnce(
	ctx context.Context, task Task, quiet, atMost time.Duration,
) error {
	ids := []TaskID{task.ID, task.ID + followUpSuffix}
	if done, err := s.redefineFollowUp(ctx, task, ids, quiet, atMost); done || err != nil {
		return err
	}
	if err := s.lockDependenciesOf(ctx, ids, nil); err != nil {
		return err
	}
	found, err := s.withdraw(ctx, ids, false)
	if err != nil {
		return err
	}
	calls, err := s.firstCalls(ctx, ids)
	if err != nil {
		return err
	}
	var old []withdrawn // to be replaced
	for _, was := range found {
		switch {
		case was.state == stateInProgress:
			task.After, task.OnAbort = append(task.After, was.id), RunAnyway
		case !was.final():
			old = append(old, was)
		}
	}
	switch {
	case len(task.After) == len(ids):
		return refuseOwned(found)
	case slices.Contains(task.After, task.ID):
		task.ID = ids[1]
	}
	var place *int64
	task.NotBefore, place = calls.start(old, quiet, atMost)
	erased := old
	for _, was := range found {
		if was.final() && was.id == task.ID {
			erased = append(erased, was)
		}
	}
	if err := s.erase(ctx, erased); err != nil {
		return err
	}
	known, err := s.insertDebounced(ctx, task, calls.first(old), place, ids)
	if err != nil {
		return err
	}
	for _, was := range found {
		delete(known, was.key)
	}
	if len(known) > 1 { // the other ID, too, since the look
		return taskError(ids, ErrTaskExists)
	}
	_, err = s.end(ctx, old, causeReplaced, "") // last, as in replaceOnce
	return err
}

// redefineFollowUp gives a task that waits for one in progress the definition of another, if there
// is one. It keeps its key, and with it its edges: the return of the one in progress has to look
// again whenever it gets an edge, and in a flood of calls would never come to an end. Nothing else
// of the old task stays.
func (s *Store) redefineFollowUp(
	ctx context.Context, task Task, ids []TaskID, quiet, atMost time.Duration,
) (done bool, err error) {
	var was withdrawn
	var first, now time.Time
	lock := pg.Step{Name: "lock_debounced", Args: []any{string(ids[0])}, NoPlanner: true}
	err = s.db.Run(ctx, lock, pg.Step{
		Name: "hold_follow_up", Args: []any{string(ids[0]), string(ids[1])},
		Read: func(rows pgx.Rows) error {
			done = rows.Next()
			if done {
				if err := rows.Scan(&was.key, &was.id, &first, &now); err != nil {
					return err
				}
			}
			rows.Close()
			return rows.Err()
		},
	})
	if err != nil || !done {
		return false, err
	}
	old := []withdrawn{was}
	calls := calls{now: now, times: map[int64]time.Time{was.key: first}}
	task.ID, task.OnAbort = was.id, RunAnyway
	task.NotBefore, _ = calls.start(old, quiet, atMost)
	return true, s.db.Run(ctx,
		pg.Step{Name: "drop_definitions", Args: []any{[]int64{was.key}}},
		debouncedStep(&task, was.key, true, calls.first(old), nil),
		pg.Step{Name: "renew_blocked", Args: []any{was.key, task.NotBefore}})
}

func debouncedStep(task *Task, key int64, waits bool, first time.Time, place *int64) pg.Step {
	row := rowOf(task, key)
	return pg.Step{Name: "insert_debounced", NoPlanner: true, Args: append(
		[]any{first, place, pg.Moment(task.NotBefore), waits}, row[:]...)}
}

// calls are the times of the calls that the tasks with some keys stand for, and of this one.
type calls struct {
	now   time.Time
	times map[int64]time.Time
}

// firstCalls returns the times of the tasks with these IDs.
func (s *Store) firstCalls(ctx context.Context, ids []TaskID) (calls, error) {
	found := calls{times: map[int64]time.Time{}}
	return found, s.db.Run(ctx, pg.Step{
		Name: "first_calls", Args: []any{texts(ids)},
		Read: func(rows pgx.Rows) error {
			var key *int64
			var first *time.Time
			_, err := pgx.ForEachRow(rows, []any{&key, &first, &found.now}, func() error {
				if key != nil {
					found.times[*key] = *first
				}
				return nil
			})
			return err
		},
	})
}

// first is the time of the first of the calls that a task stands for which replaces the old ones.
func (c calls) first(old []withdrawn) time.Time {
	first := c.now
	for _, was := range old {
		if at, ok := c.times[was.key]; ok && at.Before(first) {
			first = at
		}
	}
	return first
}

// start says when a task starts that replaces old ones: at a time, or at once at a place in line.
func (c calls) start(
	old []withdrawn, quiet, atMost time.Duration,
) (notBefore time.Time, place *int64) {
	notBefore = c.now.Add(quiet)
	if last := c.first(old).Add(atMost); last.Before(notBefore) {
		notBefore = last
	}
	for _, was := range old {
		switch {
		case was.position != nil:
			return time.Time{}, was.position
		case was.notBefore != nil && was.tries > 0:
			notBefore = *was.notBefore
		}
	}
	return notBefore, nil
}

// insertDebounced inserts a task that stands for calls from the first on, and returns the tasks
// with these IDs by key. Whoever inserts a follow-up keeps the task in progress until the commit.
// So now that this task is there, nobody inserts under another of the IDs, unless this task waits
// for one that is in progress, and who did so before is seen.
func (s *Store) insertDebounced(
	ctx context.Context, task Task, first time.Time, place *int64, ids []TaskID,
) (map[int64]TaskID, error) {
	tasks, known := []Task{task}, map[int64]TaskID{}
	graph, err := newInsertGraph(tasks, nil)
	if err != nil {
		return nil, err
	}
	if err := graph.attach(ctx, s); err != nil {
		return nil, err
	}
	ready := readyNotices(tasks, graph)
	return known, s.unlessTaken(ctx, tasks, func() error {
		keys, err := s.keysForFew(ctx, 1)
		if err != nil {
			return err
		}
		steps := []pg.Step{
			debouncedStep(&task, keys[0], graph.waits(0), first, place),
			{Name: "task_keys", Args: []any{texts(ids)}, Read: readNames(known)},
		}
		if graph == nil {
			return s.db.Do(ctx, pg.Request{Steps: steps, Known: ready})
		}
		return s.insertGraphRows(ctx, graph.rows(keys), ready, steps...)
	})
}
