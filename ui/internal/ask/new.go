package ask

import (
	"context"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/views"
	"github.com/stint-tasks/stint/ui/internal/kept"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/verbs"
)

// Options are how a store is asked.
type Options struct {
	Clock   func(ctx context.Context) (time.Time, error)       // nil: this process has it
	Check   func(ctx context.Context) ([]views.Finding, error) // nil: as the store does
	Timeout time.Duration                                      // of each call
}

// New returns a store that is asked in bounds.
func New(store verbs.Reader, options Options) *Store {
	a := &Store{
		Reader: store, Change: bulk.AsSeen(store),
		Limits: limitsOf(store, options), Schedules: schedulesOf(store, options),
		tasks:   kept.Answers[*TaskAnswer]{Most: tasksMax, Timeout: options.Timeout},
		lists:   kept.Answers[stint.TaskPage]{Most: listsMax, Timeout: options.Timeout},
		changes: kept.Answers[stint.ChangePage]{Most: listsMax, Timeout: options.Timeout},
		days:    kept.Answers[[]stint.Minute]{Most: daysMax, Timeout: options.Timeout},
		asked:   kept.Answers[asking]{Most: listsMax, Timeout: options.Timeout},
	}
	a.Graphs.ask = store.Graph
	a.Graphs.recent = kept.Answers[*netAnswer]{Most: graphsMax, Timeout: options.Timeout}
	a.Graphs.large = kept.Answers[*stint.Graph]{Most: largeMax, Timeout: options.Timeout}
	if local, ok := store.(remoter); ok {
		a.Graphs.askLarge = func(ctx context.Context, id stint.TaskID) (*stint.Graph, error) {
			return local.Remote().Graph(ctx, id, largeTasksMax)
		}
	}
	if by, ok := store.(interface {
		ReadsAll(ctx context.Context) (bool, error)
	}); ok {
		a.readsAll = &kept.Answer[bool]{Timeout: options.Timeout, Ask: by.ReadsAll}
	}
	a.Values.ask, a.Values.briefly = smallTasks(store), a.readsAll != nil
	a.Clock.Ask, a.Actors.Ask = options.Clock, store.ListActors
	if a.Checks.Ask = options.Check; options.Check == nil {
		a.Checks.Ask = checkOf(store)
	}
	a.Counts.Timeout, a.Troubles.Timeout = options.Timeout, options.Timeout
	a.Actors.Timeout = options.Timeout
	a.ShardCounts = shardsOf(store, options.Timeout)
	a.Counts.Ask = func(ctx context.Context) (stint.Stats, error) {
		stats, err := a.count(ctx)
		if err == nil {
			a.Rates.Note(stats, a.Clock.Now(ctx))
		}
		return stats, err
	}
	a.Troubles.Ask = func(ctx context.Context) (Troubles, error) { return askTroubles(ctx, store) }
	a.Strays.Ask, a.Strays.Timeout = a.askStrays, options.Timeout
	return a
}

// count counts tasks.
func (a *Store) count(ctx context.Context) (stint.Stats, error) {
	if a.ShardCounts == nil {
		return a.Stats(ctx)
	}
	found, err := a.ShardCounts.Get(ctx)
	return views.Sum(found), err
}

func limitsOf(store verbs.Reader, options Options) *kept.Answer[[]stint.ActionLimits] {
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

func schedulesOf(store verbs.Reader, options Options) *kept.Answer[[]stint.ScheduleInfo] {
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

// scheduleBytesMax is how many bytes of schedules are read.
const scheduleBytesMax = 64 << 20
