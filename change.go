package stint

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/changes"
	"github.com/stint-tasks/stint/internal/pg"
)

// TaskChanges are what [Store.ChangeTasks] changes of tasks. What is zero or nil stays as it is.
type TaskChanges struct {
	// NotBefore is the new [Task.NotBefore]: a task that is ready, or that waits for its next try,
	// starts then at the earliest, too. If it has passed, the tasks start at once.
	NotBefore time.Time
	// StartAfter does the same by a time from the call on.
	StartAfter time.Duration
	// StartNow has the tasks start at once: those that are scheduled are ready, and blocked ones
	// are when their predecessors have ended. At most one of these three is set.
	StartNow bool

	// Priority is the new [Task.Priority]. Among tasks of the same, older ones come first.
	Priority *int16
	// Key is the new [Task.Key]; an empty one means none.
	Key *string
	// MaxTries is the new [Task.MaxTries], or UnlimitedTries. It counts the tries that a task has
	// had: with as many, or more, the task has one left.
	MaxTries int
}

// ChangeTasks changes when tasks start that wait, and their priority, their key, or how often they
// are tried. Blocked, scheduled and ready tasks wait, and so do those that are due for another try.
// Their edges, history, steps and bodies stay, and so does their age in the queue. The result names
// the tasks that were not so already.
//
// If a task is in progress or final, even if its lease has expired and nobody else owns it, the
// error is [ErrTaskStarted]; if there is no task of an ID, it is [ErrTaskNotFound]. Either comes in
// a [*TaskError] that names every such ID, and nothing is changed. No changes at all, and values
// beyond the limits, are refused with an [*ArgumentError].
//
// The call may be repeated after any failure: it then finds the tasks changed, or begun. Only
// StartAfter counts from each call anew.
func (s *Store) ChangeTasks(
	ctx context.Context, ids []TaskID, to TaskChanges,
) (changed Affected, err error) {
	if err = to.check(); err == nil {
		err = s.onNamed(ctx, ids, func(s *Store, ids []TaskID) error {
			changed, err = s.changeTasks(ctx, ids, to)
			return err
		})
	}
	if err != nil {
		return Affected{}, fmt.Errorf("change tasks: %w", err)
	}
	return changed, nil
}

func (c *TaskChanges) check() error {
	starts := 0
	for _, is := range []bool{!c.NotBefore.IsZero(), c.StartAfter != 0, c.StartNow} {
		if is {
			starts++
		}
	}
	switch {
	case *c == TaskChanges{}:
		return argumentError("TaskChanges", "must not be empty")
	case starts > 1:
		return argumentError("TaskChanges", "must not have several starts")
	case c.StartAfter < 0:
		return argumentError("TaskChanges.StartAfter", "must be positive")
	case c.Key != nil && *c.Key != "":
		if err := checkText("TaskChanges.Key", *c.Key, keyBytesMax); err != nil {
			return err
		}
	}
	// The rest is as of a task that is inserted.
	task := Task{ID: "-", Action: "-", MaxTries: c.MaxTries, NotBefore: c.NotBefore}
	return task.check()
}

// changeTasks changes tasks, and looks again at those that have moved on since the look before.
func (s *Store) changeTasks(
	ctx context.Context, ids []TaskID, to TaskChanges,
) (changed Affected, err error) {
	states, different := map[TaskID]int16{}, map[int64]TaskID{}
	for left, n := ids, 0; len(left) > 0; n++ {
		if n == attemptsMax {
			return changed, taskError(left, errUnstable)
		}
		named, err := s.keysOf(ctx, left)
		if err != nil {
			return changed, err
		}
		if err := s.changeNamed(ctx, named, to, states, different); err != nil {
			return changed, err
		}
		left = slices.DeleteFunc(slices.Collect(maps.Values(named)), func(id TaskID) bool {
			_, ok := states[id]
			return ok
		})
	}
	if err := requireAll(ids, maps.Keys(states)); err != nil {
		return changed, err
	}
	started := slices.DeleteFunc(slices.Collect(maps.Keys(states)), func(id TaskID) bool {
		return states[id] < stateInProgress
	})
	if len(started) > 0 {
		return changed, taskError(started, ErrTaskStarted)
	}
	changed.Tasks = slices.Sorted(maps.Values(different))
	if len(different) == 0 { // others may have changed them just now
		return changed, s.db.WaitForCommit(ctx)
	}
	_, err = changes.Tasks(ctx, s.db, "ChangeTasks", slices.Sorted(maps.Keys(different)))
	return changed, err
}

// changeNamed changes the tasks with these keys that still are in the states they were in. It notes
// the states, and which tasks are different now.
func (s *Store) changeNamed(
	ctx context.Context, named map[int64]TaskID, to TaskChanges,
	states map[TaskID]int16, different map[int64]TaskID,
) error {
	keys, pending := slices.Sorted(maps.Keys(named)), &pg.Notices{}
	moves := to.StartNow || to.StartAfter != 0 || !to.NotBefore.IsZero()
	args := []any{
		keys, moves, pg.Moment(to.NotBefore), pg.NonZero(to.StartAfter), to.Priority,
		to.Key != nil, pg.NonZero(pg.OrZero(to.Key)), to.MaxTries,
	}
	// A task that leaves the queue, or its key, leaves its place to parked ones.
	err := s.db.Run(ctx, pg.Step{Name: "split_changing", Args: args},
		s.limits.UnparkFor(s.db.InCallersTx(), keys, keys, pending), pg.Step{
			Name: "change_tasks", Args: args, Read: func(rows pgx.Rows) error {
				var key int64
				var state *int16
				var action *string
				_, err := pgx.ForEachRow(rows, []any{&key, &state, &action}, func() error {
					if state != nil {
						states[named[key]] = *state
						return nil
					}
					different[key] = named[key]
					if action != nil {
						s.queues.Forget(*action)
						pending.Add(readyTopic(*action))
					}
					return nil
				})
				return err
			},
		})
	if err == nil {
		s.db.Notify(ctx, pending)
	}
	return err
}
