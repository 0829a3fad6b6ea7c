package client

import (
	"context"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/wire"
)

// DryRun is [stint.DryRun], over a service.
type DryRun struct{ client *Client }

// DryRun returns the verbs that only say what they would do.
func (c *Client) DryRun() *DryRun { return &DryRun{c} }

// AbortTasks says what [Client.AbortTasks] would do.
func (d *DryRun) AbortTasks(
	ctx context.Context, ids []stint.TaskID, status string,
) (stint.Affected, error) {
	return d.client.abortTasks(ctx, &stintv1.AbortTasksRequest{
		Ids: wire.FromIDs(ids), Status: status, DryRun: true,
	})
}

// RetryTasks says what [Client.RetryTasks] would do.
func (d *DryRun) RetryTasks(ctx context.Context, ids []stint.TaskID) (stint.Affected, error) {
	return d.client.retryTasks(ctx, &stintv1.RetryTasksRequest{
		Ids: wire.FromIDs(ids), DryRun: true,
	})
}

// DeleteTasks says what [Client.DeleteTasks] would do.
func (d *DryRun) DeleteTasks(ctx context.Context, ids []stint.TaskID) (stint.Affected, error) {
	return d.client.deleteTasks(ctx, &stintv1.DeleteTasksRequest{
		Ids: wire.FromIDs(ids), DryRun: true,
	})
}

// ChangeTasks says what [Client.ChangeTasks] would do.
func (d *DryRun) ChangeTasks(
	ctx context.Context, ids []stint.TaskID, to stint.TaskChanges,
) (stint.Affected, error) {
	return d.client.changeTasks(ctx, &stintv1.ChangeTasksRequest{
		Ids: wire.FromIDs(ids), To: wire.FromTaskChanges(to), DryRun: true,
	})
}
