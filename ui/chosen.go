package ui

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/ui/internal/filters"
	"github.com/stint-tasks/stint/ui/internal/kept"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// chosen returns the tasks of a form, and the states in which they may be changed: those that were
// selected, of which the verb tells which it takes, or those that pass the filter, if there is one.
func (h *Handler) chosen(
	r *request, k *kind,
) (found bulk.Found, inStates []stint.State, filter url.Values, err error) {
	form := r.PostForm
	if form.Get("of") != "all" {
		if found.Tasks, err = unpackTasks(form["task"]); err == nil {
			h.seeAgain(r.Context(), found.Tasks)
		}
		return found, show.States(), nil, err
	}
	filter, err = url.ParseQuery(form.Get("filter"))
	if err != nil || !filters.IsText(filter) {
		return found, nil, nil, refuse.ErrBadForm
	}
	if filter.Get("body") != "" && !r.may(ReadBodies) { // as in a list
		return found, nil, nil, refuse.ErrForbidden
	}
	found, inStates, err = h.findTasks(r.Context(), k, filter)
	return found, inStates, filter, err
}

// seeAgain sets the states of tasks to what they are now. The preview shows these, and whoever
// agrees to it agrees to them. Those that cannot be read are as the page before has shown them.
func (h *Handler) seeAgain(ctx context.Context, tasks []bulk.Task) {
	infos, err := h.asked.GetTasks(ctx, bulk.IDs(tasks))
	if err != nil && !errors.Is(err, stint.ErrTaskNotFound) {
		return
	}
	now := make(map[stint.TaskID]stint.State, len(infos))
	for i := range infos {
		now[infos[i].ID] = infos[i].State
	}
	for i := range tasks {
		tasks[i].State = cmp.Or(now[tasks[i].ID], tasks[i].State)
	}
}

// findTasks finds the tasks that pass a filter and can be changed, as many as are changed at once.
// It also returns the states that it looked at.
func (h *Handler) findTasks(
	ctx context.Context, k *kind, query url.Values,
) (found bulk.Found, states []stint.State, err error) {
	_, filter := filters.New(query)
	filter.NewestFirst = false
	states = k.states
	if k.name == "retry" {
		states = states[:1] // completed ones only if the filter says so
	}
	if len(filter.States) > 0 {
		states = slices.DeleteFunc(slices.Clone(filter.States), func(state stint.State) bool {
			return !slices.Contains(k.states, state)
		})
	}
	if len(states) == 0 {
		return found, states, nil
	}
	filter.States = states
	skip := func(task *stint.TaskInfo) bool {
		return k.name == "retry" && task.AbortCause == stint.CauseDependency
	}
	const looksMax = changeTimeout / 4
	begun := kept.Now()
	found, err = bulk.Find(ctx, h.asked, filter, tasksAtOnce, skip, func() bool {
		return kept.Now().Sub(begun) > looksMax
	})
	return found, states, err
}

// countOf is about how many tasks in some states pass a filter, if the counts of the store tell.
func (h *Handler) countOf(
	ctx context.Context, filter url.Values, inStates []stint.State,
) (count int64, known bool) {
	f, _ := filters.New(filter)
	if f.Finer {
		return 0, false
	}
	stats, err := h.asked.Counts.Get(ctx)
	if err != nil {
		return 0, false
	}
	for _, row := range actionRows(stats, &h.asked.Rates) {
		if f.Action != "" && f.Action != row.Action {
			continue
		}
		for _, tally := range row.States {
			if slices.Contains(inStates, tally.State) {
				count += tally.Tasks
			}
		}
	}
	return count, true
}
