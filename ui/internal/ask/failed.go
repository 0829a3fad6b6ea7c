package ask

import (
	"context"
	"slices"

	"github.com/stint-tasks/stint"
)

// ErrorsOf are the groups of errors of an action: those of all problems or, where these are too
// many to be counted, those among the first of its aborted tasks.
func (a *Store) ErrorsOf(
	ctx context.Context, found *Troubles, action string,
) (groups []stint.ErrorGroup, err error) {
	for _, group := range found.Errors {
		if group.Action == action {
			groups = append(groups, group)
		}
	}
	if len(groups) > 0 || !found.Full {
		return groups, nil
	}
	failed, err := a.FailedOf(ctx, action)
	at := map[string]int{}
	for i := range failed {
		key := GroupOf(action, failed[i].Status)
		n, ok := at[key]
		if !ok {
			n, at[key] = len(groups), len(groups)
			groups = append(groups, stint.ErrorGroup{
				Action: action, Error: failed[i].Status, Example: failed[i].ID,
			})
		}
		groups[n].Tasks++
	}
	return groups, err
}

// FailedOf are the first of the tasks of an action that failed and say why.
func (a *Store) FailedOf(ctx context.Context, action string) ([]stint.TaskInfo, error) {
	page, err := a.List(ctx, stint.Filter{
		Actions: []string{action}, States: []stint.State{stint.StateAborted},
		Limit: CountedErrorsMax,
	})
	causes := []stint.AbortCause{
		stint.CauseReturned, stint.CauseTries, stint.CauseExpired, stint.CauseLost,
	}
	return slices.DeleteFunc(slices.Clone(page.Tasks), func(task stint.TaskInfo) bool {
		return task.Status == "" || !slices.Contains(causes, task.AbortCause)
	}), err
}
