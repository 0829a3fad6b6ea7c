package service

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/wire"
)

// briefWait is how long a wait must be for a first look to be over before it in all likelihood. A
// call that asks for less looks first, and waits then.
const briefWait = time.Second

// waitOf returns how long a call asks to wait: byDefault if it does not say, which is not the same
// as zero.
func waitOf(asked *durationpb.Duration, byDefault time.Duration) (time.Duration, error) {
	if asked == nil {
		return byDefault, nil
	}
	wait := asked.AsDuration()
	if asked.CheckValid() != nil || wait < 0 {
		return 0, &stint.ArgumentError{
			Argument: "wait", Index: -1, Problem: "must be a duration that is not negative",
			Err: stint.ErrInvalidArgument,
		}
	}
	return wait, nil
}

func (t *taskService) WaitForTasks(
	ctx context.Context, r *stintv1.WaitForTasksRequest,
) (*stintv1.WaitForTasksResponse, error) {
	wait, err := waitOf(r.GetWait(), waitMax)
	if err != nil {
		return nil, err
	}
	ids := wire.ToIDs(r.GetIds())
	if err := t.willFit(ctx, ids); err != nil {
		return nil, err
	}
	if wait < briefWait {
		found, finished, err := t.lookAtWaited(ctx, ids)
		if err != nil || finished || wait == 0 {
			return waited(found, finished, r), err
		}
	}
	var found []stint.TaskInfo
	var left int64
	over, err := t.waiting(ctx, wait, func(ctx context.Context) (err error) {
		found, left, err = t.store.Remote().WaitForSmallTasks(ctx, ids, smallOf(ids))
		return err
	})
	finished := !over
	switch {
	case over:
		err = nil
	case err == nil && left > 0:
		finished, err = t.readWaited(ctx, ids, found, left)
	}
	return waited(found, finished, r), err
}

// readWaited reads what was left out of tasks that have finished. It reports whether they still
// have: they may have been retried since. A replaced one has no body any more.
func (t *taskService) readWaited(
	ctx context.Context, ids []stint.TaskID, ended []stint.TaskInfo, left int64,
) (finished bool, err error) {
	if err := t.holdFor(ctx, ended, left); err != nil {
		return false, err
	}
	whole, err := t.store.GetTasks(ctx, ids)
	if err := cmp.Or(err, fits(whole)); err != nil {
		return false, err
	}
	finished = true
	for i := range ended {
		if ended[i].AbortCause == stint.CauseReplaced {
			continue
		}
		ended[i] = whole[i]
		finished = finished && !whole[i].FinishedAt.IsZero()
	}
	return finished, nil
}

func waited(
	found []stint.TaskInfo, finished bool, r *stintv1.WaitForTasksRequest,
) *stintv1.WaitForTasksResponse {
	if !finished {
		return &stintv1.WaitForTasksResponse{}
	}
	return &stintv1.WaitForTasksResponse{
		Finished: true, Tasks: wire.FromInfos(found, r.GetText()),
	}
}

// lookAtWaited returns tasks without waiting for them, and whether all have finished. The errors
// are those of a wait.
func (t *taskService) lookAtWaited(
	ctx context.Context, ids []stint.TaskID,
) (found []stint.TaskInfo, finished bool, err error) {
	found, left, err := t.store.Remote().GetSmallTasks(ctx, ids, smallOf(ids))
	if err != nil {
		return nil, false, err
	}
	finished = true
	var silent []stint.TaskID
	for i := range found {
		if !found[i].PostResult {
			silent = append(silent, found[i].ID)
		}
		finished = finished && !found[i].FinishedAt.IsZero()
	}
	if len(silent) > 0 {
		slices.Sort(silent)
		return nil, false, &stint.TaskError{
			IDs: slices.Compact(silent), Err: stint.ErrNoPostResult,
		}
	}
	if finished && left > 0 {
		finished, err = t.readWaited(ctx, ids, found, left)
	}
	return found, finished, err
}
