package stint

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/schedule"
)

// A scheduleFirer inserts the tasks of schedules that are due.
type scheduleFirer struct {
	store   *Store
	resting schedule.Resting
}

// all inserts the tasks of all schedules that are due and do not rest, each in a transaction of
// its own. The error is about all that fail, those that rest included. Where no schedule is due,
// all asks one question.
func (f *scheduleFirer) all(ctx context.Context) error {
	overdue, err := schedule.IsOverdue(ctx, f.store.db)
	if err != nil || !overdue {
		return err
	}
	rest := f.resting.Look()
	var failed []error
	note := func(name string, err error) bool {
		failed = append(failed, scheduleError(name, err))
		return len(failed) < namedMax
	}
	for place := schedule.Begin(); ; {
		due, err := f.store.fireNext(ctx, place, rest)
		if err != nil && (due == nil || ctx.Err() != nil) {
			return err
		}
		if due == nil {
			break
		}
		if err != nil && !f.resting.Add(due.Name, err) && len(failed) < namedMax {
			note(due.Name, err)
		}
		place = due.Place()
	}
	if len(failed) < namedMax {
		f.resting.Errors(note)
	}
	return errors.Join(failed...)
}

func scheduleError(name string, err error) error {
	if about := (*ScheduleError)(nil); errors.As(err, &about) {
		return err
	}
	return &ScheduleError{Names: []string{name}, Err: err}
}

// fireNext inserts the tasks of the next schedule that is due behind a place, does not rest, and
// that nobody else works on. It returns the schedule, also if that fails, and nil if there is none.
func (s *Store) fireNext(
	ctx context.Context, behind schedule.Place, rest []string,
) (due *schedule.Row, err error) {
	noWait := !s.db.InTx()
	for range attemptsMax {
		err = s.transact(ctx, func(s *Store) error {
			var now time.Time
			due, now, err = schedule.LockDue(ctx, s.db, behind, rest, noWait)
			if err != nil || due == nil {
				return err
			}
			return s.fire(ctx, due, now)
		})
		if !errors.Is(err, ErrTaskNotFound) { // one to wait for has gone since the look
			return due, err
		}
	}
	return due, err
}

// A dueSchedule is one that is due, and the IDs of the tasks of its last occurrence.
type dueSchedule struct {
	Schedule

	row     *schedule.Row
	lastIDs []TaskID
}

// fire inserts the tasks of a schedule that is due and notes its next occurrence.
func (s *Store) fire(ctx context.Context, row *schedule.Row, now time.Time) error {
	infos, err := infosOf([]schedule.Row{*row})
	if err != nil {
		return err
	}
	due := &dueSchedule{infos[0].Schedule, row, infos[0].LastIDs}
	timing, err := due.check()
	if err != nil {
		return err
	}
	occurrences, missed, next := timing.Due(ctx, row.NextAt, now)
	if err := ctx.Err(); err != nil {
		return err
	}
	row.Missed += missed
	for i, at := range occurrences {
		following := next
		if i+1 < len(occurrences) {
			following = occurrences[i+1]
		}
		if err := s.fireAt(ctx, due, at, following); err != nil {
			return err
		}
	}
	row.LastIDs = texts(due.lastIDs)
	return row.Advance(ctx, s.db, next)
}

// fireAt inserts the tasks of an occurrence, unless the one before is in the way, not it itself.
func (s *Store) fireAt(
	ctx context.Context, due *dueSchedule, at, following time.Time,
) error {
	id := due.occurrenceID(at)
	tasks := due.tasksOf(id)
	if due.Overlap != OverlapAllow && !slices.Equal(namesOf(tasks), due.lastIDs) {
		skip, err := s.overlap(ctx, due, tasks)
		if skip || err != nil {
			return err
		}
	}
	delay := schedule.Delay(string(id), due.Jitter, at, following)
	for i := range tasks {
		if delay > 0 {
			tasks[i].NotBefore = at.Add(delay)
		}
		if due.Expire {
			tasks[i].Deadline = following
		}
	}
	// If they exist, they were inserted: the schedule was put anew, or comes from a backup.
	if err := s.insertTasks(ctx, tasks); err != nil && !errors.Is(err, ErrTaskExists) {
		return err
	}
	due.row.LastAt, due.lastIDs = at, namesOf(tasks)
	return nil
}

func namesOf(tasks []Task) []TaskID {
	ids := make([]TaskID, len(tasks))
	for i := range tasks {
		ids[i] = tasks[i].ID
	}
	return ids
}

// overlap applies the schedule's Overlap to the tasks of an occurrence. It reports whether they are
// left out.
func (s *Store) overlap(
	ctx context.Context, due *dueSchedule, tasks []Task,
) (skip bool, err error) {
	unfinished, ends, err := s.unfinishedTasks(ctx, due.lastIDs)
	if err != nil || len(unfinished) == 0 {
		return false, err
	}
	switch due.Overlap {
	case OverlapAllow:
	case OverlapSkip:
		due.row.Skipped++
		return true, nil
	case OverlapAbort:
		_, err = s.AbortTasks(ctx, unfinished, "aborted for the next occurrence of its schedule")
	case OverlapWait:
		signalled := map[TaskID]bool{}
		for i := range tasks {
			for _, id := range tasks[i].ToSignalAfter {
				signalled[id] = true
			}
		}
		for i := range tasks {
			if len(tasks[i].After)+len(tasks[i].conditions()) == 0 && !signalled[tasks[i].ID] {
				tasks[i].After, tasks[i].OnAbort = slices.Clone(ends), RunAnyway
			}
		}
	}
	return false, err
}

// unfinishedTasks returns those of the tasks that have not finished, and those of these for which
// none of the others waits.
func (s *Store) unfinishedTasks(
	ctx context.Context, ids []TaskID,
) (unfinished, ends []TaskID, err error) {
	err = s.db.Run(ctx, pg.Step{
		Name: "unfinished_tasks", Args: []any{texts(ids)},
		Read: func(rows pgx.Rows) error {
			var id TaskID
			var isEnd bool
			_, err := pgx.ForEachRow(rows, []any{&id, &isEnd}, func() error {
				unfinished = append(unfinished, id)
				if isEnd {
					ends = append(ends, id)
				}
				return nil
			})
			return err
		},
	})
	return unfinished, ends, err
}

// occurrenceID is what the IDs of the tasks of an occurrence begin with.
func (d *Schedule) occurrenceID(at time.Time) TaskID {
	return TaskID(d.Name + "/" + at.UTC().Format(time.RFC3339Nano))
}

// tasksOf returns the tasks of an occurrence, with IDs that begin with a text.
func (d *Schedule) tasksOf(prefix TaskID) []Task {
	named := func(id TaskID) TaskID {
		if id == "" {
			return prefix
		}
		return prefix + "/" + id
	}
	tasks := make([]Task, len(d.Tasks))
	for i, task := range d.Tasks {
		task.ID = named(task.ID)
		for _, ids := range []*[]TaskID{&task.After, &task.ToSignalAfter} {
			var all []TaskID
			for _, id := range *ids {
				all = append(all, named(id))
			}
			*ids = all
		}
		for _, conditions := range []*[]Condition{&task.When, &task.WhenAny} {
			*conditions = slices.Clone(*conditions)
			for j := range *conditions {
				(*conditions)[j].After = named((*conditions)[j].After)
			}
		}
		tasks[i] = task
	}
	return tasks
}
