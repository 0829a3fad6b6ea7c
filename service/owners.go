package service

import (
	"context"
	"fmt"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/callctx"
	"github.com/stint-tasks/stint/internal/wire"
)

// workerService has the verbs of stint.v1.WorkerService.
type workerService struct{ *Service }

func (o *workerService) OwnTasks(
	ctx context.Context, r *stintv1.OwnTasksRequest,
) (*stintv1.OwnTasksResponse, error) {
	by := callerOf(ctx)
	ctx = callctx.WithRoom(ctx, by.room.hold)
	claim := stint.Claim{
		Number:   by.numberOf(r.GetActor(), r.GetClaim()),
		Session:  by.remote(r.GetActor(), r.GetSession()).Session,
		Repeated: r.GetRepeated(),
	}
	actor, maxTasks := stint.ActorID(r.GetActor()), min(int(r.GetMaxTasks()), ownedMax)
	lease := r.GetLease().AsDuration()
	wait, err := waitOf(r.GetWait(), 0)
	if err != nil {
		return nil, err
	}
	returns, err := wire.ToReturns(r.GetReturns())
	if err != nil {
		return nil, err
	}
	remote := o.store.Remote()
	var verdicts []error
	var owned []stint.OwnedTask
	var over bool
	switch {
	case len(returns) > 0:
		verdicts, owned, err = remote.ReturnAndClaimTasks(ctx, returns, claim, stint.Want{
			Actor: actor, MaxTasks: maxTasks, Actions: r.GetActions(), Lease: lease,
		})
	case wait < briefWait || claim.Repeated: // what a claim has is not waited for
		owned, err = remote.ClaimTasks(ctx, claim, actor, maxTasks, r.GetActions(), lease)
	}
	if wait > 0 && len(owned) == 0 && err == nil {
		over, err = o.waiting(ctx, wait, func(ctx context.Context) (err error) {
			owned, err = remote.WaitToClaimTasks(ctx, claim, actor, maxTasks, r.GetActions(), lease)
			return err
		})
	}
	if err != nil && !over {
		return nil, err
	}
	if isRepeated(ctx) {
		remote.OwnUp(returns, verdicts)
	}
	return &stintv1.OwnTasksResponse{
		Tasks: wire.FromOwned(owned, r.GetText()), Verdicts: wire.FromVerdicts(verdicts),
	}, nil
}

// ownedMax is how many tasks a call is given at most. The store sees to it that their bodies fit
// into an answer.
const ownedMax = 1000

func (o *workerService) ReleaseClaim(
	ctx context.Context, r *stintv1.ReleaseClaimRequest,
) (*stintv1.ReleaseClaimResponse, error) {
	claim := stint.Claim{Number: callerOf(ctx).numberOf(r.GetActor(), r.GetClaim())}
	return &stintv1.ReleaseClaimResponse{},
		o.store.Remote().ReleaseClaim(ctx, claim, stint.ActorID(r.GetActor()))
}

func (o *workerService) ExtendTasksOwnership(
	ctx context.Context, r *stintv1.ExtendTasksOwnershipRequest,
) (*stintv1.ExtendTasksOwnershipResponse, error) {
	owned, err := wire.ToPerformances(r.GetTasks())
	if err != nil {
		return nil, err
	}
	remote := callerOf(ctx).remote(r.GetActor(), r.GetSession())
	lease := r.GetLease().AsDuration()
	kept, err := o.store.Remote().ExtendTasksOwnership(ctx, remote, owned, lease)
	return &stintv1.ExtendTasksOwnershipResponse{Kept: kept}, err
}

func (o *workerService) ReturnTasks(
	ctx context.Context, r *stintv1.ReturnTasksRequest,
) (*stintv1.ReturnTasksResponse, error) {
	returns, err := wire.ToReturns(r.GetReturns())
	if err != nil {
		return nil, err
	}
	give := o.store.ReturnTasks
	if r.GetPromptly() {
		give = func(ctx context.Context, returns []stint.Return) ([]error, error) {
			verdicts, _, err := o.store.ReturnAndOwnTasks(ctx, returns, stint.Want{})
			return verdicts, err
		}
	}
	verdicts, err := give(ctx, returns)
	if err != nil {
		return nil, err
	}
	if isRepeated(ctx) {
		o.store.Remote().OwnUp(returns, verdicts)
	}
	return &stintv1.ReturnTasksResponse{Verdicts: wire.FromVerdicts(verdicts)}, nil
}

func (o *workerService) DrawFence(
	ctx context.Context, r *stintv1.DrawFenceRequest,
) (*stintv1.DrawFenceResponse, error) {
	owned, err := wire.ToPerformance(r)
	if err != nil {
		return nil, err
	}
	fence, err := o.store.Fence(ctx, owned)
	return &stintv1.DrawFenceResponse{Fence: fence}, err
}

func (o *workerService) SetStatus(
	ctx context.Context, r *stintv1.SetStatusRequest,
) (*stintv1.SetStatusResponse, error) {
	owned, err := wire.ToPerformance(r)
	if err != nil {
		return nil, err
	}
	return &stintv1.SetStatusResponse{},
		o.store.SetStatus(ctx, owned, r.GetStatus(), r.GetProgress())
}

func (o *workerService) GetInputs(
	ctx context.Context, r *stintv1.GetInputsRequest,
) (*stintv1.GetInputsResponse, error) {
	owned, err := wire.ToPerformance(r)
	if err != nil {
		return nil, err
	}
	bytesMax := answerBytesMax
	if r.GetPaged() {
		bytesMax = answerBytes
	}
	if err := callerOf(ctx).room.hold(ctx, int64(bytesMax)); err != nil {
		return nil, err
	}
	after := stint.Cursor(r.GetAfter())
	inputs, next, err := o.store.Remote().InputsPage(ctx, owned, after, bytesMax)
	switch {
	case err != nil:
		return nil, err
	case next != "" && !r.GetPaged(): // whoever expects them all may not look at next
		return nil, &stint.ArgumentError{
			Argument: "paged", Index: -1, Err: stint.ErrTooLarge,
			Problem: fmt.Sprintf("must be set to read these inputs, a page at a time: they have "+
				"more than the %d bytes of an answer", answerBytesMax),
		}
	}
	return &stintv1.GetInputsResponse{
		Inputs: wire.FromInputs(inputs, r.GetText()), Next: string(next),
	}, nil
}

func (o *workerService) RecordStep(
	ctx context.Context, r *stintv1.RecordStepRequest,
) (*stintv1.RecordStepResponse, error) {
	owned, err := wire.ToPerformance(r)
	if err != nil {
		return nil, err
	}
	kept, err := o.store.RecordStep(ctx, owned, r.GetName(), wire.ToStepResult(r))
	if err != nil {
		return nil, err
	}
	return wire.FromStepResult(kept, r.GetText()), nil
}

func (o *workerService) ListSteps(
	ctx context.Context, r *stintv1.ListStepsRequest,
) (*stintv1.ListStepsResponse, error) {
	owned, err := wire.ToPerformance(r)
	if err != nil {
		return nil, err
	}
	steps, err := o.store.Steps(ctx, owned)
	if err != nil {
		return nil, err
	}
	return &stintv1.ListStepsResponse{Steps: wire.FromSteps(steps, r.GetText())}, nil
}
