package ask

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/verbs"
)

const (
	// ProblemsMax is how many problems of each kind are kept.
	ProblemsMax = 100
	// CountedErrorsMax is how many failed tasks the groups of errors count.
	CountedErrorsMax = 1000
)

// Troubles are problems, with what their groups of errors leave out.
type Troubles struct {
	stint.Problems
	// Full says that there may be more tasks that failed than were counted: older ones, or such as
	// were tried less often.
	Full bool
	// Alike are the first tasks of each group of errors.
	Alike map[string][]stint.TaskInfo
	// Strays are scheduled tasks at which to look.
	Strays Strays
}

// Hidden are the actions with aborted tasks of which no group of errors tells, since there are so
// many newer ones of others.
func (t *Troubles) Hidden(stats stint.Stats) (all []HiddenAction) {
	if !t.Full {
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
	found, err := store.Problems(ctx, CountedErrorsMax)
	t := Troubles{
		Problems: found, Alike: map[string][]stint.TaskInfo{},
		Full: len(found.Failed) >= CountedErrorsMax || len(found.Failing) >= CountedErrorsMax,
	}
	for _, tasks := range []*[]stint.TaskInfo{&t.Slow, &t.Failing, &t.Failed, &t.Unwatched} {
		keys := make([]string, len(*tasks))
		for i := range *tasks {
			keys[i] = GroupOf((*tasks)[i].Action, (*tasks)[i].Status)
		}
		all := slices.Clone(*tasks)
		shorten(all)
		if tasks == &t.Failing || tasks == &t.Failed {
			for i := range all {
				if key := keys[i]; key != "" && len(t.Alike[key]) < ProblemsMax {
					t.Alike[key] = append(t.Alike[key], all[i])
				}
			}
		}
		*tasks = slices.Clone(all[:min(len(all), ProblemsMax)])
	}
	return t, err
}

var digits = regexp.MustCompile(`[0-9]+`)

// GroupOf names the group of errors that a task is of; empty if nothing was said of it.
func GroupOf(action, status string) string {
	const longest = 500
	line, _, _ := strings.Cut(status, "\n")
	if runes := []rune(line); len(runes) > longest {
		line = string(runes[:longest])
	}
	if status == "" {
		return ""
	}
	return action + "\x00" + digits.ReplaceAllString(line, "0")
}

// A HiddenAction is an action of which tasks failed, or may have, that no group of errors counts.
type HiddenAction struct {
	Action  string
	Aborted int64
	Link    string
}
