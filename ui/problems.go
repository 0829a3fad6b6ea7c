package ui

import (
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/notices"
)

type problemsData struct {
	Partly bool // as in [request]
	stint.Problems
	Hidden []ask.HiddenAction // whose failures are not counted
	Untold []notices.Notice   // aborted tasks of which no group tells
	Now    time.Time
}

// problemsPage lists errors in groups, and the tasks to look at first.
func problemsPage(h *Handler, r *request) (view, error) {
	found, err := h.asked.Troubles.Get(r.Context())
	if err != nil {
		return view{}, err
	}
	data := problemsData{
		Partly: r.partly, Problems: found.Problems, Now: r.now,
	}
	if stats, err := h.asked.Counts.Get(r.Context()); err == nil {
		data.Hidden = found.Hidden(stats)
		data.Untold = notices.OfUntold(h.asked.Untold(r.Context(), stats, &found))
	}
	const most = 20
	kinds := []*[]stint.TaskInfo{&data.Slow, &data.Failing, &data.Failed, &data.Unwatched}
	for _, tasks := range kinds {
		*tasks = (*tasks)[:min(len(*tasks), most)]
	}
	return view{name: "problems", data: data}, nil
}
