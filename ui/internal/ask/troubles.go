package ask

import (
	"context"
	"slices"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/views"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/verbs"
)

const (
	// ProblemsMax is how many problems of each kind are kept.
	ProblemsMax = 100
	// askedMax is how many problems of each kind are asked for.
	askedMax = 1000
)

// Troubles are problems, with what their groups of errors leave out.
type Troubles struct {
	stint.Problems
	// failing are how many tasks of an action are tried again, among those that groups count.
	failing map[string]int64
	// Alike are the first tasks of each group of errors that are tried again.
	Alike map[string][]stint.TaskInfo
}

// Hidden are the actions with aborted tasks of which no group of errors tells, since there are so
// many newer ones of others.
func (t *Troubles) Hidden(stats stint.Stats) (all []HiddenAction) {
	if !t.ErrorsCut {
		return nil
	}
	told := map[string]bool{}
	for i := range t.Errors {
		told[t.Errors[i].Action] = true
	}
	for i := range stats.Actions {
		if a := &stats.Actions[i]; a.Aborted > 0 && !told[a.Action] {
			link := show.Link("action", "name", a.Action)
			all = append(all, HiddenAction{a.Action, a.Aborted, link})
		}
	}
	return all
}

// askTroubles asks a store for its problems.
func askTroubles(ctx context.Context, store verbs.Reader) (Troubles, error) {
	found, err := store.Problems(ctx, askedMax)
	t := Troubles{
		Problems: found, Alike: map[string][]stint.TaskInfo{}, failing: map[string]int64{},
	}
	for i := range found.Failing {
		t.failing[found.Failing[i].Action]++
	}
	for _, tasks := range []*[]stint.TaskInfo{&t.Slow, &t.Failing, &t.Failed, &t.Unwatched} {
		all := slices.Clone(*tasks)
		shorten(all)
		for i := 0; tasks == &t.Failing && i < len(all); i++ {
			key := GroupOf((*tasks)[i].Action, (*tasks)[i].Status)
			if key != "" && len(t.Alike[key]) < ProblemsMax {
				t.Alike[key] = append(t.Alike[key], all[i])
			}
		}
		*tasks = slices.Clone(all[:min(len(all), ProblemsMax)])
	}
	return t, err
}

// GroupOf names the group of errors that a task is of; empty if nothing was said of it.
func GroupOf(action, status string) string {
	if status == "" {
		return ""
	}
	return action + "\x00" + views.Shape(status)
}

// OnLastTry are those of some tasks that are not tried again if the next try fails.
func OnLastTry(tasks []stint.TaskInfo) (last []stint.TaskInfo) {
	for i := range tasks {
		if t := &tasks[i]; t.MaxTries > 0 && t.Tries == t.MaxTries-1 {
			last = append(last, *t)
		}
	}
	return last
}

// A HiddenAction is an action of which tasks failed, or may have, that no group of errors counts.
type HiddenAction struct {
	Action  string
	Aborted int64
	Link    string
}
