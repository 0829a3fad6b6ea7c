package ui

import (
	"context"
	"strconv"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/verbs"
)

// readOthers reads from a form with how many tasks that depend on others somebody has agreed to.
func readOthers(r *request) (int, error) {
	n, err := strconv.Atoi(r.PostForm.Get("others"))
	if err != nil || n < 0 {
		return 0, refuse.ErrBadForm
	}
	return n, nil
}

// changeAgreed makes a change of tasks, unless it takes more others with it than somebody has
// agreed to. In a transaction of this process that undoes it. Elsewhere a dry run just before it
// tells, so that what comes between the two is not noticed.
func (h *Handler) changeAgreed(
	ctx context.Context, states []stint.State, tasks []bulk.Task, others int, change bulk.Change,
) (stint.Affected, []bulk.Refusal, error) {
	bounded := func(
		by verbs.Changer, ctx context.Context, ids []stint.TaskID,
	) (stint.Affected, error) {
		affected, err := change(by, ctx, ids)
		if err == nil && affected.Others > others {
			err = refuse.ErrMoreNow
		}
		return affected, err
	}
	run := func(dryRun bool, change bulk.Change) (stint.Affected, []bulk.Refusal, error) {
		return h.asked.LeavingOut(ctx, tasks,
			func(ctx context.Context, tasks []bulk.Task) (stint.Affected, error) {
				return h.asked.Change(ctx, states, tasks, dryRun, change)
			})
	}
	if _, ok := h.asked.Reader.(interface{ DryRun() *stint.DryRun }); ok &&
		!h.ofShards() { // a dry run does not count the tasks of others
		return run(false, bounded)
	}
	if affected, refused, err := run(true, change); err != nil {
		return affected, refused, err
	} else if affected.Others > others {
		return affected, refused, refuse.ErrMoreNow
	}
	return run(false, change)
}
