package ui

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/charts"
	"github.com/stint-tasks/stint/ui/internal/filters"
	"github.com/stint-tasks/stint/ui/internal/show"
)

type actionsData struct {
	Partly  bool   // as in [request]
	Part    string // of the names; empty: all
	Actions []actionRow
	More    int
}

const (
	actionsMax = 1000 // how many actions are listed
	choicesMax = 500  // how many actions a form offers
)

// actionsPage lists all actions, or those whose names contain a text.
func actionsPage(h *Handler, r *request) (view, error) {
	query := r.URL.Query()
	if err := filters.CheckNames(query, "", "part"); err != nil {
		return view{}, err
	}
	stats, err := h.asked.Counts.Get(r.Context())
	if err != nil {
		return view{}, err
	}
	data := actionsData{
		Partly: r.partly, Part: query.Get("part"), Actions: actionRows(stats, &h.asked.Rates),
	}
	data.Actions = slices.DeleteFunc(data.Actions, func(row actionRow) bool {
		return !hasPart(row.Action, data.Part)
	})
	if len(data.Actions) > actionsMax {
		data.Actions, data.More = data.Actions[:actionsMax], len(data.Actions)-actionsMax
	}
	return view{name: "actions", data: data}, nil
}

// hasPart reports whether a name contains a text, whatever the case of its letters.
func hasPart(name, part string) bool {
	return strings.Contains(strings.ToLower(name), strings.ToLower(part))
}

// actionNames are actions to choose from, those first whose names contain a text.
func (h *Handler) actionNames(r *request, part string) (names []string) {
	stats, err := h.asked.Counts.Get(r.Context())
	if err != nil {
		return nil
	}
	var others []string
	for i := range stats.Actions {
		name := stats.Actions[i].Action
		if hasPart(name, part) {
			names = append(names, name)
		} else {
			others = append(others, name)
		}
	}
	names = append(names, others...)
	return names[:min(len(names), choicesMax)]
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
