package ui

import (
	"cmp"
	"context"
	"fmt"
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

// authored returns a context in which what is changed is noted with whoever sent a request.
func (h *Handler) authored(ctx context.Context, r *request, reason string) context.Context {
	return stint.WithAuthor(ctx, stint.Author{
		Name: cmp.Or(h.who(r), "the web interface"), Reason: reason,
	})
}

// changeEvents are the changes of a task as events of its life: those of the task that has the ID
// now.
func changeEvents(found []stint.Change, since, now time.Time) (all []event) {
	for i := range found {
		c := &found[i]
		if c.At.Before(since) {
			continue
		}
		all = append(all, event{
			At: show.NewMoment(c.At, now), Icon: "changed", Status: c.Reason,
			Key:  fmt.Sprint("change ", c.At.UnixMicro(), " ", c.Verb),
			What: show.Say(changedBy(c, withOthers(c))),
		})
	}
	return all
}

// changedBy says what a change did, and who did it.
func changedBy(c *stint.Change, more string) string {
	done := display.Done(c)
	text := strings.ToUpper(done[:1]) + done[1:] + more
	if c.By != "" {
		text += " by " + display.Text(c.By)
	}
	return text
}

func withOthers(c *stint.Change) string {
	if n := c.Items - 1 + c.Others; n > 0 {
		return " with " + display.Count(int64(n), "other")
	}
	return ""
}

// goneBy says who has changed a task last that is not there; empty if that is not known.
func (h *Handler) goneBy(r *request, id stint.TaskID) show.Sentence {
	if !r.may(Read) {
		return nil
	}
	found := h.asked.ChangesOf(r.Context(), id)
	if len(found) == 0 {
		return nil
	}
	c := &found[0]
	gone := show.Say(changedBy(c, withOthers(c))+", ", show.NewMoment(c.At, r.now))
	if c.Reason != "" {
		gone = append(gone, show.Part{Text: ": " + display.Text(c.Reason)})
	}
	return gone
}

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
	ID, Action  string // the filter
	Next, First string
	Doubts      []show.Sentence // where nothing was found: what is not known of the filter
	Filtered    bool
	Now         time.Time
}

// listChanges lists who has changed what, the newest first.
func listChanges(h *Handler, r *request) (view, error) {
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
		if isOfTasks(&c) {
			for _, name := range c.Names[:min(len(c.Names), tasksNamed)] {
				row.Tasks = append(row.Tasks, stint.TaskID(name))
			}
			row.More, c.Names = c.Items-len(row.Tasks), nil
		}
		row.What = display.Change(&c)
		data.Changes = append(data.Changes, row)
	}
	if len(page.Changes) == 0 {
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

func isOfTasks(c *stint.Change) bool { return strings.HasSuffix(c.Verb, "Tasks") }

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
