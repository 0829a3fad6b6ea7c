package ui

import (
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/filters"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
)

type tasksData struct {
	Partly    bool // as in [request]
	Filter    filters.Filter
	Tasks     []stint.TaskInfo
	List      taskList
	MaySearch bool   // in bodies
	MayBody   bool   // the beginnings of bodies can be shown
	Next      string // the address of the next page; empty if there is none
	First     string // that of the first one; empty on it
	Looked    int
	Cut       bool // the store stopped before the page was full
	Filtered  bool
	Actions   []string // to choose from
	Command   string
	Doubts    []show.Sentence // where nothing was found: what is not known of the filter
	Insert    *offer
	Picking   *offer // what can be done with tasks; nil if nothing
	Now       time.Time
}

// tasksPage lists tasks by a filter.
func tasksPage(h *Handler, r *request) (view, error) {
	query := r.URL.Query()
	if err := filters.Check(query); err != nil {
		return view{}, err
	}
	filter, asked := filters.New(query)
	if asked.Body != "" && !r.may(ReadBodies) { // what is found would tell what bodies have
		return view{}, refuse.ErrForbidden
	}
	found, err := h.asked.List(r.Context(), asked)
	if err != nil {
		return view{}, err
	}
	data := tasksData{
		Partly: r.partly,
		Filter: filter, Tasks: found.Tasks, Looked: found.Looked, Filtered: filter.Present,
		Cut: found.Next != "" && len(found.Tasks) < filter.Size, Now: r.now,
		Command: filters.Command(filter, asked),
	}
	if len(found.Tasks) == 0 && found.Next == "" {
		data.Doubts = h.doubtsOfFilter(r, filter.Action, filter.Key)
	}
	data.Picking = h.offer(r, []field{
		{"filter", filters.WithoutCursor(query).Encode()}, {"back", here(r)},
	}, "run", "retry", "change", "abort", "delete")
	if found.Next != "" {
		data.Next = filters.WithCursor(query, string(found.Next))
	}
	if asked.After != "" {
		data.First = filters.WithCursor(query, "")
	}
	data.List = taskList{
		Tasks: found.Tasks, Now: r.now, Picks: data.Picking != nil, Columns: filter.Columns,
	}
	data.MaySearch = r.may(ReadBodies)
	data.MayBody = data.MaySearch && h.asked.HasBeginnings()
	if filter.Columns[filters.WithBody] {
		if !data.MayBody {
			return view{}, refuse.ErrForbidden
		}
		if data.List.Bodies, err = h.asked.Beginnings(r.Context(), found.Tasks); err != nil {
			return view{}, err
		}
	}
	data.Actions = h.actionNames(r, filter.Action)
	data.Insert = h.offer(r, []field{{"back", here(r)}}, "insert").called("Insert a task")
	return view{name: "tasks", data: data}, nil
}
