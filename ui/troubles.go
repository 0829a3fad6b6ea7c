package ui

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/verbs"
)

// troubles are problems, with what their groups of errors leave out.
type troubles struct {
	stint.Problems
	// full says that there may be more tasks that failed than were counted: older ones, or such as
	// were tried less often.
	full bool
	// alike are the first tasks of each group of errors.
	alike map[string][]stint.TaskInfo
}

// askTroubles asks a store for its problems.
func askTroubles(ctx context.Context, store verbs.Reader) (troubles, error) {
	found, err := store.Problems(ctx, countedErrorsMax)
	t := troubles{
		Problems: found, alike: map[string][]stint.TaskInfo{},
		full: len(found.Failed) >= countedErrorsMax || len(found.Failing) >= countedErrorsMax,
	}
	for _, tasks := range []*[]stint.TaskInfo{&t.Slow, &t.Failing, &t.Failed, &t.Unwatched} {
		keys := make([]string, len(*tasks))
		for i := range *tasks {
			keys[i] = groupOf((*tasks)[i].Action, (*tasks)[i].Status)
		}
		all := slices.Clone(*tasks)
		shorten(all)
		if tasks == &t.Failing || tasks == &t.Failed {
			for i := range all {
				if key := keys[i]; key != "" && len(t.alike[key]) < problemsMax {
					t.alike[key] = append(t.alike[key], all[i])
				}
			}
		}
		*tasks = slices.Clone(all[:min(len(all), problemsMax)])
	}
	return t, err
}

var digits = regexp.MustCompile(`[0-9]+`)

// groupOf names the group of errors that a task is of; empty if nothing was said of it.
func groupOf(action, status string) string {
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

// A hiddenAction is an action of which tasks failed, or may have, that no group of errors counts.
type hiddenAction struct {
	Action  string
	Aborted int64
	Link    string
}

// hidden are the actions with aborted tasks of which no group of errors tells, since there are so
// many newer ones of others.
func (t *troubles) hidden(stats stint.Stats) (all []hiddenAction) {
	if !t.full {
		return nil
	}
	told := map[string]bool{}
	for i := range t.Errors {
		told[t.Errors[i].Action] = true
	}
	for i := range stats.Actions {
		if a := &stats.Actions[i]; a.Aborted > 0 && !told[a.Action] {
			link := show.Link("action", "name", a.Action)
			all = append(all, hiddenAction{a.Action, a.Aborted, link})
		}
	}
	return all
}

// errorsOf are the groups of errors of an action: those of all problems or, where these are too
// many to be counted, those among the first of its aborted tasks.
func (a *asked) errorsOf(
	ctx context.Context, found *troubles, action string,
) (groups []stint.ErrorGroup, err error) {
	for _, group := range found.Errors {
		if group.Action == action {
			groups = append(groups, group)
		}
	}
	if len(groups) > 0 || !found.full {
		return groups, nil
	}
	failed, err := a.failedOf(ctx, action)
	at := map[string]int{}
	for i := range failed {
		key := groupOf(action, failed[i].Status)
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

// failedOf are the first of the tasks of an action that failed and say why.
func (a *asked) failedOf(ctx context.Context, action string) ([]stint.TaskInfo, error) {
	page, err := a.list(ctx, stint.Filter{
		Actions: []string{action}, States: []stint.State{stint.StateAborted},
		Limit: countedErrorsMax,
	})
	causes := []stint.AbortCause{stint.CauseReturned, stint.CauseTries, stint.CauseExpired}
	return slices.DeleteFunc(slices.Clone(page.Tasks), func(task stint.TaskInfo) bool {
		return task.Status == "" || !slices.Contains(causes, task.AbortCause)
	}), err
}

type alikeData struct {
	Group stint.ErrorGroup
	Tasks []stint.TaskInfo
	More  int
	All   string // the address of all aborted tasks of the action
	Now   time.Time
}

// errorsAlike lists the tasks of a group of errors: that of an action and what was said.
func errorsAlike(h *Handler, r *request) (view, error) {
	query := r.URL.Query()
	if err := checkQuery(query, "", "action", "error"); err != nil {
		return view{}, err
	}
	found, err := h.asked.problems.Get(r.Context())
	if err != nil {
		return view{}, err
	}
	action := query.Get("action")
	key := groupOf(action, query.Get("error"))
	data := alikeData{
		Group: stint.ErrorGroup{Action: action, Error: query.Get("error")}, Now: r.now,
		Tasks: found.alike[key],
		All:   show.Link("tasks", "action", action, "state", string(stint.StateAborted)),
	}
	if len(data.Tasks) == 0 && found.full { // they are not among those that all groups count
		if data.Tasks, err = h.asked.failedOf(r.Context(), action); err != nil {
			return view{}, err
		}
		data.Tasks = slices.DeleteFunc(data.Tasks, func(task stint.TaskInfo) bool {
			return groupOf(action, task.Status) != key
		})
	}
	groups, err := h.asked.errorsOf(r.Context(), &found, action)
	if err != nil {
		return view{}, err
	}
	for _, group := range groups {
		if groupOf(group.Action, group.Error) == key {
			data.Group = group
		}
	}
	data.More = max(data.Group.Tasks-len(data.Tasks), 0)
	return view{name: "alike", title: "Errors alike", data: data}, nil
}
