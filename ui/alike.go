package ui

import (
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/filters"
	"github.com/stint-tasks/stint/ui/internal/show"
)

type alikeData struct {
	ask.AlikePage
	Group   stint.ErrorGroup
	Failing []stint.TaskInfo // those that are tried again
	OrMore  bool             // of these there may be more
	Behind  bool             // the page begins behind others
	Further string           // the address of those behind it
	Back    show.Moment      // how far it goes back, if there are others behind it
	All     string           // the address of all aborted tasks of the action
	Offer   *offer           // to retry those that have failed
	Allow   *offer           // more tries, of those that have one left
	Now     time.Time
}

// alikePage lists the tasks of a group of errors: that of an action and what was said. It looks
// through some of the aborted tasks of the action, the newest first, and leads to the others.
func alikePage(h *Handler, r *request) (view, error) {
	ctx, query := r.Context(), r.URL.Query()
	if err := filters.CheckNames(query, "", "action", "error", "after"); err != nil {
		return view{}, err
	}
	found, err := h.asked.Troubles.Get(ctx)
	if err != nil {
		return view{}, err
	}
	action, said, after := query.Get("action"), query.Get("error"), query.Get("after")
	key := ask.GroupOf(action, said)
	data := alikeData{
		Group: stint.ErrorGroup{Action: action, Error: said}, Behind: after != "", Now: r.now,
		All: show.Link("tasks", "action", action, "state", string(stint.StateAborted)),
	}
	data.AlikePage, err = h.asked.FailedAlike(ctx, action, key, stint.Cursor(after))
	if err != nil {
		return view{}, err
	}
	if !data.Behind {
		data.Failing = found.Alike[key]
		data.OrMore = len(data.Failing) >= ask.ProblemsMax
	}
	if data.Next != "" {
		data.Further = show.Link("alike", "action", action, "error", said,
			"after", string(data.Next))
		data.Back = show.NewMoment(data.Since, r.now)
	}
	h.offerAlike(r, &data)
	groups, err := h.asked.ErrorsOf(ctx, &found, action)
	if err != nil {
		return view{}, err
	}
	for _, group := range groups {
		if ask.GroupOf(group.Action, group.Error) == key {
			data.Group = group
		}
	}
	return view{name: "alike", title: "Errors alike", data: data, still: true}, nil
}

// triesMin is how many tries are offered at least: as many as a task has by default.
const triesMin = 25

// offerAlike offers to retry the tasks of the page that have failed, and more tries for those that
// have one left.
func (h *Handler) offerAlike(r *request, data *alikeData) {
	if last := ask.OnLastTry(data.Failing); len(last) > 0 {
		allowed, seen := triesMin, make([]bulk.Task, len(last))
		for i := range last {
			allowed, seen[i] = max(allowed, 2*last[i].MaxTries), bulk.NewTask(&last[i])
		}
		fields := []field{{"task", bulk.Pack(seen...)}, {"back", here(r)}}
		data.Allow = h.offer(r, append(fields, fieldsOf(stint.TaskChanges{MaxTries: allowed})...),
			"change").called("Allow " + display.Number(int64(allowed)) + " tries")
	}
	if len(data.Tasks) == 0 {
		return
	}
	seen := make([]bulk.Task, len(data.Tasks))
	for i := range data.Tasks {
		seen[i] = bulk.NewTask(&data.Tasks[i])
	}
	data.Offer = h.offer(r, []field{{"task", bulk.Pack(seen...)}, {"back", here(r)}}, "retry").
		called("Retry these " + display.Count(int64(len(seen)), "task"))
}
