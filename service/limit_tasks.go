package service

import (
	"context"
	"errors"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/limit"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/service/access"
)

// SetLimits may wait for others for long, so the end of the service ends it.
func (t *taskService) SetLimits(
	ctx context.Context, r *stintv1.SetLimitsRequest,
) (*stintv1.SetLimitsResponse, error) {
	ctx, stop, err := t.untilDrained(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	if r.GetSeen() != nil {
		ctx = wire.WithSeenLimits(ctx, wire.ToLimits(r.GetSeen()))
	}
	response, err := apart(ctx, &stintv1.SetLimitsResponse{}, func(ctx context.Context) error {
		return t.store.SetLimits(ctx, r.GetAction(), wire.ToLimits(r.GetLimits()))
	})
	switch {
	case errors.Is(err, limit.ErrChanged):
		return &stintv1.SetLimitsResponse{Changed: true}, nil
	case err != nil && t.draining.Err() != nil:
		return nil, stint.ErrClosed // the client asks another service
	}
	return response, err
}

func (t *taskService) ListLimits(
	ctx context.Context, r *stintv1.ListLimitsRequest,
) (*stintv1.ListLimitsResponse, error) {
	list, err := t.store.ListLimits(ctx, r.GetActions()...)
	if err != nil {
		return nil, err
	}
	return &stintv1.ListLimitsResponse{Limits: wire.FromActionLimits(list)}, nil
}

func (t *taskService) Pause(
	ctx context.Context, r *stintv1.PauseRequest,
) (*stintv1.PauseResponse, error) {
	return apart(ctx, &stintv1.PauseResponse{}, func(ctx context.Context) error {
		return t.store.Pause(ctx, r.GetActions()...)
	})
}

func (t *taskService) Resume(
	ctx context.Context, r *stintv1.ResumeRequest,
) (*stintv1.ResumeResponse, error) {
	return apart(ctx, &stintv1.ResumeResponse{}, func(ctx context.Context) error {
		return t.store.Resume(ctx, r.GetActions()...)
	})
}

func (t *taskService) PauseKeys(
	ctx context.Context, r *stintv1.PauseKeysRequest,
) (*stintv1.PauseKeysResponse, error) {
	return apart(ctx, &stintv1.PauseKeysResponse{}, func(ctx context.Context) error {
		return t.store.PauseKeys(ctx, r.GetAction(), r.GetKeys()...)
	})
}

func (t *taskService) ResumeKeys(
	ctx context.Context, r *stintv1.ResumeKeysRequest,
) (*stintv1.ResumeKeysResponse, error) {
	return apart(ctx, &stintv1.ResumeKeysResponse{}, func(ctx context.Context) error {
		return t.store.ResumeKeys(ctx, r.GetAction(), r.GetKeys()...)
	})
}

func (t *taskService) SetWeights(
	ctx context.Context, r *stintv1.SetWeightsRequest,
) (*stintv1.SetWeightsResponse, error) {
	return apart(ctx, &stintv1.SetWeightsResponse{}, func(ctx context.Context) error {
		return t.store.SetWeights(ctx, r.GetAction(), wire.ToWeights(r.GetWeights()))
	})
}

// mayLimit returns an error unless the principal may control every task with these actions, since
// a limit or a pause holds up all of them.
func (a *asking) mayLimit(actions ...string) error {
	switch {
	case !a.principal.Has(access.Control):
		return a.mayNot("%s tasks", access.Control)
	case !a.principal.MayAllOf(access.Control, actions):
		return a.mayNot("%s all tasks with actions %q", access.Control, actions)
	}
	return nil
}
