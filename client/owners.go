package client

import (
	"context"
	"errors"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/callctx"
	"github.com/stint-tasks/stint/internal/wire"
)

// OwnTasks is [stint.Store.OwnTasks], but a service gives 1,000 tasks at most, or as many as have
// 8 MiB of bodies together, less under a short lease ([stint.Remote.ClaimTasks]). A repetition
// after a lost answer asks for the same fetch, at any service, so the caller learns of every
// task that it was given. If ctx ends, or the service cannot be reached for some seconds, the
// client goes on in the background for up to a minute, until it has given back what may have been
// fetched.
func (c *Client) OwnTasks(
	ctx context.Context, actor stint.ActorID, maxTasks int, actions []string, lease time.Duration,
) ([]stint.OwnedTask, error) {
	_, owned, err := c.ownTasks(ctx, nil, &stintv1.OwnTasksRequest{
		Actor: string(actor), MaxTasks: wire.Int32(maxTasks), Actions: actions,
		Lease: wire.FromDuration(lease),
	})
	return owned, said("own tasks", err)
}

// WaitToOwnTasks is [stint.Store.WaitToOwnTasks], and like [Client.OwnTasks] in all else.
func (c *Client) WaitToOwnTasks(
	ctx context.Context, actor stint.ActorID, maxTasks int, actions []string, lease time.Duration,
) ([]stint.OwnedTask, error) {
	ctx = callctx.End(ctx)
	for {
		_, owned, err := c.ownTasks(ctx, nil, &stintv1.OwnTasksRequest{
			Actor: string(actor), MaxTasks: wire.Int32(maxTasks), Actions: actions,
			Lease: wire.FromDuration(lease), Wait: wire.FromDuration(pollFor),
		})
		if err != nil || len(owned) > 0 {
			return owned, said("wait to own tasks", err)
		}
	}
}

// ownTasks asks for one fetch, with returns, until it is known what was fetched.
func (c *Client) ownTasks(
	ctx context.Context, returns []stint.Return, request *stintv1.OwnTasksRequest,
) (verdicts []error, owned []stint.OwnedTask, err error) {
	request.Session = c.session
	request.Returns = wire.FromReturns(returns)
	ctx, cancel := c.untilClosed(ctx)
	defer cancel()
	lost, again := false, false // an answer to this claim, and one to any
	for {
		claim, err := stint.NewClaim(c.session)
		if err != nil {
			return nil, nil, err
		}
		request.Claim = claim.Number
		attempt := request.GetWait().AsDuration() + max(answerMax, timeFor(request))
		err = c.repeat(ctx, attempt, func(ctx context.Context, ambiguous bool) error {
			request.Repeated = ambiguous
			if again { // the returns may have been made, under whichever claim
				ctx = asRepeated(ctx)
			}
			response, err := c.owners.OwnTasks(ctx, request)
			if err != nil {
				_, may := isLost(err)
				lost, again = lost || may, again || may
				return err
			}
			verdicts = wire.ToVerdicts(response.GetVerdicts())
			owned, err = wire.ToOwned(response.GetTasks())
			return err
		})
		if err != nil && c.checkOpen() != nil {
			err = stint.ErrClosed
		}
		switch {
		case errors.Is(err, stint.ErrClaimSpent): // what was fetched was given back
			lost, again = false, true
			continue
		case err != nil && lost:
			c.release(stint.ActorID(request.GetActor()), claim)
		case len(owned) > 0:
			c.presence.hold(stint.ActorID(request.GetActor()), owned)
		case lost: // an attempt that was given up may still fetch
			c.release(stint.ActorID(request.GetActor()), claim)
		}
		if err != nil {
			return nil, owned, err
		}
		if len(verdicts) < len(returns) { // a service that knew no fetch with returns ignored them
			verdicts, err = c.returnTasks(ctx, returns, true)
			for len(verdicts) < len(returns) { // the tasks are owned, whatever becomes of these
				verdicts = append(verdicts, err)
			}
			return verdicts, owned, nil
		}
		c.presence.drop(returns, verdicts)
		return verdicts, owned, nil
	}
}

// release gives back in the background what was or will be fetched under a claim.
func (c *Client) release(actor stint.ActorID, claim stint.Claim) {
	request := &stintv1.ReleaseClaimRequest{Actor: string(actor), Claim: claim.Number}
	attempt := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		_, err := c.owners.ReleaseClaim(ctx, request)
		return err
	}
	if !c.inBackground(func() { c.releasing(attempt) }) {
		_ = attempt(leaveMax) // closed: if it fails, the leases expire
	}
}

// releasing repeats attempts to release a claim.
func (c *Client) releasing(attempt func(limit time.Duration) error) {
	late := time.After(releaseMax)
	for pause := pauseFirst; ; pause = min(2*pause, pauseMax) {
		err := attempt(attemptMax)
		if err == nil {
			c.outages.unreleased.Worked(context.Background())
			return
		}
		c.outages.unreleased.Failed(context.Background(), err)
		if again, _ := isLost(err); !again {
			return
		}
		select {
		case <-time.After(pause):
		case <-c.closing: // the last attempt was made
			return
		case <-late:
			return
		}
	}
}

// releaseMax is for how long a client tries to release a claim: for about as long as it bars it.
const releaseMax = time.Minute

// ExtendTasksOwnership is [stint.Store.ExtendTasksOwnership].
func (c *Client) ExtendTasksOwnership(
	ctx context.Context, actor stint.ActorID, owned []stint.OwnedTask, lease time.Duration,
) (kept []bool, err error) {
	request := &stintv1.ExtendTasksOwnershipRequest{
		Actor: string(actor), Tasks: wire.FromPerformances(owned), Lease: wire.FromDuration(lease),
		Session: c.session,
	}
	err = c.repeat(ctx, attemptMax, func(ctx context.Context, _ bool) error {
		response, err := c.owners.ExtendTasksOwnership(ctx, request)
		kept = response.GetKept()
		return err
	})
	return kept, said("extend tasks ownership", err)
}

// ReturnTask is [stint.Store.ReturnTask].
func (c *Client) ReturnTask(
	ctx context.Context, id stint.TaskID, token stint.Token, status string, code stint.StatusCode,
) error {
	verdicts, err := c.returnTasks(ctx,
		[]stint.Return{{ID: id, Token: token, Status: status, Code: code}}, false)
	if err == nil {
		err = verdicts[0]
	}
	return said("return task", err)
}

// ReturnTasks is [stint.Store.ReturnTasks]. Where the answer to an attempt was lost, and a
// repetition finds a task returned with the same outcome, the first one has returned it, and the
// verdict is nil. With KeepNone so it is where the task is gone, though somebody else may have
// ended it.
func (c *Client) ReturnTasks(ctx context.Context, returns []stint.Return) ([]error, error) {
	verdicts, err := c.returnTasks(ctx, returns, false)
	return verdicts, said("return tasks", err)
}

// ReturnAndOwnTasks is [stint.Store.ReturnAndOwnTasks], with the limits of [Client.OwnTasks], and
// repeated as that and [Client.ReturnTasks] are.
func (c *Client) ReturnAndOwnTasks(
	ctx context.Context, returns []stint.Return, want stint.Want,
) (verdicts []error, owned []stint.OwnedTask, err error) {
	if want.MaxTasks == 0 {
		verdicts, err = c.returnTasks(ctx, returns, true)
	} else {
		verdicts, owned, err = c.ownTasks(ctx, returns, &stintv1.OwnTasksRequest{
			Actor: string(want.Actor), MaxTasks: wire.Int32(want.MaxTasks), Actions: want.Actions,
			Lease: wire.FromDuration(want.Lease),
		})
	}
	return verdicts, owned, said("return and own tasks", err)
}

func (c *Client) returnTasks(
	ctx context.Context, returns []stint.Return, promptly bool,
) (verdicts []error, err error) {
	request := &stintv1.ReturnTasksRequest{
		Returns: wire.FromReturns(returns), Promptly: promptly,
	}
	err = c.repeat(ctx, timeFor(request), func(ctx context.Context, _ bool) error {
		response, err := c.owners.ReturnTasks(ctx, request)
		verdicts = wire.ToVerdicts(response.GetVerdicts())
		return err
	})
	if err != nil {
		return nil, err
	}
	c.presence.drop(returns, verdicts)
	return verdicts, nil
}

// Fence is [stint.Store.Fence].
func (c *Client) Fence(ctx context.Context, owned stint.OwnedTask) (fence int64, err error) {
	request := &stintv1.DrawFenceRequest{Id: string(owned.ID), Token: owned.Token.String()}
	err = c.repeat(ctx, attemptMax, func(ctx context.Context, _ bool) error {
		answer, err := c.owners.DrawFence(ctx, request)
		fence = answer.GetFence()
		return err
	})
	return fence, said("fence", err)
}

// SetStatus is [stint.Store.SetStatus].
func (c *Client) SetStatus(
	ctx context.Context, owned stint.OwnedTask, status string, progress float64,
) error {
	request := &stintv1.SetStatusRequest{
		Id: string(owned.ID), Token: owned.Token.String(),
		Status: wire.ToStatus(status), Progress: progress,
	}
	return said("set status", c.repeat(ctx, attemptMax, func(ctx context.Context, _ bool) error {
		_, err := c.owners.SetStatus(ctx, request)
		return err
	}))
}

// Inputs is [stint.Store.Inputs]. It asks for a page after the other, however large they are.
func (c *Client) Inputs(
	ctx context.Context, owned stint.OwnedTask,
) (inputs []stint.Input, err error) {
	request := &stintv1.GetInputsRequest{
		Id: string(owned.ID), Token: owned.Token.String(), Paged: true,
	}
	for more := true; more; more = request.GetAfter() != "" {
		err = c.repeat(ctx, answerMax, func(ctx context.Context, _ bool) error {
			response, err := c.owners.GetInputs(ctx, request)
			if err == nil {
				inputs = append(inputs, wire.ToInputs(response.GetInputs())...)
				request.After = response.GetNext()
			}
			return err
		})
		if err != nil {
			return nil, said("inputs", err)
		}
	}
	return inputs, nil
}
