package stint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/calendar"
	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/schedule"
)

// A Schedule inserts tasks again and again, at times that a calendar says. It is kept in the
// database, and any store that maintains the schema inserts its tasks: a process that puts a
// schedule need not run when the schedule occurs.
type Schedule struct {
	// Name is what the schedule is known by, and the IDs of its tasks begin with: 1 to 200 bytes of
	// UTF-8 without NUL.
	Name string

	// Spec is when the schedule occurs: the five fields of cron (minute, hour, day, month, day of
	// the week), one of @yearly, @monthly, @weekly, @daily and @hourly, or "every" and a length of
	// time in whole seconds, such as "every 90s", counted from the beginning of 1970 in UTC. Fields
	// are read in Zone, a name of the IANA database. Default of Zone: UTC.
	//
	// If the minute or the hour begins with *, clocks that are changed make no difference: "*/30 *
	// * * *" occurs every half hour. Otherwise the schedule is a time of day: one that is left out
	// when clocks are put forward occurs at that moment, and one that comes twice when they are put
	// back occurs the first time.
	Spec, Zone string

	// Tasks are what is inserted: 1 to 1,000 tasks with bodies of 1 MiB together. Their IDs become
	// Name/2026-11-22T08:00:00Z/ID, with the time of the occurrence in UTC; a task that is alone
	// needs no ID. After and ToSignalAfter name tasks of the same schedule. NotBefore and Deadline
	// must be zero.
	Tasks []Task

	// CatchUp is what becomes of occurrences for which nobody inserted tasks in time, and Window
	// how long ago those were at most that are caught up with. Default: 24 hours, at most a year.
	CatchUp CatchUp
	Window  time.Duration

	// Overlap is what becomes of an occurrence while tasks of the one before have not finished.
	Overlap Overlap

	// Jitter has the tasks of an occurrence start up to this time later, but before the next
	// occurrence, at a moment that depends on Name and the occurrence. At most a day.
	Jitter time.Duration

	// From and To are the first and the last moment at which the schedule may occur. Default: no
	// bounds.
	From, To time.Time

	// Expire makes the next occurrence the Deadline of the tasks.
	Expire bool
}

// CatchUp is what becomes of occurrences that were missed: because no store maintained the schema,
// or the database was not there.
type CatchUp int16

const (
	// CatchUpLast inserts the tasks of the newest occurrence that was missed. It is the default.
	CatchUpLast CatchUp = iota
	// CatchUpSkip inserts no tasks of occurrences that are more than a minute ago.
	CatchUpSkip
	// CatchUpAll inserts the tasks of all occurrences that were missed, of the newest 1,000.
	CatchUpAll
)

// Overlap is what becomes of an occurrence while tasks of the one before have not finished.
type Overlap int16

const (
	// OverlapAllow inserts its tasks all the same. It is the default.
	OverlapAllow Overlap = iota
	// OverlapSkip leaves the occurrence out.
	OverlapSkip
	// OverlapWait has its tasks wait for those of the one before, however these end.
	OverlapWait
	// OverlapAbort aborts the tasks of the one before.
	OverlapAbort
)

// ScheduleInfo is a schedule and how far it has come.
type ScheduleInfo struct {
	Schedule

	// NextAt is the next occurrence; zero if there is none, or the schedule is paused.
	NextAt time.Time
	// LastAt is the last occurrence of which tasks were inserted, LastIDs are their IDs.
	LastAt  time.Time
	LastIDs []TaskID
	// Missed is how many occurrences were left out because of CatchUp, of which 100,000 are counted
	// of a time when nobody was there, and Skipped how many because of Overlap.
	Missed, Skipped int64
	// PausedSince is since when the schedule is paused; zero if it is not.
	PausedSince time.Time
	// ChangedAt is when the schedule was put last.
	ChangedAt time.Time
}

const (
	scheduleNameBytesMax = 200
	scheduleIDBytesMax   = 255 // of a task of a schedule
	scheduleTasksMax     = 1000
	scheduleBodiesMax    = 1 << 20
	schedulesMax         = 10_000 // in one call
	windowDefault        = 24 * time.Hour
	windowMax            = 366 * 24 * time.Hour
	jitterMax            = 24 * time.Hour
	putBytesMax          = 64 << 20 // of bodies, in one call

	// onTime is how late an occurrence may be that is not missed: maintainers look once a second.
	onTime = time.Minute
)

// Next returns the next occurrences behind a time, at most so many, up to the year 9999. A pause
// makes no difference. A bad value is an [*ArgumentError].
func (d Schedule) Next(after time.Time, most int) ([]time.Time, error) {
	timing, err := d.check()
	if err != nil {
		return nil, err
	}
	if !pg.IsStorable(after) {
		return nil, argumentError("after", "must be between the years 1 and 9999")
	}
	var all []time.Time
	for at, ok := timing.Next(after); ok && len(all) < most; at, ok = timing.Next(at) {
		all = append(all, at)
	}
	return all, nil
}

// check refuses what a schedule cannot be, and returns when it occurs.
func (d *Schedule) check() (*schedule.Timing, error) {
	if err := checkText("Schedule.Name", d.Name, scheduleNameBytesMax); err != nil {
		return nil, err
	}
	zone, err := calendar.Zone(d.zone())
	if err != nil {
		return nil, argumentError("Schedule.Zone", err.Error())
	}
	of, err := calendar.Parse(d.Spec, zone)
	switch {
	case err != nil:
		return nil, argumentError("Schedule.Spec", err.Error())
	case d.CatchUp < CatchUpLast || d.CatchUp > CatchUpAll:
		return nil, argumentError("Schedule.CatchUp", "unknown value")
	case d.Overlap < OverlapAllow || d.Overlap > OverlapAbort:
		return nil, argumentError("Schedule.Overlap", "unknown value")
	case d.Window < 0 || d.Window > windowMax:
		return nil, argumentError("Schedule.Window", "must be 0 to 366 days")
	case d.Jitter < 0 || d.Jitter > jitterMax:
		return nil, argumentError("Schedule.Jitter", "must be 0 to 24 hours")
	case !pg.IsStorable(d.From) || !pg.IsStorable(d.To):
		return nil, argumentError("Schedule.From and To", "must be between the years 1 and 9999")
	case !d.To.IsZero() && d.To.Before(d.From):
		return nil, argumentError("Schedule.To", "must not be before From")
	}
	timing := &schedule.Timing{
		Calendar: of, From: d.From, To: d.To, Window: cmp.Or(d.Window, windowDefault), Most: 1,
	}
	switch d.CatchUp {
	case CatchUpSkip:
		timing.Window, timing.Most = onTime, schedule.CaughtUpMax
	case CatchUpAll:
		timing.Most = schedule.CaughtUpMax
	case CatchUpLast:
	}
	return timing, d.checkTasks()
}

func (d *Schedule) zone() string {
	if d.Zone == "" {
		return "UTC"
	}
	return d.Zone
}

func (d *Schedule) checkTasks() error {
	if len(d.Tasks) == 0 {
		return argumentError("Schedule.Tasks", "must not be empty")
	}
	if len(d.Tasks) > scheduleTasksMax {
		return tooLarge("Schedule.Tasks", len(d.Tasks), scheduleTasksMax)
	}
	known, bytes := make(map[TaskID]bool, len(d.Tasks)), 0
	for i := range d.Tasks {
		task := d.Tasks[i]
		known[task.ID] = true
		bytes += len(task.Body)
		if task.ID == "" && len(d.Tasks) == 1 {
			task.ID = "alone"
		}
		if err := checkTask(&task, i); err != nil {
			return err
		}
		switch {
		case len(task.ID) > scheduleIDBytesMax:
			return at(tooLarge("Task.ID bytes", len(task.ID), scheduleIDBytesMax), i, task.ID)
		case task.AnswerKey != "":
			return at(argumentError("Task.AnswerKey", "must be empty in a schedule: the tasks "+
				"of all occurrences would have the same"), i, task.ID)
		case !task.NotBefore.IsZero():
			return at(argumentError("Task.NotBefore", "must be zero in a schedule"), i, task.ID)
		case !task.Deadline.IsZero():
			return at(argumentError("Task.Deadline", "must be zero in a schedule: see Expire"), i,
				task.ID)
		}
	}
	if bytes > scheduleBodiesMax {
		return tooLarge("Schedule.Tasks bytes of bodies", bytes, scheduleBodiesMax)
	}
	for i := range d.Tasks {
		for _, ids := range [][]TaskID{d.Tasks[i].After, d.Tasks[i].ToSignalAfter} {
			for _, id := range ids {
				if !known[id] {
					return at(argumentError("Task.After and ToSignalAfter", fmt.Sprintf(
						"must name tasks of the schedule, not %.40q", id)), i, d.Tasks[i].ID)
				}
			}
		}
	}
	if len(known) < len(d.Tasks) {
		return argumentError("Schedule.Tasks", "must have different IDs")
	}
	_, err := newInsertGraph(d.Tasks)
	return err
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
		tasks[i] = task
	}
	return tasks
}

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

// fireAt inserts the tasks of one occurrence, unless the one before is in the way.
func (s *Store) fireAt(
	ctx context.Context, due *dueSchedule, at, following time.Time,
) error {
	id := due.occurrenceID(at)
	tasks := due.tasksOf(id)
	if due.Overlap != OverlapAllow {
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
