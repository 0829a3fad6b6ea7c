package ui

import (
	"slices"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/filters"
	"github.com/stint-tasks/stint/ui/internal/show"
)

type alikeData struct {
	Group stint.ErrorGroup
	Tasks []stint.TaskInfo
	More  int
	All   string // the address of all aborted tasks of the action
	Now   time.Time
}

// alikePage lists the tasks of a group of errors: that of an action and what was said.
func alikePage(h *Handler, r *request) (view, error) {
	query := r.URL.Query()
	if err := filters.CheckNames(query, "", "action", "error"); err != nil {
		return view{}, err
	}
	found, err := h.asked.Troubles.Get(r.Context())
	if err != nil {
		return view{}, err
	}
	action := query.Get("action")
	key := ask.GroupOf(action, query.Get("error"))
	data := alikeData{
		Group: stint.ErrorGroup{Action: action, Error: query.Get("error")}, Now: r.now,
		Tasks: found.Alike[key],
		All:   show.Link("tasks", "action", action, "state", string(stint.StateAborted)),
	}
	if len(data.Tasks) == 0 && found.Full { // they are not among those that all groups count
		if data.Tasks, err = h.asked.FailedOf(r.Context(), action); err != nil {
			return view{}, err
		}
		data.Tasks = slices.DeleteFunc(data.Tasks, func(task stint.TaskInfo) bool {
			return ask.GroupOf(action, task.Status) != key
		})
	}
	groups, err := h.asked.ErrorsOf(r.Context(), &found, action)
	if err != nil {
		return view{}, err
	}
	for _, group := range groups {
		if ask.GroupOf(group.Action, group.Error) == key {
			data.Group = group
		}
	}
	data.More = max(data.Group.Tasks-len(data.Tasks), 0)
	return view{name: "alike", title: "Errors alike", data: data}, nil
}
