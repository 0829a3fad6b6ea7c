package stint

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/calendar"
)

// PutSchedules adds schedules, or changes those with the same names: all of them, or none if one
// has a bad value. A schedule that is added, or gets another Spec, Zone, From or To, occurs from
// now on, never for the past; one that keeps these keeps its next occurrence, too. A paused one
// stays paused. Tasks that were inserted stay as they are.
//
// A bad value is an [*ArgumentError], and dependencies among the tasks of a schedule that form a
// cycle are a [*CycleError], each in a [*ScheduleError]; a call takes 10,000 schedules and bodies
// of 64 MiB at most. The call may be repeated after any failure.
//
// Of several releases of a program that put a schedule with different values, the last one decides.
// So put schedules once for each deployment, or use [Store.EnsureSchedules] where a program starts.
func (s *Store) PutSchedules(ctx context.Context, schedules []Schedule) error {
	if err := s.putSchedules(ctx, "put_schedules", schedules); err != nil {
		return fmt.Errorf("put schedules: %w", err)
	}
	return nil
}

// EnsureSchedules adds those of the schedules whose names no schedule has, and leaves the others as
// they are. Otherwise it is as [Store.PutSchedules].
func (s *Store) EnsureSchedules(ctx context.Context, schedules []Schedule) error {
	if err := s.putSchedules(ctx, "ensure_schedules", schedules); err != nil {
		return fmt.Errorf("ensure schedules: %w", err)
	}
	return nil
}

func (s *Store) putSchedules(
	ctx context.Context, statement string, schedules []Schedule,
) error {
	if len(schedules) > schedulesMax {
		return tooLarge("schedules", len(schedules), schedulesMax)
	}
	places, bytes := make(map[string]int, len(schedules)), 0
	calendars := make([]*calendar.Calendar, len(schedules))
	for i := range schedules {
		if err := ctx.Err(); err != nil && i > 0 {
			return err
		}
		for _, task := range schedules[i].Tasks {
			bytes += len(task.Body)
		}
		var err error
		if calendars[i], err = schedules[i].check(); err != nil {
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
		return s.checkOpen(ctx)
	case bytes > putBytesMax:
		return tooLarge("bytes of bodies", bytes, putBytesMax)
	}
	return s.transact(ctx, func(s *Store) error {
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		rows, err := newScheduleRows(schedules, calendars, now)
		if err != nil {
			return err
		}
		return s.run(ctx, step{name: statement, args: []any{
			rows.names, rows.specs, rows.zones, rows.starts, rows.ends, rows.definitions,
			rows.next,
		}})
	})
}

// now is the database's clock.
func (s *Store) now(ctx context.Context) (now time.Time, err error) {
	err = s.run(ctx, step{name: "now", read: func(rows pgx.Rows) error {
		now, err = pgx.CollectOneRow(rows, pgx.RowTo[time.Time])
		return err
	}})
	return now, err
}

// scheduleRows are the columns of schedules.
type scheduleRows struct {
	names, specs, zones []string
	starts, ends, next  []*time.Time
	definitions         []string
}

func newScheduleRows(
	schedules []Schedule, calendars []*calendar.Calendar, now time.Time,
) (*scheduleRows, error) {
	rows := &scheduleRows{}
	for i := range schedules {
		d := &schedules[i]
		definition, err := json.Marshal(newDefinition(d))
		if err != nil {
			return nil, err
		}
		var next *time.Time
		if at, ok := d.next(calendars[i], now); ok {
			next = &at
		}
		rows.names, rows.specs = append(rows.names, d.Name), append(rows.specs, d.Spec)
		rows.zones, rows.next = append(rows.zones, d.zone()), append(rows.next, next)
		rows.starts = append(rows.starts, moment(d.From))
		rows.ends = append(rows.ends, moment(d.To))
		rows.definitions = append(rows.definitions, string(definition))
	}
	return rows, nil
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
	ID            TaskID   `json:"id,omitempty"`
	Action        string   `json:"action"`
	Key           string   `json:"key,omitempty"`
	Body          []byte   `json:"body"`
	Priority      int16    `json:"priority,omitempty"`
	MaxTries      int      `json:"max_tries,omitempty"`
	PostResult    bool     `json:"post_result,omitempty"`
	OnAbort       OnAbort  `json:"on_abort,omitempty"`
	FailFast      bool     `json:"fail_fast,omitempty"`
	After         []TaskID `json:"after,omitempty"`
	ToSignalAfter []TaskID `json:"to_signal_after,omitempty"`
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
		})
	}
	return kept
}
