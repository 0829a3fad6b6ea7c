package ui

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/views"
	"github.com/stint-tasks/stint/verbs"
)

// An asked store is one that is asked in bounds, and not for each page anew.
type asked struct {
	Store
	clock     databaseClock
	stats     shared[stint.Stats]
	problems  shared[troubles]
	actors    shared[[]stint.ActorInfo]
	limits    *shared[[]stint.ActionLimits] // nil if the store has no limits
	schedules *shared[[]stint.ScheduleInfo] // nil if it has no schedules
	graphs    graphs
	places    recent[*places]
	tasks     recent[*taskAnswer]
	lists     recent[stint.TaskPage]
	changes   recent[stint.ChangePage]
	values    values
	rates     rates
	checks    checks
	shards    *shared[[]views.Stats] // nil if the store is not one of shards
	readsAll  *shared[bool]          // nil if the store shows all tasks to everybody
	change    taskChange             // nil if the store cannot say what one would do
}

const (
	problemsMax = 100 // of each kind
	// countedErrorsMax is how many failed tasks the groups of errors count.
	countedErrorsMax = 1000
	// tasksMax, listsMax and graphsMax are how many answers about tasks, of lists, and about
	// networks are kept for those who ask the same.
	tasksMax  = 64
	listsMax  = 16
	graphsMax = 8
	// placesMax is how many large pictures are kept.
	placesMax = 4
	// scheduleBytesMax is how many bytes of schedules are read.
	scheduleBytesMax = 64 << 20
)

func newAsked(store Store, options Options) *asked {
	a := &asked{
		Store: store, change: bulk.AsSeen(store),
		limits: limitsOf(store, options), schedules: schedulesOf(store, options),
		tasks:   recent[*taskAnswer]{most: tasksMax, timeout: options.Timeout},
		lists:   recent[stint.TaskPage]{most: listsMax, timeout: options.Timeout},
		changes: recent[stint.ChangePage]{most: listsMax, timeout: options.Timeout},
	}
	a.places = recent[*places]{most: placesMax, timeout: options.Timeout}
	a.graphs.ask = store.Graph
	a.graphs.recent = recent[*netAnswer]{most: graphsMax, timeout: options.Timeout}
	if by, ok := store.(interface {
		ReadsAll(ctx context.Context) (bool, error)
	}); ok {
		a.readsAll = &shared[bool]{timeout: options.Timeout, ask: by.ReadsAll}
	}
	a.values.ask, a.values.briefly = smallTasks(store), a.readsAll != nil
	a.clock.ask, a.actors.ask = options.Clock, store.ListActors
	if a.checks.ask = options.Check; options.Check == nil {
		a.checks.ask = checkOf(store)
	}
	a.stats.timeout, a.problems.timeout = options.Timeout, options.Timeout
	a.actors.timeout = options.Timeout
	a.shards = shardsOf(store, options)
	a.stats.ask = func(ctx context.Context) (stint.Stats, error) {
		stats, err := a.count(ctx)
		if err == nil {
			a.rates.note(stats, a.clock.now(ctx))
		}
		return stats, err
	}
	a.problems.ask = func(ctx context.Context) (troubles, error) { return askTroubles(ctx, store) }
	return a
}

// partly reports whether the store may leave out what whoever asks may not see. If it does not say,
// it may.
func (a *asked) partly(ctx context.Context) bool {
	if a.readsAll == nil {
		return false
	}
	all, err := a.readsAll.get(ctx)
	return err != nil || !all
}

// count counts tasks.
func (a *asked) count(ctx context.Context) (stint.Stats, error) {
	if a.shards == nil {
		return a.Stats(ctx)
	}
	found, err := a.shards.get(ctx)
	return views.Sum(found), err
}

func limitsOf(store Store, options Options) *shared[[]stint.ActionLimits] {
	limited, ok := store.(verbs.Limiter)
	if !ok {
		return nil
	}
	return &shared[[]stint.ActionLimits]{
		timeout: options.Timeout,
		ask: func(ctx context.Context) ([]stint.ActionLimits, error) {
			return limited.ListLimits(ctx)
		},
	}
}

func schedulesOf(store Store, options Options) *shared[[]stint.ScheduleInfo] {
	scheduled, ok := store.(verbs.Scheduler)
	if !ok {
		return nil
	}
	return &shared[[]stint.ScheduleInfo]{
		timeout: options.Timeout,
		ask: func(ctx context.Context) ([]stint.ScheduleInfo, error) {
			if local, ok := store.(remoter); ok { // a service has bounds of its own
				bytes, err := local.Remote().CountScheduleBytes(ctx)
				if err != nil {
					return nil, err
				}
				if bytes > scheduleBytesMax {
					return nil, errManySchedules
				}
			}
			found, err := scheduled.ListSchedules(ctx)
			for i := range found { // the bodies are not shown
				tasks := slices.Clone(found[i].Tasks)
				for k := range tasks {
					tasks[k].Body = nil
				}
				found[i].Tasks = tasks
			}
			return found, err
		},
	}
}

// A remoter has the verbs that services ask a store by, some of which are bounded.
type remoter interface{ Remote() *stint.Remote }

// shorten leaves the first words of what owners said, which may be 64 KiB of each task.
func shorten(tasks []stint.TaskInfo) {
	for i := range tasks {
		tasks[i].Status = strings.Clone(firstWords(tasks[i].Status))
	}
}

// all returns what is known of all tasks together.
func (a *asked) all(
	ctx context.Context,
) (stats stint.Stats, found troubles, actors []stint.ActorInfo, err error) {
	if stats, err = a.stats.get(ctx); err != nil {
		return stats, found, nil, err
	}
	if found, err = a.problems.get(ctx); err != nil {
		return stats, found, nil, err
	}
	actors, err = a.actors.get(ctx)
	return stats, found, actors, err
}

// has reports whether the store has the verbs of a page.
func (a *asked) has(page string) bool {
	switch page {
	case "limits":
		return a.limits != nil
	case "schedules":
		return a.schedules != nil
	case "check", "begin-check":
		return a.checks.ask != nil
	case "shards":
		return a.shards != nil
	case "changes":
		_, ok := a.Store.(verbs.Auditor)
		return ok && a.shards == nil // each shard has a list of its own
	}
	return true
}

// limitsOf returns the limits of an action, nil if there are none.
func (a *asked) limitsOf(ctx context.Context, action string) (*stint.ActionLimits, error) {
	if a.limits == nil {
		return nil, nil //nolint:nilnil // as the comment says
	}
	all, err := a.limits.get(ctx)
	i := slices.IndexFunc(all, func(l stint.ActionLimits) bool { return l.Action == action })
	if err != nil || i < 0 {
		return nil, err
	}
	return &all[i], nil
}

// schedulesOf returns the schedules that insert tasks with an action, as far as they are known.
func (a *asked) schedulesOf(ctx context.Context, action string) (of []stint.ScheduleInfo) {
	if a.schedules == nil {
		return nil
	}
	all, err := a.schedules.get(ctx)
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

// A taskAnswer is what the store knows of a task, without its body and result.
type taskAnswer struct {
	why     stint.Explanation
	history stint.History
	changed []stint.Change
}

// task returns what the store knows of a task.
func (a *asked) task(ctx context.Context, id stint.TaskID) (*taskAnswer, error) {
	return a.tasks.get(ctx, string(id), func(ctx context.Context) (*taskAnswer, error) {
		begun := processNow()
		why, err := a.Explain(ctx, id)
		if err != nil {
			return nil, err
		}
		a.clock.learn(why.Now, begun)
		history, err := a.History(ctx, id)
		if err != nil {
			return nil, err
		}
		shorten(why.WaitsFor)
		shorten(why.BecauseOf)
		why.Task.Status = tail(why.Task.Status)
		history.Tries = history.Tries[max(len(history.Tries)-triesMax, 0):]
		for i := range history.Tries {
			try := &history.Tries[i]
			try.Status, try.Log = tail(try.Status), tail(try.Log)
		}
		return &taskAnswer{why, history, a.changesOf(ctx, id)}, nil
	})
}

// list returns a page of tasks.
func (a *asked) list(ctx context.Context, filter stint.Filter) (stint.TaskPage, error) {
	key := fmt.Sprintf("%#v", filter)
	return a.lists.get(ctx, key, func(ctx context.Context) (stint.TaskPage, error) {
		page, err := a.ListTasks(ctx, filter)
		shorten(page.Tasks)
		return page, err
	})
}

// forget has the store asked anew, after a change.
func (a *asked) forget() {
	a.stats.forget()
	a.problems.forget()
	a.tasks.forget()
	a.lists.forget()
	a.changes.forget()
	a.graphs.recent.forget()
	if a.limits != nil {
		a.limits.forget()
	}
	if a.schedules != nil {
		a.schedules.forget()
	}
	if a.shards != nil {
		a.shards.forget()
	}
}
