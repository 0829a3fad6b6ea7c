package ui

import (
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// A scheduleRow is a schedule in the list.
type scheduleRow struct {
	stint.ScheduleInfo
	Next    []time.Time
	Actions string
	Link    string // of the tasks that it has inserted
	Offer   *offer
}

type schedulesData struct {
	Partly    bool // as in [request]
	Schedules []scheduleRow
	More      int
	Offers    bool   // something can be done
	Add       *offer // nil if none can be added
	Now       time.Time
}

const (
	// schedulesMax is how many schedules are listed, nextMax how many of their occurrences.
	schedulesMax = 500
	nextMax      = 3
)

// schedulesPage lists when tasks are inserted again.
func schedulesPage(h *Handler, r *request) (view, error) {
	found, err := h.asked.Schedules.Get(r.Context())
	if err != nil {
		return view{}, err
	}
	data := schedulesData{Partly: r.partly, Now: r.now}
	data.Add = h.offer(r, []field{{"back", here(r)}}, "new-schedule")
	if len(found) > schedulesMax {
		found, data.More = found[:schedulesMax], len(found)-schedulesMax
	}
	for i := range found {
		row := scheduleRow{
			ScheduleInfo: found[i], Link: show.Link("tasks", "prefix", found[i].Name+"/"),
		}
		if row.PausedSince.IsZero() {
			row.Next, _ = found[i].Next(r.now, nextMax) // the store has checked the schedule
		}
		row.Actions = actionsOf(found[i].Tasks, nextMax)
		row.Offer = h.offer(r, append(target{schedule: row.Name}.fields(),
			field{"back", here(r)}), pauseOr(row.PausedSince), "trigger",
			"schedule", "delete-schedule")
		data.Offers = data.Offers || row.Offer != nil
		data.Schedules = append(data.Schedules, row)
	}
	return view{name: "schedules", data: data}, nil
}

// actionsOf names the first actions of some tasks, and says how many others there are.
func actionsOf(tasks []stint.Task, most int) string {
	var actions []string
	for i := range tasks {
		if !slices.Contains(actions, tasks[i].Action) {
			actions = append(actions, tasks[i].Action)
		}
	}
	named := strings.Join(actions[:min(len(actions), most)], ", ")
	if more := len(actions) - most; more > 0 {
		named += ", and " + display.Number(int64(more)) + " more"
	}
	return named
}
