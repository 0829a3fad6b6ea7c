package ui

import (
	"net/url"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/filters"
	"github.com/stint-tasks/stint/ui/internal/show"
)

const (
	// changesAtOnce is how many changes a page lists, and tasksNamed how many tasks of each.
	changesAtOnce = 100
	tasksNamed    = 5
)

// A changeRow is a change of the list.
type changeRow struct {
	stint.Change
	What  string
	Tasks []stint.TaskID // that it names
	More  int            // how many it does not name
}

type changesData struct {
	Partly      bool // as in [request]
	Changes     []changeRow
	ID, Action  string          // the filter
	Next, First string          // with Next, there may be some where none was found
	Doubts      []show.Sentence // where nothing was found: what is not known of the filter
	Filtered    bool
	Now         time.Time
}

// changesPage lists who has changed what, the newest first.
func changesPage(h *Handler, r *request) (view, error) {
	query := r.URL.Query()
	if err := filters.CheckNames(query, "", "id", "action", "after"); err != nil {
		return view{}, err
	}
	filter := stint.ChangeFilter{
		ID: stint.TaskID(query.Get("id")), After: stint.Cursor(query.Get("after")),
		Limit: changesAtOnce,
	}
	if action := query.Get("action"); action != "" {
		filter.Actions = []string{action}
	}
	page, err := h.asked.Changes(r.Context(), filter)
	if err != nil {
		return view{}, err
	}
	data := changesData{
		Partly: r.partly,
		ID:     query.Get("id"), Action: query.Get("action"), Now: r.now,
		Filtered: filter.ID != "" || len(filter.Actions) > 0,
	}
	for _, c := range page.Changes {
		if data.Action != "" && c.Action != data.Action { // the store looks at the task only
			continue
		}
		row := changeRow{Change: c}
		if strings.HasSuffix(c.Verb, "Tasks") {
			for _, name := range c.Names[:min(len(c.Names), tasksNamed)] {
				row.Tasks = append(row.Tasks, stint.TaskID(name))
			}
			row.More, c.Names = c.Items-len(row.Tasks), nil
		}
		row.What = display.Change(&c)
		data.Changes = append(data.Changes, row)
	}
	if len(data.Changes) == 0 && page.Next == "" {
		data.Doubts = h.doubtsOfFilter(r, data.Action, "")
	}
	if page.Next != "" {
		data.Next = changesLink(query, string(page.Next))
	}
	if filter.After != "" {
		data.First = changesLink(query, "")
	}
	return view{name: "changes", data: data}, nil
}

func changesLink(query url.Values, after string) string {
	address := url.Values{}
	for _, name := range []string{"id", "action"} {
		if value := query.Get(name); value != "" {
			address.Set(name, value)
		}
	}
	if after != "" {
		address.Set("after", after)
	}
	return "changes?" + address.Encode()
}
