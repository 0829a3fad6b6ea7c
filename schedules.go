package stint

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-tasks/stint/internal/calendar"
	"github.com/stint-tasks/stint/internal/changes"
	"github.com/stint-tasks/stint/internal/headers"
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

	// Tasks are what is inserted: 1 to 1,000 tasks with bodies and headers of 1 MiB together. Their
	// IDs, different ones of up to 255 bytes, become Name/2026-11-22T08:00:00Z/ID, with the time of
	// the occurrence in UTC; a task that is alone needs none. After, ToSignalAfter and conditions
	// name tasks of the same schedule. NotBefore, Deadline and AnswerKey must be zero.
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
	// Hidden says that a service has left out bodies of its tasks, which the caller may not read.
	// Who puts the schedule again as it is here empties them.
	Hidden bool
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
		bytes += len(task.Body) + headers.Size(task.Headers)
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
		task := &d.Tasks[i]
		for _, id := range slices.AppendSeq(slices.Clone(task.ToSignalAfter), task.predecessors()) {
			if !known[id] {
				return at(argumentError("Task.After, ToSignalAfter, When and WhenAny", fmt.Sprintf(
					"must name tasks of the schedule, not %.40q", id)), i, task.ID)
			}
		}
		for _, c := range task.conditions() {
			if !utf8.ValidString(strings.Join(c.Results, "")) {
				return at(argumentError("Condition.Results", "must be valid UTF-8 in a schedule"),
					i, task.ID)
			}
		}
	}
	if len(known) < len(d.Tasks) {
		return argumentError("Schedule.Tasks", "must have different IDs")
	}
	_, err := newInsertGraph(d.Tasks, nil)
	return err
}

// PutSchedules adds schedules, or changes those with the same names: all of them, or none if one
// has a bad value. A schedule that is added, or gets another Spec, Zone, From or To, occurs from
// now on, never for the past; one that keeps these keeps its next occurrence, too. A paused one
// stays paused. Tasks that were inserted stay as they are.
//
// A bad value is an [*ArgumentError], a cycle of a schedule's tasks a [*CycleError], each in a
// [*ScheduleError]. A name that comes twice, more than 10,000 schedules and bodies of more than
// 64 MiB are a plain [*ArgumentError]. The call may be repeated after any failure.
//
// Of several releases of a program that put a schedule with different values, the last one decides.
// So put schedules once for each deployment, or use [Store.EnsureSchedules] where a program starts.
func (s *Store) PutSchedules(ctx context.Context, schedules []Schedule) error {
	if err := s.putSchedules(ctx, schedule.Put, schedules); err != nil {
		return fmt.Errorf("put schedules: %w", err)
	}
	return nil
}

// EnsureSchedules adds those of the schedules whose names no schedule has, and leaves the others as
// they are. Otherwise it is as [Store.PutSchedules].
func (s *Store) EnsureSchedules(ctx context.Context, schedules []Schedule) error {
	if err := s.putSchedules(ctx, schedule.Ensure, schedules); err != nil {
		return fmt.Errorf("ensure schedules: %w", err)
	}
	return nil
}

func (s *Store) putSchedules(
	ctx context.Context, put func(context.Context, *pg.DB, []schedule.Row) error,
	schedules []Schedule,
) error {
	if len(schedules) > schedulesMax {
		return tooLarge("schedules", len(schedules), schedulesMax)
	}
	places, bytes := make(map[string]int, len(schedules)), 0
	timings := make([]*schedule.Timing, len(schedules))
	for i := range schedules {
		if err := ctx.Err(); err != nil && i > 0 {
			return err
		}
		for _, task := range schedules[i].Tasks {
			bytes += len(task.Body) + headers.Size(task.Headers)
		}
		var err error
		if timings[i], err = schedules[i].check(); err != nil {
			return &ScheduleError{Names: []string{schedules[i].Name}, Err: err}
		}
		if first, ok := places[schedules[i].Name]; ok {
			return argumentError("Schedule.Name", fmt.Sprintf(
				"must not come twice in a call, as at index %d and %d", first, i))
		}
		places[schedules[i].Name] = i
	}
	switch {
	case len(schedules) == 0:
		return s.db.CheckOpen(ctx)
	case bytes > putBytesMax:
		return tooLarge("bytes of bodies", bytes, putBytesMax)
	}
	return s.transact(ctx, func(s *Store) error {
		now, err := s.db.Now(ctx)
		if err != nil {
			return err
		}
		rows := make([]schedule.Row, len(schedules))
		for i := range schedules {
			if rows[i], err = schedules[i].row(); err != nil {
				return err
			}
			rows[i].NextAt, _ = timings[i].Next(now)
		}
		return put(ctx, s.db, rows)
	})
}

// row is the schedule as it is kept.
func (d *Schedule) row() (schedule.Row, error) {
	definition, err := json.Marshal(newDefinition(d))
	return schedule.Row{
		Name: d.Name, Spec: d.Spec, Zone: d.zone(), From: d.From, To: d.To, Definition: definition,
	}, err
}

// infosOf reads schedules up to one whose definition is none, with which it ends, and an error.
func infosOf(rows []schedule.Row) ([]ScheduleInfo, error) {
	var infos []ScheduleInfo
	for i := range rows {
		row := &rows[i]
		var kept definition
		err := json.Unmarshal(row.Definition, &kept)
		d := kept.schedule()
		d.Name, d.Spec, d.Zone, d.From, d.To = row.Name, row.Spec, row.Zone, row.From, row.To
		infos = append(infos, ScheduleInfo{
			Schedule: d, NextAt: row.NextAt, LastAt: row.LastAt, LastIDs: idsOfTexts(row.LastIDs),
			Missed: row.Missed, Skipped: row.Skipped, PausedSince: row.PausedSince,
			ChangedAt: row.ChangedAt,
		})
		if err != nil {
			return infos, &ScheduleError{Names: []string{row.Name}, Err: err}
		}
	}
	return infos, nil
}

func idsOfTexts(texts []string) []TaskID {
	var ids []TaskID
	for _, text := range texts {
		ids = append(ids, TaskID(text))
	}
	return ids
}

// A definition is how the rest of a schedule is kept: as a document of JSON.
type definition struct {
	Tasks   []definedTask `json:"tasks"`
	CatchUp CatchUp       `json:"catch_up,omitempty"`
	Window  time.Duration `json:"window,omitempty"`
	Overlap Overlap       `json:"overlap,omitempty"`
	Jitter  time.Duration `json:"jitter,omitempty"`
	Expire  bool          `json:"expire,omitempty"`
}

type definedTask struct {
	ID            TaskID            `json:"id,omitempty"`
	Action        string            `json:"action"`
	Key           string            `json:"key,omitempty"`
	Body          []byte            `json:"body"`
	Headers       map[string]string `json:"headers,omitempty"`
	Priority      int16             `json:"priority,omitempty"`
	Cost          int               `json:"cost,omitempty"`
	MaxTries      int               `json:"max_tries,omitempty"`
	PostResult    bool              `json:"post_result,omitempty"`
	OnAbort       OnAbort           `json:"on_abort,omitempty"`
	FailFast      bool              `json:"fail_fast,omitempty"`
	After         []TaskID          `json:"after,omitempty"`
	ToSignalAfter []TaskID          `json:"to_signal_after,omitempty"`
	When          []Condition       `json:"when,omitempty"`
	WhenAny       []Condition       `json:"when_any,omitempty"`
}

func newDefinition(d *Schedule) *definition {
	kept := &definition{
		CatchUp: d.CatchUp, Window: d.Window, Overlap: d.Overlap, Jitter: d.Jitter,
		Expire: d.Expire,
	}
	for i := range d.Tasks {
		t := &d.Tasks[i]
		kept.Tasks = append(kept.Tasks, definedTask{
			ID: t.ID, Action: t.Action, Key: t.Key, Body: t.Body, Priority: t.Priority,
			MaxTries: t.MaxTries, PostResult: t.PostResult, OnAbort: t.OnAbort,
			FailFast: t.FailFast, After: t.After, ToSignalAfter: t.ToSignalAfter,
			Headers: t.Headers, When: t.When, WhenAny: t.WhenAny, Cost: t.Cost,
		})
	}
	return kept
}

// schedule is what the definition was made of, without what is in columns of its own.
func (d *definition) schedule() Schedule {
	kept := Schedule{
		CatchUp: d.CatchUp, Window: d.Window, Overlap: d.Overlap, Jitter: d.Jitter,
		Expire: d.Expire,
	}
	for i := range d.Tasks {
		t := &d.Tasks[i]
		kept.Tasks = append(kept.Tasks, Task{
			ID: t.ID, Action: t.Action, Key: t.Key, Body: t.Body, Priority: t.Priority,
			MaxTries: t.MaxTries, PostResult: t.PostResult, OnAbort: t.OnAbort,
			FailFast: t.FailFast, After: t.After, ToSignalAfter: t.ToSignalAfter,
			Headers: t.Headers, When: t.When, WhenAny: t.WhenAny, Cost: t.Cost,
		})
	}
	return kept
}

// ListSchedules returns the schedules with these names, or all of them if none is named, sorted by
// name. Names that no schedule has are left out.
func (s *Store) ListSchedules(ctx context.Context, names ...string) ([]ScheduleInfo, error) {
	all, err := s.listSchedules(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	return all, nil
}

func (s *Store) listSchedules(ctx context.Context, names []string) ([]ScheduleInfo, error) {
	if err := checkScheduleNames(names); err != nil {
		return nil, err
	}
	rows, err := schedule.List(ctx, s.db, names)
	if err != nil {
		return nil, err
	}
	return infosOf(rows)
}

// PauseSchedules keeps schedules from occurring until [Store.ResumeSchedules]: all of them, or none
// if one does not exist ([ErrScheduleNotFound]). Tasks that were inserted stay as they are. A
// schedule that is paused already stays so. The call may be repeated after any failure.
func (s *Store) PauseSchedules(ctx context.Context, names ...string) error {
	err := s.withSchedules(ctx, names, func(s *Store, found []ScheduleInfo, _ time.Time) error {
		return schedule.Pause(ctx, s.db, schedulesOf(found))
	})
	if err != nil {
		return fmt.Errorf("pause schedules: %w", err)
	}
	return nil
}

// ResumeSchedules ends the pauses of schedules: of all of them, or of none if one does not exist
// ([ErrScheduleNotFound]). They occur from now on; what they would have been due for meanwhile is
// left out. A schedule that is not paused stays as it is. The call may be repeated after any
// failure.
func (s *Store) ResumeSchedules(ctx context.Context, names ...string) error {
	resume := func(s *Store, found []ScheduleInfo, now time.Time) error {
		next := make([]*time.Time, len(found))
		for i := range found {
			timing, err := found[i].check()
			if err != nil {
				return scheduleError(found[i].Name, err)
			}
			next[i] = timing.NextOrNil(now)
		}
		return schedule.Resume(ctx, s.db, schedulesOf(found), next)
	}
	if err := s.withSchedules(ctx, names, resume); err != nil {
		return fmt.Errorf("resume schedules: %w", err)
	}
	return nil
}

// DeleteSchedules deletes schedules: all of them, or none if one does not exist
// ([ErrScheduleNotFound]). Tasks that were inserted stay. If a call is repeated because its outcome
// is unknown, the error says that the first one took place.
func (s *Store) DeleteSchedules(ctx context.Context, names ...string) error {
	err := s.withSchedules(ctx, names, func(s *Store, found []ScheduleInfo, _ time.Time) error {
		return schedule.Delete(ctx, s.db, schedulesOf(found))
	})
	if err != nil {
		return fmt.Errorf("delete schedules: %w", err)
	}
	return nil
}

// TriggerSchedule inserts the tasks of a schedule now, in addition to its occurrences and
// regardless of its Overlap and Jitter, also if it is paused. It returns what the IDs of the tasks
// begin with: Name/2026-11-22T08:00:00.123456Z/manual, with the time of the call in UTC. A task
// without an ID has that as its own. If there is no such schedule, the error is
// [ErrScheduleNotFound]. A call that is repeated inserts other tasks.
func (s *Store) TriggerSchedule(ctx context.Context, name string) (TaskID, error) {
	var prefix TaskID
	trigger := func(s *Store, found []ScheduleInfo, now time.Time) error {
		d := &found[0]
		timing, err := d.check()
		if err != nil {
			return scheduleError(name, err)
		}
		prefix = d.occurrenceID(now) + "/manual"
		tasks := d.tasksOf(prefix)
		if following, ok := timing.Next(now); ok && d.Expire {
			for i := range tasks {
				tasks[i].Deadline = following
			}
		}
		if err := s.insertTasks(ctx, tasks); err != nil {
			return err
		}
		return changes.Schedules(ctx, s.db, "TriggerSchedule", []string{name}, string(prefix))
	}
	if err := s.withSchedules(ctx, []string{name}, trigger); err != nil {
		return "", fmt.Errorf("trigger schedule: %w", err)
	}
	return prefix, nil
}

// withSchedules does something with schedules that it locks, all of which must exist, in one
// transaction.
func (s *Store) withSchedules(
	ctx context.Context, names []string,
	do func(s *Store, found []ScheduleInfo, now time.Time) error,
) error {
	if err := checkScheduleNames(names); err != nil {
		return err
	}
	if len(names) == 0 {
		return s.db.CheckOpen(ctx)
	}
	return s.transact(ctx, func(s *Store) error {
		rows, now, err := schedule.Lock(ctx, s.db, names)
		if err != nil {
			return err
		}
		found, err := infosOf(rows)
		if err != nil {
			return err
		}
		known := schedulesOf(found) // sorted
		missing := slices.DeleteFunc(sorted(names), func(name string) bool {
			_, ok := slices.BinarySearch(known, name)
			return ok
		})
		if len(missing) > 0 {
			return &ScheduleError{Names: missing, Err: ErrScheduleNotFound}
		}
		return do(s, found, now)
	})
}

func checkScheduleNames(names []string) error {
	if len(names) > schedulesMax {
		return tooLarge("names", len(names), schedulesMax)
	}
	for i, name := range names {
		if err := checkText("name", name, scheduleNameBytesMax); err != nil {
			return at(err, i, TaskID(name))
		}
	}
	return nil
}

func schedulesOf(found []ScheduleInfo) []string {
	names := make([]string, len(found))
	for i := range found {
		names[i] = found[i].Name
	}
	return names
}
