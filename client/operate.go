package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/views"
)

// longMax is how long an attempt may take of a call that reads or prunes whole tables, or changes
// any number of tasks: those that are named, and those that change with them. A network that is
// frozen is noticed sooner.
const longMax = 24 * time.Hour

// PruneTasks deletes finished tasks of these ages and returns how many, as [stint.Store.Prune] of a
// store with this retention. Both ages must be set: to a time, [stint.KeepForever] or
// [stint.KeepNone]. A dry run changes nothing, and says how many tasks would be deleted; see
// stint help prune.
//
// It may take minutes, in which no proxy must cut the connection off. If the answer to an attempt
// was lost, the result lacks what that attempt has deleted. If ctx ends, tasks may have been
// deleted; the call may be repeated.
func (c *Client) PruneTasks(
	ctx context.Context, keep stint.Retention, dryRun bool,
) (pruned int64, err error) {
	request := &stintv1.PruneTasksRequest{DryRun: dryRun}
	for _, age := range []struct {
		keep time.Duration
		into **durationpb.Duration
	}{{keep.Completed, &request.Completed}, {keep.Aborted, &request.Aborted}} {
		switch age.keep {
		case 0:
			return 0, said("prune tasks", optionError("Retention", "both ages must be set: to a "+
				"time, KeepForever or KeepNone"))
		case stint.KeepForever:
		case stint.KeepNone:
			*age.into = durationpb.New(0)
		default:
			*age.into = durationpb.New(age.keep)
		}
	}
	for finished := false; !finished && err == nil; {
		err = c.repeat(ctx, longMax, func(ctx context.Context, _ bool) error {
			response, err := c.tasks.PruneTasks(ctx, request)
			pruned += response.GetPruned()
			finished = response.GetFinished()
			return err
		})
	}
	return pruned, said("prune tasks", err)
}

// A Finding is something that [Client.Check] has found: its Severity (error: a fault; warning: it
// calls for action; note: for information), its Topic, its Text, which says what is wrong and what
// to do about it, and the ID of the task that it is about, if there is one.
type Finding = views.Finding

// Check looks for what is wrong with the tables of the service's store and with its database
// server, as stint check does, and returns the findings, the worst first. It changes nothing, and
// reads all tables from end to end: a second per hundred thousand tasks, in which no proxy must cut
// the connection off.
func (c *Client) Check(ctx context.Context) (findings []Finding, err error) {
	err = c.repeat(ctx, longMax, func(ctx context.Context, _ bool) error {
		response, err := c.tasks.CheckStore(ctx, &stintv1.CheckStoreRequest{})
		findings = nil
		for _, f := range response.GetFindings() {
			findings = append(findings, Finding{
				Severity: f.GetSeverity(), Topic: f.GetTopic(), Text: f.GetText(),
				ID: stint.TaskID(f.GetId()),
			})
		}
		return err
	})
	return findings, said("check", err)
}
