package client

import (
	"context"
	"errors"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/wire"
)

// A Transaction is what [Client.Transact] does in one commit, in this order.
type Transaction struct {
	Hold            []stint.OwnedTask // the caller must still own these
	MustExist       []stint.TaskID    // these must be in the store
	Insert, Replace []stint.Task
	Debounce        []Debounced // at most 1,000
	Depend          []stint.Dependency
	Change          []stint.TaskID
	ChangeTo        stint.TaskChanges
	Retry           []stint.TaskID
	Abort           []stint.TaskID
	AbortStatus     string // why
	Delete          []stint.TaskID
	Return          []stint.Return // one that is refused undoes the whole

	// Seen, if it is not nil, makes Change, Retry, Abort and Delete leave out each task that is not
	// in it, is in none of SeenStates, was inserted or has finished at another time than in Seen,
	// or is in progress by now and was in another state there. Of the tasks in Seen only the ID,
	// these two times and the state matter, which may be empty. So tasks are changed only
	// if they still are as the caller has seen them.
	Seen       []stint.TaskInfo
	SeenStates []stint.State
}

// Debounced is a call of [Client.Debounce].
type Debounced struct {
	Task          stint.Task
	Quiet, AtMost time.Duration
}

func (c *Client) fromDebounced(
	ctx context.Context, calls []Debounced,
) []*stintv1.DebounceRequest {
	requests := make([]*stintv1.DebounceRequest, len(calls))
	for i := range calls {
		requests[i] = c.debounceRequest(ctx, calls[i])
	}
	return requests
}

// Transacted is what a transaction did to tasks of others.
type Transacted struct {
	Changed, Retried, Aborted, Deleted stint.Affected
}

// Transact does several verbs in one commit, or none of them: it can complete a task and insert its
// successors, for example. The errors are those of the verbs.
//
// A transaction that returns a task, or inserts one, is repeated after a lost answer, and so is one
// with Seen that replaces and debounces nothing. Others are not, and fail with [ErrUnavailable].
func (c *Client) Transact(ctx context.Context, t Transaction) (done Transacted, err error) {
	if err := errors.Join(nameAll(t.Insert), nameAll(t.Replace)); err != nil {
		return done, said("transact", err)
	}
	request := &stintv1.TransactRequest{
		Hold: wire.FromPerformances(t.Hold), MustExist: wire.FromIDs(t.MustExist),
		Insert: c.fromTasks(ctx, t.Insert), Replace: c.fromTasks(ctx, t.Replace),
		Debounce: c.fromDebounced(ctx, t.Debounce),
		Depend:   wire.FromDependencies(t.Depend), Retry: wire.FromIDs(t.Retry),
		Abort: wire.FromIDs(t.Abort), AbortStatus: t.AbortStatus,
		Delete: wire.FromIDs(t.Delete), Return: wire.FromReturns(t.Return),
		Change: wire.FromIDs(t.Change), ChangeTo: wire.FromTaskChanges(t.ChangeTo),
		AsSeen: wire.FromSeen(t.SeenStates, t.Seen),
	}
	repeat, limit := c.repeat, timeFor(request)
	if len(t.Change)+len(t.Retry)+len(t.Abort)+len(t.Delete)+len(t.Depend) > 0 {
		limit = longMax
	}
	if len(t.Insert)+len(t.Return) == 0 && (t.Seen == nil || len(t.Replace)+len(t.Debounce) > 0) {
		repeat = c.once
	}
	err = repeat(ctx, limit, func(ctx context.Context, ambiguous bool) error {
		request.Repeated = ambiguous
		response, err := c.tasks.Transact(ctx, request)
		done = Transacted{
			Changed: wire.ToAffected(response.GetChanged()),
			Retried: wire.ToAffected(response.GetRetried()),
			Aborted: wire.ToAffected(response.GetAborted()),
			Deleted: wire.ToAffected(response.GetDeleted()),
		}
		return err
	})
	if err != nil {
		return done, said("transact", err)
	}
	c.presence.drop(t.Return, make([]error, len(t.Return)))
	return done, nil
}
