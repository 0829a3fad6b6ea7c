package service

import (
	"context"
	"slices"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/service/access"
	"github.com/stint-tasks/stint/shards"
)

func (t *taskService) PutSchedules(
	ctx context.Context, r *stintv1.PutSchedulesRequest,
) (*stintv1.PutSchedulesResponse, error) {
	schedules, err := wire.ToSchedules(r.GetSchedules())
	if err != nil {
		return nil, err
	}
	return once(ctx, t.Service, func(store *stint.Store) (*stintv1.PutSchedulesResponse, error) {
		return &stintv1.PutSchedulesResponse{}, store.PutSchedules(ctx, schedules)
	})
}

func (t *taskService) EnsureSchedules(
	ctx context.Context, r *stintv1.EnsureSchedulesRequest,
) (*stintv1.EnsureSchedulesResponse, error) {
	schedules, err := wire.ToSchedules(r.GetSchedules())
	if err != nil {
		return nil, err
	}
	return once(ctx, t.Service, func(store *stint.Store) (*stintv1.EnsureSchedulesResponse, error) {
		return &stintv1.EnsureSchedulesResponse{}, store.EnsureSchedules(ctx, schedules)
	})
}

func (t *taskService) ListSchedules(
	ctx context.Context, r *stintv1.ListSchedulesRequest,
) (*stintv1.ListSchedulesResponse, error) {
	found, err := listSchedules(ctx, t.store, r.GetNames())
	if err != nil {
		return nil, err
	}
	return &stintv1.ListSchedulesResponse{
		Schedules: wire.FromScheduleInfos(found, r.GetText()),
	}, nil
}

func (t *taskService) PauseSchedules(
	ctx context.Context, r *stintv1.PauseSchedulesRequest,
) (*stintv1.PauseSchedulesResponse, error) {
	if err := schedulesFit(ctx, t.store, r.GetNames()); err != nil {
		return nil, err
	}
	return once(ctx, t.Service, func(store *stint.Store) (*stintv1.PauseSchedulesResponse, error) {
		return &stintv1.PauseSchedulesResponse{}, store.PauseSchedules(ctx, r.GetNames()...)
	})
}

func (t *taskService) ResumeSchedules(
	ctx context.Context, r *stintv1.ResumeSchedulesRequest,
) (*stintv1.ResumeSchedulesResponse, error) {
	if err := schedulesFit(ctx, t.store, r.GetNames()); err != nil {
		return nil, err
	}
	return once(ctx, t.Service, func(store *stint.Store) (*stintv1.ResumeSchedulesResponse, error) {
		return &stintv1.ResumeSchedulesResponse{}, store.ResumeSchedules(ctx, r.GetNames()...)
	})
}

func (t *taskService) DeleteSchedules(
	ctx context.Context, r *stintv1.DeleteSchedulesRequest,
) (*stintv1.DeleteSchedulesResponse, error) {
	if err := schedulesFit(ctx, t.store, r.GetNames()); err != nil {
		return nil, err
	}
	return once(ctx, t.Service, func(store *stint.Store) (*stintv1.DeleteSchedulesResponse, error) {
		return &stintv1.DeleteSchedulesResponse{}, store.DeleteSchedules(ctx, r.GetNames()...)
	})
}

func (t *taskService) TriggerSchedule(
	ctx context.Context, r *stintv1.TriggerScheduleRequest,
) (*stintv1.TriggerScheduleResponse, error) {
	return once(ctx, t.Service, func(store *stint.Store) (*stintv1.TriggerScheduleResponse, error) {
		id, err := store.TriggerSchedule(ctx, r.GetName())
		return &stintv1.TriggerScheduleResponse{Id: string(id)}, err
	})
}

// schedulesFit returns an error if schedules, whose tasks the store reads, are too large together.
func schedulesFit(ctx context.Context, store *stint.Store, names []string) error {
	if len(names) == 0 {
		return nil
	}
	size, err := store.Remote().CountScheduleBytes(ctx, names...)
	if err != nil {
		return err
	}
	return sizeFits("names", size)
}

// listSchedules lists schedules that are not too large together; all of them without names.
func listSchedules(
	ctx context.Context, store *stint.Store, names []string,
) ([]stint.ScheduleInfo, error) {
	size, err := store.Remote().CountScheduleBytes(ctx, names...)
	if err != nil {
		return nil, err
	}
	if err := sizeFits("names", size); err != nil {
		return nil, err
	}
	return store.ListSchedules(ctx, names...)
}

// mayPut returns an error unless the principal may have schedules insert their tasks, and those of
// the stored ones that they take the place of.
func (a *asking) mayPut(schedules []*stintv1.Schedule, replaces bool) error {
	if err := a.has(access.Insert); err != nil {
		return err
	}
	names := make([]string, len(schedules))
	for i, schedule := range schedules {
		names[i] = schedule.GetName()
		if err := a.mayRun(schedule); err != nil {
			return err
		}
	}
	if !replaces || len(names) == 0 {
		return nil
	}
	return a.mayTakeSchedules(names)
}

// mayTakeSchedules returns an error unless the principal may have those of these schedules insert
// their tasks that are stored, whose place others are to take. That a name is taken cannot be kept
// from whoever may have a schedule of it, but nothing of the stored one is told.
func (a *asking) mayTakeSchedules(names []string) error {
	stored, err := listSchedules(a.ctx, a.store, names)
	if err != nil {
		return err
	}
	for _, message := range wire.FromScheduleInfos(stored, false) {
		if a.mayRun(message.GetSchedule()) != nil {
			return a.mayNot("replace schedule %q", message.GetSchedule().GetName())
		}
	}
	return nil
}

// mayRunAll returns an error unless the principal may have all of these stored schedules insert
// their tasks. One that is not stored yet must not be left to the verb, which begins later.
func (a *asking) mayRunAll(names []string) error {
	if err := a.has(access.Insert); err != nil || len(names) == 0 {
		return err
	}
	found, err := a.mayRunStored(names)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(names))),
		func(name string) bool { return found[name] })
	if len(missing) > 0 {
		return &stint.ScheduleError{Names: missing, Err: stint.ErrScheduleNotFound}
	}
	return nil
}

// mayRunStored returns which of these schedules are stored, or an error unless the principal may
// have these insert their tasks. Those that it may neither see nor have insert their tasks are left
// out, as if they were not stored.
func (a *asking) mayRunStored(names []string) (map[string]bool, error) {
	stored, err := listSchedules(a.ctx, a.store, names)
	if err != nil {
		return nil, err
	}
	found := make(map[string]bool, len(stored))
	for _, message := range wire.FromScheduleInfos(stored, false) {
		if err := a.mayRun(message.GetSchedule()); err != nil {
			if !a.seesSchedule(message.GetSchedule()) {
				continue
			}
			return nil, err
		}
		found[message.GetSchedule().GetName()] = true
	}
	return found, nil
}

// mayRun returns an error unless the principal may insert the tasks of a schedule at any time, and
// do to those of the occurrence before what Overlap says. These have the IDs of the schedule, but
// may have been inserted by others, with any action.
func (a *asking) mayRun(schedule *stintv1.Schedule) error {
	below := schedule.GetName() + "/"
	for _, task := range schedule.GetTasks() {
		if !a.principal.MayBelow(access.Insert, task.GetAction(), below) ||
			!a.mayFailFast(task) ||
			shards.IsOwnAction(task.GetAction()) || !a.mayBeRelay(task.GetAction(), below) {
			return a.mayNot("%s tasks %q with action %q by a schedule", access.Insert, below+"…",
				task.GetAction())
		}
	}
	needs := map[string]access.Verb{"wait": access.ReadBodies, "abort": access.Control}
	verb, ok := needs[schedule.GetOverlap()]
	if ok && !a.principal.MayBelow(verb, "*", below) {
		return a.mayNot("%s all tasks %q, whatever their action, which a schedule with the "+
			"overlap %q does", verb, below+"…", schedule.GetOverlap())
	}
	return nil
}

// trimSchedules leaves the schedules of which the principal may see all tasks, with the bodies that
// it may see.
func (a *asking) trimSchedules(r *stintv1.ListSchedulesResponse) {
	r.Schedules = slices.DeleteFunc(r.GetSchedules(), func(info *stintv1.ScheduleInfo) bool {
		if !a.seesSchedule(info.GetSchedule()) {
			return true
		}
		below := info.GetSchedule().GetName() + "/"
		for _, task := range info.GetSchedule().GetTasks() {
			if !a.principal.MayBelow(access.ReadBodies, task.GetAction(), below) {
				task.Content, info.Hidden = nil, true
			}
		}
		return false
	})
}

// seesSchedule reports whether the principal may see all tasks of a schedule.
func (a *asking) seesSchedule(schedule *stintv1.Schedule) bool {
	below := schedule.GetName() + "/"
	return !slices.ContainsFunc(schedule.GetTasks(), func(task *stintv1.Task) bool {
		return !a.principal.MayBelow(access.Read, task.GetAction(), below)
	})
}
