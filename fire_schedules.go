package stint

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// A schedulePlace is where a pass through the schedules that are due has come to. One that cannot
// be fired does not hold up those behind it.
type schedulePlace struct {
	at   pgtype.Timestamptz
	name string
}

// fireSchedules inserts the tasks of all schedules that are due, each in a transaction of its own.
// Where none is, it asks one question.
func (s *Store) fireSchedules(ctx context.Context) error {
	var due int64
	err := s.run(ctx, step{name: "schedule_overdue", count: func(n int64) { due = n }})
	if err != nil || due == 0 {
		return err
	}
	var failed []error
	for place := (&schedulePlace{at: firstMoment()}); place != nil; {
		next, err := s.fireNext(ctx, *place)
		if err != nil && (next == nil || ctx.Err() != nil) {
			return err
		}
		if err != nil && len(failed) < namedMax {
			failed = append(failed, &ScheduleError{Names: []string{next.name}, Err: err})
		}
		place = next
	}
	return errors.Join(failed...)
}

// fireNext inserts the tasks of the next schedule that is due behind a place and that nobody else
// works on. It returns its place, also if that fails, and nil if there is none.
func (s *Store) fireNext(
	ctx context.Context, behind schedulePlace,
) (fired *schedulePlace, err error) {
	for range attemptsMax {
		err = s.transact(ctx, func(s *Store) error {
			due, err := s.lockDue(ctx, behind)
			if due == nil || err != nil {
				fired = nil
				return err
			}
			fired = &schedulePlace{
				at: pgtype.Timestamptz{Time: due.NextAt, Valid: true}, name: due.Name,
			}
			return s.fire(ctx, due)
		})
		if !errors.Is(err, ErrTaskNotFound) { // one to wait for has gone since the look
			return fired, err
		}
	}
	return fired, err
}

// A dueSchedule is one that is due, and the database's clock.
type dueSchedule struct {
	ScheduleInfo

	now time.Time
}

// fire inserts the tasks of a schedule that is due and notes its next occurrence.
func (s *Store) fire(ctx context.Context, due *dueSchedule) error {
	of, err := due.check()
	if err != nil {
		return err
	}
	occurrences, missed, next := due.due(of, due.NextAt, due.now)
	due.Missed += missed
	for i, at := range occurrences {
		following := next
		if i+1 < len(occurrences) {
			following = occurrences[i+1]
		}
		if err := s.fireAt(ctx, due, at, following); err != nil {
			return err
		}
	}
	return s.run(ctx, step{name: "advance_schedule", args: []any{
		due.Name, moment(next), moment(due.LastAt), texts(due.LastIDs), due.Missed, due.Skipped,
	}})
}

// fireAt inserts the tasks of one occurrence, unless the one before is in the way.
func (s *Store) fireAt(
	ctx context.Context, due *dueSchedule, at, following time.Time,
) error {
	tasks := due.tasksOf(due.occurrenceID(at))
	if due.Overlap != OverlapAllow {
		skip, err := s.overlap(ctx, due, tasks)
		if skip || err != nil {
			return err
		}
	}
	delay := due.delay(at, following)
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
	due.LastAt, due.LastIDs = at, namesOf(tasks)
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
	unfinished, ends, err := s.unfinishedTasks(ctx, due.LastIDs)
	if err != nil || len(unfinished) == 0 {
		return false, err
	}
	switch due.Overlap {
	case OverlapAllow:
	case OverlapSkip:
		due.Skipped++
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
			if len(tasks[i].After) == 0 && !signalled[tasks[i].ID] {
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
	err = s.run(ctx, step{
		name: "unfinished_tasks", args: []any{texts(ids)},
		read: func(rows pgx.Rows) error {
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

// lockDue locks the next schedule that is due behind a place, or returns nil.
func (s *Store) lockDue(ctx context.Context, behind schedulePlace) (*dueSchedule, error) {
	found, now, err := s.findSchedules(ctx, "due_schedule", behind.at, behind.name)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &dueSchedule{ScheduleInfo: found[0], now: now}, nil
}
