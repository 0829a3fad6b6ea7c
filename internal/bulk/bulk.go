// Package bulk changes many tasks of others on the strength of what somebody has seen of them: it
// finds them by a filter, changes those that still are as they were, and leaves out those because
// of which the change is refused.
package bulk

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/verbs"
)

// A Change is what is done to tasks by one of the verbs, such as [verbs.Changer.RetryTasks].
type Change func(by verbs.Changer, ctx context.Context, ids []stint.TaskID) (stint.Affected, error)

// Aborting is the change by AbortTasks with a status.
func Aborting(status string) Change {
	return func(
		by verbs.Changer, ctx context.Context, ids []stint.TaskID,
	) (stint.Affected, error) {
		return by.AbortTasks(ctx, ids, status)
	}
}

// Changing is the change by ChangeTasks.
func Changing(to stint.TaskChanges) Change {
	return func(
		by verbs.Changer, ctx context.Context, ids []stint.TaskID,
	) (stint.Affected, error) {
		return by.ChangeTasks(ctx, ids, to)
	}
}

// Abortable are the states of tasks that can be aborted: those that have not ended.
func Abortable() []stint.State {
	return []stint.State{
		stint.StateInProgress, stint.StateReady, stint.StateScheduled, stint.StateBlocked,
	}
}

// Deletable are all states but in progress.
func Deletable() []stint.State {
	return []stint.State{
		stint.StateReady, stint.StateScheduled, stint.StateBlocked, stint.StateAborted,
		stint.StateCompleted, stint.StateSkipped,
	}
}

// Changeable are the states of tasks that wait.
func Changeable() []stint.State {
	return []stint.State{stint.StateReady, stint.StateScheduled, stint.StateBlocked}
}

// Retryable are the states of tasks that can be opened again.
func Retryable() []stint.State {
	return []stint.State{stint.StateAborted, stint.StateCompleted, stint.StateSkipped}
}

// A Task is a task as it was when it was seen.
type Task struct {
	ID                 stint.TaskID
	Inserted, Finished time.Time
	State              stint.State // empty if it does not matter
}

// NewTask is a task as it was seen.
func NewTask(info *stint.TaskInfo) Task {
	return Task{info.ID, info.InsertedAt, info.FinishedAt, info.State}
}

// IDs are those of tasks.
func IDs(tasks []Task) []stint.TaskID {
	ids := make([]stint.TaskID, len(tasks))
	for i := range tasks {
		ids[i] = tasks[i].ID
	}
	return ids
}

// Infos are tasks as [Unchanged] takes them.
func Infos(tasks []Task) []stint.TaskInfo {
	infos := make([]stint.TaskInfo, len(tasks))
	for i, task := range tasks {
		infos[i] = stint.TaskInfo{
			ID: task.ID, InsertedAt: task.Inserted, FinishedAt: task.Finished, State: task.State,
		}
	}
	return infos
}

// Found are the tasks that pass a filter, each once, in the order of their IDs.
type Found struct {
	Tasks []Task
	// Skipped is how many of them were left out.
	Skipped int
	// More says that the search stopped before it had looked at all tasks. Behind Next are those at
	// which it has not looked, and perhaps some of the others.
	More bool
	Next stint.Cursor
}

// Find returns the tasks that pass a filter, but those that skip leaves out. It stops when it has
// found most of them, if that is not 0, or when enough says so between two looks. It takes some 200
// bytes of memory for each.
func Find(
	ctx context.Context, store verbs.Reader, filter stint.Filter, most int,
	skip func(task *stint.TaskInfo) bool, enough func() bool,
) (found Found, err error) {
	const pageTasksMax = 1000
	filter.Limit = pageTasksMax
	for {
		page, err := store.ListTasks(ctx, filter)
		if err != nil {
			return Found{}, err
		}
		for i := range page.Tasks {
			switch task := &page.Tasks[i]; {
			case skip != nil && skip(task):
				found.Skipped++
			case most > 0 && len(found.Tasks) == most:
				found.More = true
			default:
				found.Tasks = append(found.Tasks, NewTask(task))
			}
		}
		if found.More {
			found.Next = filter.After
			break
		}
		filter.After = page.Next
		if found.More = page.Next != "" && enough != nil && enough(); found.More {
			found.Next = page.Next
		}
		if found.More || page.Next == "" {
			break
		}
	}
	byID := func(a, b Task) int { return strings.Compare(string(a.ID), string(b.ID)) }
	slices.SortFunc(found.Tasks, byID)
	same := func(a, b Task) bool { return a.ID == b.ID }
	found.Tasks = slices.CompactFunc(found.Tasks, same)
	return found, nil
}

// Unchanged makes a change of those tasks that still are as they were seen. The store is that of
// the transaction, and by what makes the change in it.
func Unchanged(
	ctx context.Context, store *stint.Store, by verbs.Changer, states []stint.State, tasks []Task,
	change Change,
) (affected stint.Affected, err error) {
	still, err := Still(ctx, store, states, Infos(tasks))
	if err != nil || len(still) == 0 {
		return affected, err
	}
	return change(by, ctx, still)
}
