package ask

import (
	"context"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/show"
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
	if len(groups) > 0 || !found.ErrorsCut {
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

// failedAtLeast is how many tasks that failed alike are looked for at once, lookedMost how many
// tasks are looked through for that, and lookedAtOnce how many of these are asked for.
const (
	failedAtLeast = 100
	lookedMost    = 10_000
	lookedAtOnce  = 500
)

// An AlikePage is some of the tasks that failed alike.
type AlikePage struct {
	Tasks  []stint.TaskInfo
	Next   stint.Cursor // empty if there are no more
	Looked int          // how many aborted tasks were looked through
	Since  time.Time    // when the last of these ended that has the action
}

// FailedAlike looks for the aborted tasks of an action that are of a group of errors, the newest
// first, behind a cursor.
func (a *Store) FailedAlike(
	ctx context.Context, action, group string, after stint.Cursor,
) (found AlikePage, err error) {
	found.Next = after
	for {
		page, err := a.ListTasks(ctx, stint.Filter{
			Actions: []string{action}, States: []stint.State{stint.StateAborted},
			After: found.Next, Limit: lookedAtOnce,
		})
		if err != nil {
			return found, err
		}
		for i := range page.Tasks {
			task := &page.Tasks[i]
			found.Since = task.FinishedAt
			// A group of an action was named after the first words of a task.
			if hasFailed(task) && (GroupOf(action, task.Status) == group ||
				GroupOf(action, show.FirstWords(task.Status)) == group) {
				found.Tasks = append(found.Tasks, *task)
			}
		}
		found.Next, found.Looked = page.Next, found.Looked+page.Looked
		if page.Next == "" || len(found.Tasks) >= failedAtLeast || found.Looked >= lookedMost {
			shorten(found.Tasks)
			return found, nil
		}
	}
}

// hasFailed reports whether an aborted task failed itself, and somebody said why.
func hasFailed(task *stint.TaskInfo) bool {
	return task.Status != "" && slices.Contains([]stint.AbortCause{
		stint.CauseReturned, stint.CauseTries, stint.CauseExpired, stint.CauseLost,
	}, task.AbortCause)
}

// FailedOf are the first of the tasks of an action that failed and say why.
func (a *Store) FailedOf(ctx context.Context, action string) ([]stint.TaskInfo, error) {
	page, err := a.List(ctx, stint.Filter{
		Actions: []string{action}, States: []stint.State{stint.StateAborted},
		Limit: askedMax,
	})
	return slices.DeleteFunc(slices.Clone(page.Tasks), func(task stint.TaskInfo) bool {
		return !hasFailed(&task)
	}), err
}
