package ask

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/listing"
	"github.com/stint-tasks/stint/ui/internal/show"
)

const (
	// farAhead is how far ahead a task is scheduled that nobody may have meant so.
	farAhead = 366 * 24 * time.Hour
	// straysMax is how many tasks are looked at, of each kind or action.
	straysMax = 100
	// untoldMax is how many actions are looked at for aborted tasks of which nothing else tells.
	untoldMax = 5
)

// Strays are scheduled tasks at either end of their order.
type Strays struct {
	Due     *stint.TaskInfo  // that was to start first; nil if there is none
	Far     []stint.TaskInfo // that are to start in more than a year, the nearest first
	FarMore bool             // there are more than these
	FarLink string           // to them
}

// askStrays asks for scheduled tasks. It takes two steps along an index.
func (a *Store) askStrays(ctx context.Context) (s Strays, err error) {
	filter := stint.Filter{States: []stint.State{stint.StateScheduled}, Limit: 1}
	first, err := a.ListTasks(ctx, filter)
	if err != nil || len(first.Tasks) == 0 {
		return s, err
	}
	shorten(first.Tasks)
	s.Due = &first.Tasks[0]
	after := listing.ScheduledAfter(a.Clock.Now(ctx).Add(farAhead))
	filter.After, filter.Limit = stint.Cursor(after), straysMax
	far, err := a.ListTasks(ctx, filter)
	if err == nil && len(far.Tasks) > 0 {
		shorten(far.Tasks)
		s.Far, s.FarMore = far.Tasks, far.Next != ""
		s.FarLink = show.Link("tasks", "state", string(stint.StateScheduled), "after", after)
	}
	return s, err
}

// An Untold is tasks of an action of whose abort no group of errors tells: others were the cause,
// or nobody said anything.
type Untold struct {
	Action  string
	Cause   stint.AbortCause
	Tasks   int
	OrMore  bool         // not all aborted tasks of the action were looked at
	Example stint.TaskID // one of them
}

// Untold are those of the actions with more aborted tasks than groups of errors tell of, beside
// tasks that are tried again.
func (a *Store) Untold(ctx context.Context, stats stint.Stats, found *Troubles) (all []Untold) {
	told := map[string]int64{}
	for i := range found.Errors {
		told[found.Errors[i].Action] += int64(found.Errors[i].Tasks)
	}
	for action, tasks := range found.failing {
		told[action] = max(told[action]-tasks, 0)
	}
	more := slices.DeleteFunc(slices.Clone(stats.Actions), func(s stint.ActionStats) bool {
		return s.Aborted <= told[s.Action]
	})
	slices.SortStableFunc(more, func(a, b stint.ActionStats) int {
		return cmp.Compare(b.Aborted-told[b.Action], a.Aborted-told[a.Action])
	})
	for i := range more[:min(len(more), untoldMax)] {
		page, err := a.List(ctx, stint.Filter{
			Actions: []string{more[i].Action}, States: []stint.State{stint.StateAborted},
			Limit: straysMax,
		})
		if err != nil { // the rest of the page is worth showing
			continue
		}
		all = append(all, untoldOf(more[i].Action, page)...)
	}
	return all
}

// untoldOf are those of a page of aborted tasks of an action, by their causes.
func untoldOf(action string, page stint.TaskPage) (all []Untold) {
	for _, cause := range []stint.AbortCause{
		stint.CauseDependency, stint.CauseExpired, stint.CauseLost, stint.CauseTries,
		stint.CauseReturned,
	} {
		u := Untold{Action: action, Cause: cause, OrMore: page.Next != ""}
		for k := range page.Tasks {
			task := &page.Tasks[k]
			isUntold := cause == stint.CauseDependency || task.Status == ""
			if task.AbortCause == cause && isUntold {
				u.Tasks, u.Example = u.Tasks+1, cmp.Or(u.Example, task.ID)
			}
		}
		if u.Tasks > 0 {
			all = append(all, u)
		}
	}
	return all
}
