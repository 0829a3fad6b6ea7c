package worker

import (
	"context"
	"errors"
	"log/slog"

	"github.com/stint-tasks/stint"
)

// release gives back, in the background, tasks that were owned and not begun, as if nobody had
// owned them. One attempt must not decide over them: it is repeated until there is a verdict on
// each, and given up only when the worker no longer waits for anything.
func (e *execution) release(owned []stint.OwnedTask) {
	if len(owned) == 0 {
		return
	}
	e.unbegun.add(owned)
	e.performing.Go(func() { e.releaseUntilKnown(context.Background(), releases(owned)) })
}

// releaseAlone gives back tasks that came when the run was over.
func (e *execution) releaseAlone(ctx context.Context, owned []stint.OwnedTask) {
	if len(owned) > 0 {
		e.releaseUntilKnown(context.WithoutCancel(ctx), releases(owned))
	}
}

// releaseOnce makes returns, and tells of which there is no verdict, and why.
func (e *execution) releaseOnce(
	ctx context.Context, returns []stint.Return,
) (left []stint.Return, failure error) {
	ctx, cancel := context.WithTimeout(ctx, attemptMax)
	defer cancel()
	var verdicts []error
	var err error
	if len(returns) == 1 { // waits for whoever holds the task
		verdicts, err = e.queue.ReturnTasks(ctx, returns)
	} else {
		verdicts, _, err = e.queue.ReturnAndOwnTasks(ctx, returns, stint.Want{})
	}
	if err != nil {
		return returns, err
	}
	for i, verdict := range verdicts {
		switch {
		// They were given back, or have ended, or are somebody else's.
		case verdict == nil, errors.Is(verdict, stint.ErrInvalidToken):
			e.unbegun.drop(returns[i].Token)
		default:
			left, failure = append(left, returns[i]), verdict
		}
	}
	return left, failure
}

// releaseUntilKnown makes returns until there is a verdict on each.
func (e *execution) releaseUntilKnown(ctx context.Context, returns []stint.Return) {
	for try := 1; ; try++ {
		left, err := e.releaseOnce(ctx, returns)
		if len(left) == 0 {
			e.releasing.Worked(ctx)
			return
		}
		e.releasing.Failed(ctx, err)
		if len(left) > 1 && errors.Is(err, stint.ErrBusy) { // one of them holds up the others
			for i := range left {
				e.performing.Go(func() { e.releaseUntilKnown(ctx, left[i:i+1]) })
			}
			return
		}
		if hopeless(err) || within(reconnect().pause(try), e.stopped) {
			e.logger.LogAttrs(ctx, slog.LevelError, "tasks that have not begun stay owned until "+
				"their leases expire", slog.Int("tasks", len(left)), slog.Any("error", err))
			for i := range left {
				e.unbegun.drop(left[i].Token)
			}
			return
		}
		returns = left
	}
}

// releases are the returns that give back tasks as if nobody had owned them.
func releases(owned []stint.OwnedTask) []stint.Return {
	returns := make([]stint.Return, len(owned))
	for i, task := range owned {
		returns[i] = stint.Return{
			ID: task.ID, Token: task.Token, Code: stint.StatusPending, Release: true,
		}
	}
	return returns
}
