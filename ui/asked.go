package ui

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/views"
	"github.com/stint-tasks/stint/ui/internal/charts"
	"github.com/stint-tasks/stint/ui/internal/kept"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/verbs"
)

// An asked store is one that is asked in bounds, and not for each page anew.
type asked struct {
	verbs.Reader
	clock     kept.Clock
	stats     kept.Answer[stint.Stats]
	problems  kept.Answer[troubles]
	actors    kept.Answer[[]stint.ActorInfo]
	limits    *kept.Answer[[]stint.ActionLimits] // nil if the store has no limits
	schedules *kept.Answer[[]stint.ScheduleInfo] // nil if it has no schedules
	graphs    networks
	tasks     kept.Answers[*taskAnswer]
	lists     kept.Answers[stint.TaskPage]
	changes   kept.Answers[stint.ChangePage]
	values    values
	rates     charts.Rates
	checks    checks
	shards    *kept.Answer[[]views.Stats] // nil if the store is not one of shards
	readsAll  *kept.Answer[bool]          // nil if the store shows all tasks to everybody
	change    bulk.SeenChange             // nil if the store cannot say what one would do
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
	// scheduleBytesMax is how many bytes of schedules are read.
	scheduleBytesMax = 64 << 20
)

// askOptions are how a store is asked.
type askOptions struct {
	Clock   func(ctx context.Context) (time.Time, error) // as in [ui.Options]
	Check   func(ctx context.Context) ([]views.Finding, error)
	Timeout time.Duration // of each call
}

// newAsked returns a store that is asked in bounds.
func newAsked(store verbs.Reader, options askOptions) *asked {
	a := &asked{
		Reader: store, change: bulk.AsSeen(store),
		limits: limitsOf(store, options), schedules: schedulesOf(store, options),
		tasks:   kept.Answers[*taskAnswer]{Most: tasksMax, Timeout: options.Timeout},
		lists:   kept.Answers[stint.TaskPage]{Most: listsMax, Timeout: options.Timeout},
		changes: kept.Answers[stint.ChangePage]{Most: listsMax, Timeout: options.Timeout},
	}
	a.graphs.ask = store.Graph
	a.graphs.recent = kept.Answers[*netAnswer]{Most: graphsMax, Timeout: options.Timeout}
	if by, ok := store.(interface {
		ReadsAll(ctx context.Context) (bool, error)
	}); ok {
		a.readsAll = &kept.Answer[bool]{Timeout: options.Timeout, Ask: by.ReadsAll}
	}
	a.values.ask, a.values.briefly = smallTasks(store), a.readsAll != nil
	a.clock.Ask, a.actors.Ask = options.Clock, store.ListActors
	if a.checks.ask = options.Check; options.Check == nil {
		a.checks.ask = checkOf(store)
	}
	a.stats.Timeout, a.problems.Timeout = options.Timeout, options.Timeout
	a.actors.Timeout = options.Timeout
	a.shards = shardsOf(store, options)
	a.stats.Ask = func(ctx context.Context) (stint.Stats, error) {
		stats, err := a.count(ctx)
		if err == nil {
			a.rates.Note(stats, a.clock.Now(ctx))
		}
		return stats, err
	}
	a.problems.Ask = func(ctx context.Context) (troubles, error) { return askTroubles(ctx, store) }
	return a
}

// partly reports whether the store may leave out what whoever asks may not see. If it does not say,
// it may.
func (a *asked) partly(ctx context.Context) bool {
	if a.readsAll == nil {
		return false
	}
	all, err := a.readsAll.Get(ctx)
	return err != nil || !all
}

// count counts tasks.
func (a *asked) count(ctx context.Context) (stint.Stats, error) {
	if a.shards == nil {
		return a.Stats(ctx)
	}
	found, err := a.shards.Get(ctx)
	return views.Sum(found), err
}

func limitsOf(store verbs.Reader, options askOptions) *kept.Answer[[]stint.ActionLimits] {
	limited, ok := store.(verbs.Limiter)
	if !ok {
		return nil
	}
	return &kept.Answer[[]stint.ActionLimits]{
		Timeout: options.Timeout,
		Ask: func(ctx context.Context) ([]stint.ActionLimits, error) {
			return limited.ListLimits(ctx)
		},
	}
}

func schedulesOf(store verbs.Reader, options askOptions) *kept.Answer[[]stint.ScheduleInfo] {
	scheduled, ok := store.(verbs.Scheduler)
	if !ok {
		return nil
	}
	return &kept.Answer[[]stint.ScheduleInfo]{
		Timeout: options.Timeout,
		Ask: func(ctx context.Context) ([]stint.ScheduleInfo, error) {
			if local, ok := store.(remoter); ok { // a service has bounds of its own
				bytes, err := local.Remote().CountScheduleBytes(ctx)
				if err != nil {
					return nil, err
				}
				if bytes > scheduleBytesMax {
					return nil, refuse.ErrManySchedules
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
		tasks[i].Status = strings.Clone(show.FirstWords(tasks[i].Status))
	}
}

// all returns what is known of all tasks together.
func (a *asked) all(
	ctx context.Context,
) (stats stint.Stats, found troubles, actors []stint.ActorInfo, err error) {
	if stats, err = a.stats.Get(ctx); err != nil {
		return stats, found, nil, err
	}
	if found, err = a.problems.Get(ctx); err != nil {
		return stats, found, nil, err
	}
	actors, err = a.actors.Get(ctx)
	return stats, found, actors, err
}

// limitsOf returns the limits of an action, nil if there are none.
func (a *asked) limitsOf(ctx context.Context, action string) (*stint.ActionLimits, error) {
	if a.limits == nil {
		return nil, nil //nolint:nilnil // as the comment says
	}
	all, err := a.limits.Get(ctx)
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
	all, err := a.schedules.Get(ctx)
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
	return a.tasks.Get(ctx, string(id), func(ctx context.Context) (*taskAnswer, error) {
		begun := kept.Now()
		why, err := a.Explain(ctx, id)
		if err != nil {
			return nil, err
		}
		a.clock.Learn(why.Now, begun)
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
	return a.lists.Get(ctx, key, func(ctx context.Context) (stint.TaskPage, error) {
		page, err := a.ListTasks(ctx, filter)
		shorten(page.Tasks)
		return page, err
	})
}

// forget has the store asked anew, after a change.
func (a *asked) forget() {
	a.stats.Forget()
	a.problems.Forget()
	a.tasks.Forget()
	a.lists.Forget()
	a.changes.Forget()
	a.graphs.recent.Forget()
	if a.limits != nil {
		a.limits.Forget()
	}
	if a.schedules != nil {
		a.schedules.Forget()
	}
	if a.shards != nil {
		a.shards.Forget()
	}
}

// forgetNames has the store asked anew for what knows the names of actions and keys.
func (a *asked) forgetNames() {
	a.stats.Forget()
	a.actors.Forget()
	if a.limits != nil {
		a.limits.Forget()
	}
	if a.schedules != nil {
		a.schedules.Forget()
	}
}
