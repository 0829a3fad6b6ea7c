package client

import (
	"context"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/verbs"
)

// asSeen has the verbs for tasks as somebody has seen them.
type asSeen struct {
	client *Client
	states []stint.State
	seen   []stint.TaskInfo
}

// AsSeen returns the verbs AbortTasks, RetryTasks, DeleteTasks and ChangeTasks for tasks that
// somebody has seen: each leaves out those of its tasks that are in none of the states any more, or
// were inserted or have finished at other times than seen has, or have begun since if seen has
// their state, and checks that in the transaction
// of the change. The verbs take tasks that are in seen, all of them. With dryRun they are those of
// [Client.DryRun], which leave nothing out.
func (c *Client) AsSeen(
	states []stint.State, seen []stint.TaskInfo, dryRun bool,
) verbs.Changer {
	if dryRun {
		return c.DryRun()
	}
	return asSeen{c, states, seen}
}

func (a asSeen) transact(ctx context.Context, t Transaction) (Transacted, error) {
	t.Seen, t.SeenStates = a.seen, a.states
	return a.client.Transact(ctx, t)
}

func (a asSeen) AbortTasks(
	ctx context.Context, ids []stint.TaskID, status string,
) (stint.Affected, error) {
	done, err := a.transact(ctx, Transaction{Abort: ids, AbortStatus: status})
	return done.Aborted, err
}

func (a asSeen) RetryTasks(ctx context.Context, ids []stint.TaskID) (stint.Affected, error) {
	done, err := a.transact(ctx, Transaction{Retry: ids})
	return done.Retried, err
}

func (a asSeen) DeleteTasks(ctx context.Context, ids []stint.TaskID) (stint.Affected, error) {
	done, err := a.transact(ctx, Transaction{Delete: ids})
	return done.Deleted, err
}

func (a asSeen) ChangeTasks(
	ctx context.Context, ids []stint.TaskID, to stint.TaskChanges,
) (stint.Affected, error) {
	done, err := a.transact(ctx, Transaction{Change: ids, ChangeTo: to})
	return done.Changed, err
}
