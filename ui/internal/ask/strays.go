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
	// cascadesMax is how many actions are looked at for tasks that were aborted because of others.
	cascadesMax = 5
)

// Strays are scheduled tasks at either end of their order.
type Strays struct {
	Due     *stint.TaskInfo  // that was to start first; nil if there is none
	Far     []stint.TaskInfo // that are to start in more than a year, the nearest first
	FarMore bool             // there are more than these
	FarLink string           // to them
}

// askStrays asks for scheduled tasks; for none where it cannot be asked for all. It takes two steps
// along an index.
func (a *Store) askStrays(ctx context.Context) (s Strays) {
	if a.ShardCounts != nil { // which have orders of their own
		return s
	}
	filter := stint.Filter{States: []stint.State{stint.StateScheduled}, Limit: 1}
	first, err := a.ListTasks(ctx, filter)
	if err != nil || len(first.Tasks) == 0 {
		return s
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
	return s
}

// A Cascade is tasks of an action that were aborted because others were.
type Cascade struct {
	Action  string
	Tasks   int
	OrMore  bool         // not all aborted tasks of the action were looked at
	Example stint.TaskID // one of them
}

// Cascades are those of the actions with more aborted tasks than groups of errors tell of.
func (a *Store) Cascades(
	ctx context.Context, stats stint.Stats, found *Troubles,
) (all []Cascade) {
	told := map[string]int64{}
	for i := range found.Errors {
		told[found.Errors[i].Action] += int64(found.Errors[i].Tasks)
	}
	more := slices.DeleteFunc(slices.Clone(stats.Actions), func(s stint.ActionStats) bool {
		return s.Aborted <= told[s.Action]
	})
	slices.SortStableFunc(more, func(a, b stint.ActionStats) int {
		return cmp.Compare(b.Aborted-told[b.Action], a.Aborted-told[a.Action])
	})
	for i := range more[:min(len(more), cascadesMax)] {
		page, err := a.List(ctx, stint.Filter{
			Actions: []string{more[i].Action}, States: []stint.State{stint.StateAborted},
			Limit: straysMax,
		})
		if err != nil { // the rest of the page is worth showing
			continue
		}
		c := Cascade{Action: more[i].Action, OrMore: page.Next != ""}
		for k := range page.Tasks {
			if task := &page.Tasks[k]; task.AbortCause == stint.CauseDependency {
				c.Tasks, c.Example = c.Tasks+1, cmp.Or(c.Example, task.ID)
			}
		}
		if c.Tasks > 0 {
			all = append(all, c)
		}
	}
	return all
}
