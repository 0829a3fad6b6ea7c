package ui

import (
	"cmp"
	"slices"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/charts"
	"github.com/stint-tasks/stint/ui/internal/show"
)

type actionsData struct {
	Partly  bool // as in [request]
	Actions []actionRow
	More    int
}

// actionsMax is how many actions are listed.
const actionsMax = 1000

// actionsPage lists all actions.
func actionsPage(h *Handler, r *request) (view, error) {
	stats, err := h.asked.Counts.Get(r.Context())
	if err != nil {
		return view{}, err
	}
	data := actionsData{Partly: r.partly, Actions: actionRows(stats, &h.asked.Rates)}
	if len(data.Actions) > actionsMax {
		data.Actions, data.More = data.Actions[:actionsMax], len(data.Actions)-actionsMax
	}
	return view{name: "actions", data: data}, nil
}

// An actionRow is an action in a list.
type actionRow struct {
	stint.ActionStats
	States []show.Tally
	All    int64
	Pace   charts.Pace
	Link   string
}

// actionRows are the actions, those first that have most to do.
func actionRows(stats stint.Stats, rates *charts.Rates) []actionRow {
	rows := make([]actionRow, 0, len(stats.Actions))
	for i := range stats.Actions {
		row := actionRow{
			ActionStats: stats.Actions[i],
			Link:        show.Link("action", "name", stats.Actions[i].Action),
			Pace:        rates.Now(stats.Actions[i].Action),
		}
		for state, tasks := range row.ByState() {
			row.All += tasks
			row.States = append(row.States, show.Tally{
				State: state, Tasks: tasks, Estimated: slices.Contains(stats.Estimated, state),
				At:   stats.EstimatedAt,
				Link: show.Link("tasks", "state", string(state), "action", row.Action),
			})
		}
		rows = append(rows, row)
	}
	// By what does not change from one second to the next, so that rows stay where they are.
	slices.SortStableFunc(rows, func(a, b actionRow) int {
		return cmp.Compare(magnitude(b.All), magnitude(a.All))
	})
	return rows
}

// magnitude is how many digits a number has.
func magnitude(n int64) int {
	digits := 0
	for ; n > 0; n /= 10 {
		digits++
	}
	return digits
}
