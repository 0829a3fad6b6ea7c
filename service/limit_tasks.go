package service

import (
	"context"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/service/access"
)

// SetLimits may wait for others for long, so the end of the service ends it. It may be repeated.
func (t *taskService) SetLimits(
	ctx context.Context, r *stintv1.SetLimitsRequest,
) (*stintv1.SetLimitsResponse, error) {
	ctx, stop, err := t.untilDrained(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	err = t.store.SetLimits(ctx, r.GetAction(), wire.ToLimits(r.GetLimits()))
	if err != nil && t.draining.Err() != nil {
		return nil, stint.ErrClosed // the client asks another service
	}
	return &stintv1.SetLimitsResponse{}, err
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
	return &stintv1.PauseResponse{}, t.store.Pause(ctx, r.GetActions()...)
}

func (t *taskService) Resume(
	ctx context.Context, r *stintv1.ResumeRequest,
) (*stintv1.ResumeResponse, error) {
	return &stintv1.ResumeResponse{}, t.store.Resume(ctx, r.GetActions()...)
}

func (t *taskService) PauseKeys(
	ctx context.Context, r *stintv1.PauseKeysRequest,
) (*stintv1.PauseKeysResponse, error) {
	return &stintv1.PauseKeysResponse{}, t.store.PauseKeys(ctx, r.GetAction(), r.GetKeys()...)
}

func (t *taskService) ResumeKeys(
	ctx context.Context, r *stintv1.ResumeKeysRequest,
) (*stintv1.ResumeKeysResponse, error) {
	return &stintv1.ResumeKeysResponse{}, t.store.ResumeKeys(ctx, r.GetAction(), r.GetKeys()...)
}

func (t *taskService) SetWeights(
	ctx context.Context, r *stintv1.SetWeightsRequest,
) (*stintv1.SetWeightsResponse, error) {
	err := t.store.SetWeights(ctx, r.GetAction(), wire.ToWeights(r.GetWeights()))
	return &stintv1.SetWeightsResponse{}, err
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
