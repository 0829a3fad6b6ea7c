package client

import (
	"context"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/wire"
)

// PutSchedules is [stint.Store.PutSchedules].
func (c *Client) PutSchedules(ctx context.Context, schedules []stint.Schedule) error {
	request := &stintv1.PutSchedulesRequest{Schedules: wire.FromSchedules(schedules)}
	return said("put schedules", c.repeat(ctx, timeFor(request),
		func(ctx context.Context, _ bool) error {
			_, err := c.tasks.PutSchedules(ctx, request)
			return err
		}))
}

// EnsureSchedules is [stint.Store.EnsureSchedules].
func (c *Client) EnsureSchedules(ctx context.Context, schedules []stint.Schedule) error {
	request := &stintv1.EnsureSchedulesRequest{Schedules: wire.FromSchedules(schedules)}
	return said("ensure schedules", c.repeat(ctx, timeFor(request),
		func(ctx context.Context, _ bool) error {
			_, err := c.tasks.EnsureSchedules(ctx, request)
			return err
		}))
}

// ListSchedules is [stint.Store.ListSchedules]. Schedules with more than 72 MiB together are
// refused ([stint.ErrTooLarge]): name fewer. Of tasks whose bodies the caller may not see, these
// are left out.
func (c *Client) ListSchedules(
	ctx context.Context, names ...string,
) (all []stint.ScheduleInfo, err error) {
	request := &stintv1.ListSchedulesRequest{Names: names}
	err = c.repeat(ctx, answerMax, func(ctx context.Context, _ bool) error {
		r, err := c.tasks.ListSchedules(ctx, request)
		if err != nil {
			return err
		}
		all, err = wire.ToScheduleInfos(r.GetSchedules())
		return err
	})
	return all, said("list schedules", err)
}

// PauseSchedules is [stint.Store.PauseSchedules].
func (c *Client) PauseSchedules(ctx context.Context, names ...string) error {
	request := &stintv1.PauseSchedulesRequest{Names: names}
	return said("pause schedules", c.repeat(ctx, attemptMax,
		func(ctx context.Context, _ bool) error {
			_, err := c.tasks.PauseSchedules(ctx, request)
			return err
		}))
}

// ResumeSchedules is [stint.Store.ResumeSchedules].
func (c *Client) ResumeSchedules(ctx context.Context, names ...string) error {
	request := &stintv1.ResumeSchedulesRequest{Names: names}
	return said("resume schedules", c.repeat(ctx, attemptMax,
		func(ctx context.Context, _ bool) error {
			_, err := c.tasks.ResumeSchedules(ctx, request)
			return err
		}))
}

// DeleteSchedules is [stint.Store.DeleteSchedules].
func (c *Client) DeleteSchedules(ctx context.Context, names ...string) error {
	request := &stintv1.DeleteSchedulesRequest{Names: names}
	return said("delete schedules", c.repeat(ctx, attemptMax,
		func(ctx context.Context, _ bool) error {
			_, err := c.tasks.DeleteSchedules(ctx, request)
			return err
		}))
}

// TriggerSchedule is [stint.Store.TriggerSchedule]. It is not repeated, since a repetition would
// insert the tasks once more: if its answer is lost, the error is [ErrUnavailable].
func (c *Client) TriggerSchedule(ctx context.Context, name string) (id stint.TaskID, err error) {
	request := &stintv1.TriggerScheduleRequest{Name: name}
	err = c.once(ctx, answerMax, func(ctx context.Context, _ bool) error {
		r, err := c.tasks.TriggerSchedule(ctx, request)
		id = stint.TaskID(r.GetId())
		return err
	})
	return id, said("trigger schedule", err)
}
