package stint

import (
	"context"
	"errors"
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

// DryRun has the verbs that change tasks of others. It answers as they would at that moment, with
// the same result or error, and says also what follows: see [Affected]. It changes nothing.
//
// Each call copies the tasks that the verb may reach into temporary tables, as they are at one
// moment, does the work there, and undoes it. So it locks nothing that others need, and waits for
// nobody. It takes about as long as the verb, and its role needs the privilege TEMPORARY of the
// database, which all roles have by default; it does not look whether the role may make the change.
// In the caller's transaction, what that has changed before counts. What the verb does later may
// differ, since others may have changed the tasks meanwhile.
type DryRun struct{ store *Store }

// DryRun returns the verbs that only say what they would do.
func (s *Store) DryRun() *DryRun { return &DryRun{s} }

// AbortTasks says what [Store.AbortTasks] would do.
func (d *DryRun) AbortTasks(
	ctx context.Context, ids []TaskID, status string,
) (Affected, error) {
	return d.on(ctx, ids, aborts, func(ctx context.Context, s *Store) (Affected, error) {
		return s.AbortTasks(ctx, ids, status)
	})
}

// RetryTasks says what [Store.RetryTasks] would do.
func (d *DryRun) RetryTasks(ctx context.Context, ids []TaskID) (Affected, error) {
	return d.on(ctx, ids, retries, func(ctx context.Context, s *Store) (Affected, error) {
		return s.RetryTasks(ctx, ids)
	})
}

// DeleteTasks says what [Store.DeleteTasks] would do.
func (d *DryRun) DeleteTasks(ctx context.Context, ids []TaskID) (Affected, error) {
	return d.on(ctx, ids, deletes, func(ctx context.Context, s *Store) (Affected, error) {
		return s.DeleteTasks(ctx, ids)
	})
}

// ChangeTasks says what [Store.ChangeTasks] would do.
func (d *DryRun) ChangeTasks(ctx context.Context, ids []TaskID, to TaskChanges) (Affected, error) {
	if to.check() != nil {
		return d.store.ChangeTasks(ctx, ids, to) // which refuses them
	}
	return d.on(ctx, ids, alters, func(ctx context.Context, s *Store) (Affected, error) {
		return s.ChangeTasks(ctx, ids, to)
	})
}

// What a verb does, which decides how much copy_tasks copies.
const (
	alters = iota
	aborts
	deletes
	retries
)

// on does a verb on copies of tasks.
func (d *DryRun) on(
	ctx context.Context, ids []TaskID, does int,
	verb func(context.Context, *Store) (Affected, error),
) (told Affected, err error) {
	if checkIDs(ids) != nil || len(ids) == 0 {
		return verb(ctx, d.store) // which refuses them, before the database sees them
	}
	ctx = changes.With(ctx, changes.Author{}) // there is nothing to note
	errDone := errors.New("done")
	err = d.store.transact(ctx, func(s *Store) error {
		copies, err := s.copyAround(ctx, ids, does)
		if err != nil {
			return fmt.Errorf("dry run: copy tasks: %w", err)
		}
		if told, err = verb(ctx, copies); err != nil {
			return err
		}
		if does != alters {
			if err = copies.foretell(ctx, does, &told); err != nil {
				return fmt.Errorf("dry run: %w", err)
			}
		}
		return errDone
	})
	if errors.Is(err, errDone) {
		return told, nil
	}
	return told, err
}

// copyAround returns a store that works on copies of the tasks that a verb may reach.
func (s *Store) copyAround(ctx context.Context, ids []TaskID, does int) (*Store, error) {
	temporary, err := s.db.InTemporaryTables(ctx, "copy_tables")
	if err != nil {
		return nil, err
	}
	err = s.db.Run(ctx, pg.Step{Name: "copy_tasks", Args: []any{texts(ids), does}})
	return s.on(temporary), err
}

// foretell adds to what a verb on copies has told what becomes of other tasks then.
func (s *Store) foretell(ctx context.Context, does int, told *Affected) error {
	aborted, fast, err := s.lookAtCopies(ctx, told)
	if err != nil || does != aborts || !fast {
		return err
	}
	failed := &failFaster{store: s}
	if err := failed.all(ctx); err != nil {
		return err
	}
	then, _, err := s.lookAtCopies(ctx, told)
	told.Later += then - aborted
	return err
}

// lookAtCopies returns how many copied tasks a verb has aborted, and whether some have FailFast.
func (s *Store) lookAtCopies(
	ctx context.Context, told *Affected,
) (aborted int, fast bool, err error) {
	err = s.db.Run(ctx, pg.Step{Name: "copies_changed", Read: func(rows pgx.Rows) error {
		into := []any{&told.Started, &told.Skipped, &aborted, &told.Later, &fast}
		_, err := pgx.ForEachRow(rows, into, func() error { return nil })
		return err
	}})
	return aborted, fast, err
}
