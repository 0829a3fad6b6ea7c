// Package ask asks the store for what pages show: in bounds, and not for each page anew.
package ask

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/views"
	"github.com/stint-tasks/stint/ui/internal/charts"
	"github.com/stint-tasks/stint/ui/internal/kept"
	"github.com/stint-tasks/stint/verbs"
)

// A Store is one that is asked in bounds, and not for each page anew.
type Store struct {
	verbs.Reader
	Clock       kept.Clock
	Counts      kept.Answer[stint.Stats]
	Troubles    kept.Answer[Troubles]
	Strays      kept.Answer[Strays] // not of all shards, which have orders of their own
	Actors      kept.Answer[[]stint.ActorInfo]
	Limits      *kept.Answer[[]stint.ActionLimits] // nil if the store has no limits
	Schedules   *kept.Answer[[]stint.ScheduleInfo] // nil if it has no schedules
	Graphs      Networks
	tasks       kept.Answers[*TaskAnswer]
	lists       kept.Answers[stint.TaskPage]
	changes     kept.Answers[stint.ChangePage]
	days        kept.Answers[[]stint.Minute]
	asked       kept.Answers[asking]
	pauses      pauseNotes
	Values      Values
	Rates       charts.Rates
	Checks      Checks
	ShardCounts *kept.Answer[[]views.Stats] // nil if the store is not one of shards
	readsAll    *kept.Answer[bool]          // nil if the store shows all tasks to everybody
	Change      bulk.SeenChange             // nil if the store cannot say what one would do
}

const (
	// tasksMax and listsMax are how many answers about tasks and of lists are kept for those who
	// ask the same.
	tasksMax = 64
	listsMax = 16
)

// Partly reports whether the store may leave out what whoever asks may not see. If it does not say,
// it may.
func (a *Store) Partly(ctx context.Context) bool {
	if a.readsAll == nil {
		return false
	}
	all, err := a.readsAll.Get(ctx)
	return err != nil || !all
}

// All returns what is known of all tasks together.
func (a *Store) All(
	ctx context.Context,
) (stats stint.Stats, found Troubles, actors []stint.ActorInfo, err error) {
	if stats, err = a.Counts.Get(ctx); err != nil {
		return stats, found, nil, err
	}
	if found, err = a.Troubles.Get(ctx); err != nil {
		return stats, found, nil, err
	}
	actors, err = a.Actors.Get(ctx)
	return stats, found, actors, err
}

// LimitsOf returns the limits of an action, nil if there are none.
func (a *Store) LimitsOf(ctx context.Context, action string) (*stint.ActionLimits, error) {
	if a.Limits == nil {
		return nil, nil //nolint:nilnil // as the comment says
	}
	all, err := a.Limits.Get(ctx)
	i := slices.IndexFunc(all, func(l stint.ActionLimits) bool { return l.Action == action })
	if err != nil || i < 0 {
		return nil, err
	}
	return &all[i], nil
}

// SchedulesOf returns the schedules that insert tasks with an action, as far as they are known.
func (a *Store) SchedulesOf(ctx context.Context, action string) (of []stint.ScheduleInfo) {
	if a.Schedules == nil {
		return nil
	}
	all, err := a.Schedules.Get(ctx)
	if err != nil { // their page says why
		return nil
	}
	for i := range all {
		if slices.ContainsFunc(all[i].Tasks, func(task stint.Task) bool {
			return task.Action == action
		}) {
			of = append(of, all[i])
		}
	}
	return of
}

// A TaskAnswer is what the store knows of a task, without its body and result.
type TaskAnswer struct {
	Why        stint.Explanation
	History    stint.History
	TriesCut   int // how many tries the history lacks: the oldest that the store keeps
	Changed    []stint.Change
	ChangesCut bool // there are older ones of the task
}

const (
	// triesMax is how many tries are shown, the latest ones.
	triesMax = 100
	// taskChangesMax is how many changes of a task its page tells of, the latest ones.
	taskChangesMax = 50
)

// Task returns what the store knows of a task.
func (a *Store) Task(ctx context.Context, id stint.TaskID) (*TaskAnswer, error) {
	return a.tasks.Get(ctx, string(id), func(ctx context.Context) (*TaskAnswer, error) {
		begun := kept.Now()
		why, err := a.Explain(ctx, id)
		if err != nil {
			return nil, err
		}
		a.Clock.Learn(why.Now, begun)
		history, err := a.History(ctx, id)
		if err != nil {
			return nil, err
		}
		shorten(why.WaitsFor)
		shorten(why.BecauseOf)
		why.Task.Status = tail(why.Task.Status)
		cut := max(len(history.Tries)-triesMax, 0)
		history.Tries = history.Tries[cut:]
		for i := range history.Tries {
			try := &history.Tries[i]
			try.Status, try.Log = tail(try.Status), tail(try.Log)
		}
		changed := a.ChangesOf(ctx, id)
		return &TaskAnswer{
			Why: why, History: history, TriesCut: cut, Changed: changed.Changes,
			ChangesCut: changed.Next != "" && isOfTask(&changed, why.Task.InsertedAt),
		}, nil
	})
}

// isOfTask reports whether all of some changes are of the task that was inserted then: older ones
// are of another task with its ID.
func isOfTask(changed *stint.ChangePage, inserted time.Time) bool {
	n := len(changed.Changes)
	return n > 0 && !changed.Changes[n-1].At.Before(inserted)
}

// ChangesOf returns who has changed a task lately; nothing where the store does not tell: the rest
// of the page is worth showing.
func (a *Store) ChangesOf(ctx context.Context, id stint.TaskID) stint.ChangePage {
	by, ok := a.Reader.(verbs.Auditor)
	if !ok {
		return stint.ChangePage{}
	}
	page, err := a.changes.Get(ctx, "of "+string(id),
		func(ctx context.Context) (stint.ChangePage, error) {
			return by.ListChanges(ctx, stint.ChangeFilter{ID: id, Limit: taskChangesMax})
		})
	if err != nil {
		return stint.ChangePage{}
	}
	return page
}

// Changes returns a page of changes. It is for stores that tell of them.
func (a *Store) Changes(
	ctx context.Context, filter stint.ChangeFilter,
) (stint.ChangePage, error) {
	by, _ := a.Reader.(verbs.Auditor)
	return a.changes.Get(ctx, fmt.Sprintf("%#v", filter),
		func(ctx context.Context) (stint.ChangePage, error) { return by.ListChanges(ctx, filter) })
}

// List returns a page of tasks.
func (a *Store) List(ctx context.Context, filter stint.Filter) (stint.TaskPage, error) {
	key := fmt.Sprintf("%#v", filter)
	return a.lists.Get(ctx, key, func(ctx context.Context) (stint.TaskPage, error) {
		page, err := a.ListTasks(ctx, filter)
		shorten(page.Tasks)
		return page, err
	})
}

// Forget has the store asked anew, after a change.
func (a *Store) Forget() {
	a.Counts.Forget()
	a.Troubles.Forget()
	a.Strays.Forget()
	a.tasks.Forget()
	a.lists.Forget()
	a.changes.Forget()
	a.Graphs.recent.Forget()
	a.Graphs.large.Forget()
	if a.Limits != nil {
		a.Limits.Forget()
	}
	if a.Schedules != nil {
		a.Schedules.Forget()
	}
	if a.ShardCounts != nil {
		a.ShardCounts.Forget()
	}
}

// ForgetNames has the store asked anew for what knows the names of actions and keys.
func (a *Store) ForgetNames() {
	a.Counts.Forget()
	a.Actors.Forget()
	if a.Limits != nil {
		a.Limits.Forget()
	}
	if a.Schedules != nil {
		a.Schedules.Forget()
	}
}
