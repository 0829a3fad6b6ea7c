package client

import (
	"context"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/limit"
	"github.com/stint-tasks/stint/internal/wire"
)

// SetLimits is [stint.Store.SetLimits]. It may wait for long for tasks that are being fetched,
// in which no proxy must cut the connection off.
func (c *Client) SetLimits(ctx context.Context, action string, limits stint.Limits) error {
	request := &stintv1.SetLimitsRequest{
		Action: action, Limits: wire.FromLimits(limits), Seen: wire.FromSeenLimits(ctx),
	}
	changed := false
	err := c.repeat(ctx, longMax, func(ctx context.Context, _ bool) error {
		r, err := c.tasks.SetLimits(ctx, request)
		changed = r.GetChanged()
		return err
	})
	if err == nil && changed {
		err = limit.ErrChanged
	}
	return said("set limits", err)
}

// ListLimits is [stint.Store.ListLimits].
func (c *Client) ListLimits(
	ctx context.Context, actions ...string,
) (list []stint.ActionLimits, err error) {
	request := &stintv1.ListLimitsRequest{Actions: actions}
	err = c.repeat(ctx, answerMax, func(ctx context.Context, _ bool) error {
		r, err := c.tasks.ListLimits(ctx, request)
		list = wire.ToActionLimits(r.GetLimits())
		return err
	})
	return list, said("list limits", err)
}

// Pause is [stint.Store.Pause].
func (c *Client) Pause(ctx context.Context, actions ...string) error {
	request := &stintv1.PauseRequest{Actions: actions}
	return said("pause", c.repeat(ctx, attemptMax, func(ctx context.Context, _ bool) error {
		_, err := c.tasks.Pause(ctx, request)
		return err
	}))
}

// Resume is [stint.Store.Resume].
func (c *Client) Resume(ctx context.Context, actions ...string) error {
	request := &stintv1.ResumeRequest{Actions: actions}
	return said("resume", c.repeat(ctx, attemptMax, func(ctx context.Context, _ bool) error {
		_, err := c.tasks.Resume(ctx, request)
		return err
	}))
}

// PauseKeys is [stint.Store.PauseKeys].
func (c *Client) PauseKeys(ctx context.Context, action string, keys ...string) error {
	request := &stintv1.PauseKeysRequest{Action: action, Keys: keys}
	return said("pause keys", c.repeat(ctx, timeFor(request),
		func(ctx context.Context, _ bool) error {
			_, err := c.tasks.PauseKeys(ctx, request)
			return err
		}))
}

// ResumeKeys is [stint.Store.ResumeKeys].
func (c *Client) ResumeKeys(ctx context.Context, action string, keys ...string) error {
	request := &stintv1.ResumeKeysRequest{Action: action, Keys: keys}
	return said("resume keys", c.repeat(ctx, timeFor(request),
		func(ctx context.Context, _ bool) error {
			_, err := c.tasks.ResumeKeys(ctx, request)
			return err
		}))
}

// SetWeights is [stint.Store.SetWeights].
func (c *Client) SetWeights(ctx context.Context, action string, weights map[string]int) error {
	request := &stintv1.SetWeightsRequest{Action: action, Weights: wire.FromWeights(weights)}
	return said("set weights", c.repeat(ctx, timeFor(request),
		func(ctx context.Context, _ bool) error {
			_, err := c.tasks.SetWeights(ctx, request)
			return err
		}))
}
