package stint

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// PauseSchedules keeps schedules from occurring until [Store.ResumeSchedules]: all of them, or none
// if one does not exist ([ErrScheduleNotFound]). Tasks that were inserted stay as they are. A
// schedule that is paused already stays so. The call may be repeated after any failure.
func (s *Store) PauseSchedules(ctx context.Context, names ...string) error {
	err := s.changeSchedules(ctx, names, func(found []ScheduleInfo, _ time.Time) (step, error) {
		return step{name: "pause_schedules", args: []any{schedulesOf(found)}}, nil
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
	resume := func(found []ScheduleInfo, now time.Time) (step, error) {
		next := make([]*time.Time, len(found))
		for i := range found {
			of, err := found[i].check()
			if err != nil {
				return step{}, scheduleError(found[i].Name, err)
			}
			if at, ok := found[i].next(of, now); ok {
				next[i] = &at
			}
		}
		return step{name: "resume_schedules", args: []any{schedulesOf(found), next}}, nil
	}
	if err := s.changeSchedules(ctx, names, resume); err != nil {
		return fmt.Errorf("resume schedules: %w", err)
	}
	return nil
}

// DeleteSchedules deletes schedules: all of them, or none if one does not exist
// ([ErrScheduleNotFound]). Tasks that were inserted stay. If a call is repeated because its outcome
// is unknown, the error says that the first one took place.
func (s *Store) DeleteSchedules(ctx context.Context, names ...string) error {
	err := s.changeSchedules(ctx, names, func(found []ScheduleInfo, _ time.Time) (step, error) {
		return step{name: "delete_schedules", args: []any{schedulesOf(found)}}, nil
	})
	if err != nil {
		return fmt.Errorf("delete schedules: %w", err)
	}
	return nil
}

// TriggerSchedule inserts the tasks of a schedule now, in addition to its occurrences and
// regardless of its Overlap and Jitter, also if it is paused. It returns what the IDs of the tasks
// begin with: Name/2026-11-22T08:00:00.123456Z/manual, with the time of the call in UTC. The ID of
// a task that is alone is that. If the schedule does not exist, the error is [ErrScheduleNotFound].
// A call that is repeated inserts other tasks.
func (s *Store) TriggerSchedule(ctx context.Context, name string) (TaskID, error) {
	var prefix TaskID
	trigger := func(s *Store, found []ScheduleInfo, now time.Time) error {
		schedule := &found[0]
		of, err := schedule.check()
		if err != nil {
			return scheduleError(name, err)
		}
		prefix = schedule.occurrenceID(now) + "/manual"
		tasks := schedule.tasksOf(prefix)
		if following, ok := schedule.next(of, now); ok && schedule.Expire {
			for i := range tasks {
				tasks[i].Deadline = following
			}
		}
		return s.insertTasks(ctx, tasks)
	}
	if err := s.withSchedules(ctx, []string{name}, trigger); err != nil {
		return "", fmt.Errorf("trigger schedule: %w", err)
	}
	return prefix, nil
}

// changeSchedules changes schedules, all of which must exist, by one step.
func (s *Store) changeSchedules(
	ctx context.Context, names []string,
	change func(found []ScheduleInfo, now time.Time) (step, error),
) error {
	return s.withSchedules(ctx, names, func(s *Store, found []ScheduleInfo, now time.Time) error {
		changes, err := change(found, now)
		if err != nil {
			return err
		}
		return s.run(ctx, changes)
	})
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
		return s.checkOpen(ctx)
	}
	return s.transact(ctx, func(s *Store) error {
		found, now, err := s.findSchedules(ctx, "lock_schedules", names)
		if err != nil {
			return err
		}
		known := schedulesOf(found) // sorted
		missing := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(names))),
			func(name string) bool {
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
