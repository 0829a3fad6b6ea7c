package stint

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stint-tasks/stint/internal/pg"
)

// A scheduleFirer inserts the tasks of schedules that are due. A schedule that fails, such as in a
// zone that this machine does not know, holds up no other one: it rests for some looks, more and
// more of them.
type scheduleFirer struct {
	store   *Store
	looks   int
	resting map[string]*restingSchedule
}

type restingSchedule struct {
	until int // which look
	looks int
	err   error
}

const (
	restLooksMax = 16
	// restingMax is how many schedules rest; more that fail are tried at each look.
	restingMax = 1000
)

// A schedulePlace is where a pass through the schedules that are due has come to.
type schedulePlace struct {
	at   pgtype.Timestamptz
	name string
}

// pass inserts the tasks of all schedules that are due and do not rest, each in a transaction of
// its own. The error is about all that fail, those that rest included. Where no schedule is due,
// pass asks one question.
func (f *scheduleFirer) pass(ctx context.Context) error {
	var due int64
	err := f.store.db.Run(ctx, pg.Step{Name: "schedule_overdue", Count: func(n int64) { due = n }})
	if err != nil || due == 0 {
		return err
	}
	f.looks++
	rest := []string{}
	tried := map[string]*restingSchedule{}
	for name, schedule := range f.resting {
		if schedule.until > f.looks {
			rest = append(rest, name)
			continue
		}
		tried[name] = schedule
		delete(f.resting, name)
	}
	var failed []error
	for place := (&schedulePlace{at: firstMoment()}); place != nil; {
		next, err := f.store.fireNext(ctx, *place, rest)
		if err != nil && (next == nil || ctx.Err() != nil) {
			return err
		}
		if err != nil && !f.rest(next.name, tried[next.name], err) && len(failed) < namedMax {
			failed = append(failed, scheduleError(next.name, err))
		}
		place = next
	}
	for _, name := range slices.Sorted(maps.Keys(f.resting)) {
		if len(failed) < namedMax {
			failed = append(failed, scheduleError(name, f.resting[name].err))
		}
	}
	return errors.Join(failed...)
}

// rest has a schedule that fails rest for twice as many looks as the last time. It reports whether
// there is room for it.
func (f *scheduleFirer) rest(name string, last *restingSchedule, err error) bool {
	if len(f.resting) >= restingMax {
		return false
	}
	looks := 1
	if last != nil {
		looks = min(2*last.looks, restLooksMax)
	}
	if f.resting == nil {
		f.resting = map[string]*restingSchedule{}
	}
	f.resting[name] = &restingSchedule{until: f.looks + 1 + looks, looks: looks, err: err}
	return true
}

func scheduleError(name string, err error) error {
	if about := (*ScheduleError)(nil); errors.As(err, &about) {
		return err
	}
	return &ScheduleError{Names: []string{name}, Err: err}
}

// fireNext inserts the tasks of the next schedule that is due behind a place, does not rest, and
// that nobody else works on. It returns its place, also if that fails, and nil if there is none.
func (s *Store) fireNext(
	ctx context.Context, behind schedulePlace, rest []string,
) (fired *schedulePlace, err error) {
	hasty := !s.db.InTx()
	for range attemptsMax {
		err = s.transact(ctx, func(s *Store) error {
			due, err := s.lockDue(ctx, behind, rest, hasty)
			if due == nil {
				fired = nil
				return err
			}
			fired = &schedulePlace{
				at: pgtype.Timestamptz{Time: due.NextAt, Valid: true}, name: due.Name,
			}
			if err != nil {
				return err
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
	occurrences, missed, next := due.due(ctx, of, due.NextAt, due.now)
	if err := ctx.Err(); err != nil {
		return err
	}
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
	return s.db.Run(ctx, pg.Step{Name: "advance_schedule", Args: []any{
		due.Name, pg.Moment(next), pg.Moment(due.LastAt), texts(due.LastIDs), due.Missed,
		due.Skipped,
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

// lockDue locks the next schedule that is due behind a place and does not rest, or returns nil. It
// also returns one that cannot be read, with the error.
func (s *Store) lockDue(
	ctx context.Context, behind schedulePlace, rest []string, hasty bool,
) (*dueSchedule, error) {
	var found []ScheduleInfo
	var now time.Time
	err := s.db.Run(ctx, append(pg.LimitWaiting(hasty), pg.Step{
		Name: "due_schedule", Args: []any{behind.at, behind.name, rest},
		Read: func(rows pgx.Rows) (err error) {
			found, now, err = readSchedules(rows)
			return err
		},
	})...)
	if len(found) == 0 {
		return nil, err
	}
	return &dueSchedule{ScheduleInfo: found[0], now: now}, err
}
