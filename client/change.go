package client

import (
	"context"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/verbs"
)

// DryRun is [stint.DryRun], over a service.
type DryRun struct{ client *Client }

// DryRun returns the verbs that only say what they would do.
func (c *Client) DryRun() *DryRun { return &DryRun{c} }

// AbortTasks is [stint.Store.AbortTasks].
func (c *Client) AbortTasks(
	ctx context.Context, ids []stint.TaskID, status string,
) (stint.Affected, error) {
	return c.abortTasks(ctx, ids, status, false)
}

// AbortTasks says what [Client.AbortTasks] would do.
func (d *DryRun) AbortTasks(
	ctx context.Context, ids []stint.TaskID, status string,
) (stint.Affected, error) {
	return d.client.abortTasks(ctx, ids, status, true)
}

func (c *Client) abortTasks(
	ctx context.Context, ids []stint.TaskID, status string, dryRun bool,
) (stint.Affected, error) {
	return change(ctx, c, "abort tasks", c.tasks.AbortTasks, &stintv1.AbortTasksRequest{
		Ids: wire.FromIDs(ids), Status: status, DryRun: dryRun,
	}, (*stintv1.AbortTasksResponse).GetAborted)
}

// RetryTasks is [stint.Store.RetryTasks].
func (c *Client) RetryTasks(ctx context.Context, ids []stint.TaskID) (stint.Affected, error) {
	return c.retryTasks(ctx, ids, false)
}

// RetryTasks says what [Client.RetryTasks] would do.
func (d *DryRun) RetryTasks(ctx context.Context, ids []stint.TaskID) (stint.Affected, error) {
	return d.client.retryTasks(ctx, ids, true)
}

func (c *Client) retryTasks(
	ctx context.Context, ids []stint.TaskID, dryRun bool,
) (stint.Affected, error) {
	return change(ctx, c, "retry tasks", c.tasks.RetryTasks, &stintv1.RetryTasksRequest{
		Ids: wire.FromIDs(ids), DryRun: dryRun,
	}, (*stintv1.RetryTasksResponse).GetRetried)
}

// DeleteTasks is [stint.Store.DeleteTasks].
func (c *Client) DeleteTasks(ctx context.Context, ids []stint.TaskID) (stint.Affected, error) {
	return c.deleteTasks(ctx, ids, false)
}

// DeleteTasks says what [Client.DeleteTasks] would do.
func (d *DryRun) DeleteTasks(ctx context.Context, ids []stint.TaskID) (stint.Affected, error) {
	return d.client.deleteTasks(ctx, ids, true)
}

func (c *Client) deleteTasks(
	ctx context.Context, ids []stint.TaskID, dryRun bool,
) (stint.Affected, error) {
	return change(ctx, c, "delete tasks", c.tasks.DeleteTasks, &stintv1.DeleteTasksRequest{
		Ids: wire.FromIDs(ids), DryRun: dryRun,
	}, (*stintv1.DeleteTasksResponse).GetDeleted)
}

// ChangeTasks is [stint.Store.ChangeTasks].
func (c *Client) ChangeTasks(
	ctx context.Context, ids []stint.TaskID, to stint.TaskChanges,
) (stint.Affected, error) {
	return c.changeTasks(ctx, ids, to, false)
}

// ChangeTasks says what [Client.ChangeTasks] would do.
func (d *DryRun) ChangeTasks(
	ctx context.Context, ids []stint.TaskID, to stint.TaskChanges,
) (stint.Affected, error) {
	return d.client.changeTasks(ctx, ids, to, true)
}

func (c *Client) changeTasks(
	ctx context.Context, ids []stint.TaskID, to stint.TaskChanges, dryRun bool,
) (stint.Affected, error) {
	return change(ctx, c, "change tasks", c.tasks.ChangeTasks, &stintv1.ChangeTasksRequest{
		Ids: wire.FromIDs(ids), To: wire.FromTaskChanges(to), DryRun: dryRun,
	}, (*stintv1.ChangeTasksResponse).GetChanged)
}

// change calls a procedure that changes tasks of others, again where an answer is lost.
func change[Q, R any](
	ctx context.Context, c *Client, verb string, procedure func(context.Context, Q) (R, error),
	request Q, affectedIn func(R) *stintv1.Affected,
) (affected stint.Affected, err error) {
	err = c.repeat(ctx, longMax, func(ctx context.Context, _ bool) error {
		response, err := procedure(ctx, request)
		affected = wire.ToAffected(affectedIn(response))
		return err
	})
	return affected, said(verb, err)
}

// asSeen has the verbs for tasks as somebody has seen them.
type asSeen struct {
	client *Client
	states []stint.State
	seen   []stint.TaskInfo
}

// AsSeen returns the verbs for tasks that somebody has seen: each leaves out those of its tasks
// that are in none of the states any more, or were inserted or have finished at other times than
// seen has, or have begun since if seen has their state, and checks that in the transaction of the
// change. The verbs take tasks that are in seen, all of them. With dryRun they are those of
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
