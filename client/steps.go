package client

import (
	"context"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/wire"
)

// RecordStep is [stint.Store.RecordStep].
func (c *Client) RecordStep(
	ctx context.Context, owned stint.OwnedTask, name string, result []byte,
) (kept []byte, err error) {
	request := &stintv1.RecordStepRequest{
		Id: string(owned.ID), Token: owned.Token.String(), Name: name,
		Outcome: &stintv1.RecordStepRequest_Result{Result: result},
	}
	err = c.repeat(ctx, attemptMax, func(ctx context.Context, _ bool) error {
		response, err := c.owners.RecordStep(ctx, request)
		if err == nil {
			kept = wire.ToStepResult(response)
		}
		return err
	})
	return kept, said("record step", err)
}

// Steps is [stint.Store.Steps].
func (c *Client) Steps(
	ctx context.Context, owned stint.OwnedTask,
) (steps []stint.RecordedStep, err error) {
	request := &stintv1.ListStepsRequest{Id: string(owned.ID), Token: owned.Token.String()}
	err = c.repeat(ctx, answerMax, func(ctx context.Context, _ bool) error {
		response, err := c.owners.ListSteps(ctx, request)
		if err == nil {
			steps = wire.ToSteps(response.GetSteps())
		}
		return err
	})
	return steps, said("steps", err)
}
