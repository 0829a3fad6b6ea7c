package ui

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/views"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// A waitingRow is a task that waits for an answer.
type waitingRow struct {
	stint.TaskInfo
	StandsFor *show.Part // the task of another shard that gives the answer; nil if none does
	Offer     *offer
}

type waitingData struct {
	Partly    bool // as in [request]
	Tasks     []waitingRow
	Hidden    bool   // whoever asks may not see all tasks of the kind
	Ready     int64  // how many there are
	Estimated bool   // Ready is about right
	Later     int64  // how many wait for other tasks first, or for their time
	LaterLink string // to these
	Offers    bool   // something can be answered
	Deadlines bool   // some have one
	Next      string // the address of the next page; empty if there is none
	First     string // that of the first one; empty on it
	Cut       bool   // the store stopped before the page was full
	Looked    int
	Now       time.Time
}

// waitingMax is how many tasks that wait for answers are on a page.
const waitingMax = 50

const waitingTitle = "Waiting for answers"

// waitingPage lists the tasks that wait for answers.
func waitingPage(h *Handler, r *request) (view, error) {
	query := r.URL.Query()
	found, err := h.asked.List(r.Context(), stint.Filter{
		Actions: []string{stint.External}, States: []stint.State{stint.StateReady},
		After: stint.Cursor(query.Get("after")), Limit: waitingMax,
	})
	if errors.Is(err, stint.ErrRefused) {
		return view{name: "waiting", title: waitingTitle, data: waitingData{Hidden: true}}, nil
	}
	if err != nil {
		return view{}, err
	}
	data := waitingData{
		Partly: r.partly,
		Looked: found.Looked, Cut: found.Next != "" && len(found.Tasks) < waitingMax, Now: r.now,
		LaterLink: (&url.URL{Path: "tasks", RawQuery: url.Values{
			"action": {stint.External},
			"state":  {string(stint.StateBlocked), string(stint.StateScheduled)},
		}.Encode()}).String(),
	}
	for i := range found.Tasks {
		row := waitingRow{TaskInfo: found.Tasks[i]}
		if row.StandsFor = h.standsFor(row.ID); row.StandsFor == nil {
			row.Offer = h.offer(r, []field{
				{"task", bulk.Pack(bulk.NewTask(&row.TaskInfo))}, {"back", here(r)},
			}, "answer")
		}
		data.Deadlines = data.Deadlines || !row.Deadline.IsZero()
		data.Offers = data.Offers || row.Offer != nil
		data.Tasks = append(data.Tasks, row)
	}
	if found.Next != "" {
		data.Next = show.Link("waiting", "after", string(found.Next))
	}
	if query.Get("after") != "" {
		data.First = "waiting"
	}
	if stats, err := h.asked.Counts.Get(r.Context()); err == nil {
		data.count(stats)
	}
	if h.ofShards() { // which have tasks of this kind for themselves
		data.Later = 0
	}
	return view{name: "waiting", title: waitingTitle, data: data}, nil
}

// count adds how many tasks there are of the kind.
func (d *waitingData) count(stats stint.Stats) {
	for i := range stats.Actions {
		if a := &stats.Actions[i]; a.Action == stint.External {
			d.Ready += a.Ready
			d.Later += a.Blocked + a.Scheduled
		}
	}
	for _, state := range stats.Estimated {
		d.Estimated = d.Estimated || state == stint.StateReady
	}
}

// standsFor is the task of another shard that a task stands for; nil if it is none of these.
func (h *Handler) standsFor(id stint.TaskID) *show.Part {
	if shard := h.asked.ShardOf(id); shard != "" {
		id = stint.TaskID(strings.TrimPrefix(string(id), shard+"/"))
	}
	shard, task, ok := views.StandsFor(id)
	if !ok {
		return nil
	}
	of := shard + "/" + string(task)
	stands := &show.Part{Text: display.Text(of)}
	if h.ofShards() {
		stands.Link = h.up + show.Link("task", "id", of)
	}
	return stands
}
