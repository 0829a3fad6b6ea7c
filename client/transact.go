package client

import (
	"context"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/wire"
)

// A Transaction is what [Client.Transact] does in one commit, in this order.
type Transaction struct {
	Hold            []stint.OwnedTask // the caller must still own these
	MustExist       []stint.TaskID    // these must be in the store
	Insert, Replace []stint.Task
	Depend          []stint.Dependency
	Retry           []stint.TaskID
	Abort           []stint.TaskID
	AbortStatus     string // why
	Delete          []stint.TaskID
	Return          []stint.Return // one that is refused undoes the whole
}

// Transact does several verbs in one commit, or none of them: it can complete a task and insert its
// successors, for example. The errors are those of the verbs.
//
// A transaction that returns a task, or inserts one, is repeated after a lost answer: if the first
// attempt has committed, the repetition tells. Others are not, and fail with [ErrUnavailable].
func (c *Client) Transact(ctx context.Context, t Transaction) error {
	if err := nameAll(t.Insert); err != nil {
		return said("transact", err)
	}
	request := &stintv1.TransactRequest{
		Hold: wire.FromPerformances(t.Hold), MustExist: wire.FromIDs(t.MustExist),
		Insert: wire.FromTasks(t.Insert), Replace: wire.FromTasks(t.Replace),
		Depend: wire.FromDependencies(t.Depend), Retry: wire.FromIDs(t.Retry),
		Abort: wire.FromIDs(t.Abort), AbortStatus: t.AbortStatus,
		Delete: wire.FromIDs(t.Delete), Return: wire.FromReturns(t.Return),
	}
	repeat := c.repeat
	if len(t.Insert)+len(t.Return) == 0 {
		repeat = c.once
	}
	err := repeat(ctx, attemptMax, func(ctx context.Context, ambiguous bool) error {
		request.Repeated = ambiguous
		_, err := c.tasks.Transact(ctx, request)
		if ambiguous && namesAll(err, "task-exists", len(t.Insert)) {
			return nil // the attempt before was still under way when this one began
		}
		return err
	})
	if err != nil {
		return said("transact", err)
	}
	c.presence.drop(t.Return, make([]error, len(t.Return)))
	return nil
}
