package ui

import (
	"cmp"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/charts"
	"github.com/stint-tasks/stint/ui/internal/notices"
	"github.com/stint-tasks/stint/ui/internal/show"
)

type overviewData struct {
	Partly    bool // as in [request]
	Empty     bool
	States    []show.Tally
	All       int64
	Spark     charts.Spark
	Day       *charts.Day // nil if nothing is noted
	Notices   []noticeRow
	LastCheck *checkSaid // nil if nobody can have the store checked
	Actions   []actionRow
	More      int // actions
	Others    []glimpse
	Now       time.Time
}

// overviewActions is how many actions the overview names.
const overviewActions = 12

// overviewPage shows how things are, and what needs attention.
func overviewPage(h *Handler, r *request) (view, error) {
	ctx := r.Context()
	stats, found, actors, err := h.asked.All(ctx)
	if err != nil {
		return view{}, err
	}
	attention, err := h.attention(r, stats, &found, actors)
	if err != nil {
		return view{}, err
	}
	data := overviewData{
		Partly: r.partly,
		States: show.Tallies(stats), Spark: h.asked.Rates.Spark(), Now: r.now,
		Notices: attention, LastCheck: h.checkNotice(r),
		Others: h.glimpses(r, stats, actors),
	}
	for _, state := range data.States {
		data.All += state.Tasks
	}
	data.Empty = data.All == 0 && len(stats.Actions) == 0 && len(attention) == 0
	if !data.Partly {
		data.Day = h.asked.Day(ctx, "", r.now)
	}
	data.Actions = actionRows(stats, &h.asked.Rates)
	if len(data.Actions) > overviewActions {
		data.Actions, data.More = data.Actions[:overviewActions],
			len(data.Actions)-overviewActions
	}
	return view{name: "overview", data: data}, nil
}

// A glimpse is what is on another page, in short.
type glimpse struct {
	Name, Link string
	Said       show.Sentence
}

// glimpses are those of the pages that the store has verbs for.
func (h *Handler) glimpses(
	r *request, stats stint.Stats, actors []stint.ActorInfo,
) (all []glimpse) {
	none := "none" + show.Seen(r.partly)
	add := func(name, link string, pieces ...any) {
		all = append(all, glimpse{name, link, show.Say(pieces...)})
	}
	oldest := &stint.ActionStats{}
	var limited, full, paused, parked int64
	for i := range stats.Actions {
		a := &stats.Actions[i]
		if a.Action != stint.External && a.OldestReady > oldest.OldestReady {
			oldest = a
		}
		limited += oneIf(a.Limited)
		full += oneIf(notices.IsFull(a))
		paused += oneIf(a.Paused)
		parked += a.Parked
	}
	if oldest.Action != "" {
		ready := show.Link("tasks", "action", oldest.Action, "state", string(stint.StateReady))
		add("Oldest ready", ready,
			show.Old(oldest.OldestReady)+" old, of ", show.Action(oldest.Action))
	}
	add("Actors", "actors", inShort("none registered", some{int64(len(actors)), "registered"})+
		show.Seen(r.partly))
	if h.asked.Limits != nil {
		add("Limits", "limits", inShort(none,
			some{limited, "limited"}, some{full, "full"}, some{paused, "paused"},
			some{parked, plural(int(parked), "ready task parked", "ready tasks parked")}))
	}
	if h.asked.Schedules == nil {
		return all
	}
	if found, err := h.asked.Schedules.Get(r.Context()); err == nil {
		add("Schedules", "schedules", schedulesInShort(found, none, r.now)...)
	}
	return all
}

func oneIf(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// some are so many things that are something.
type some struct {
	n  int64
	is string
}

// inShort says how many there are of each, without those of which there are none.
func inShort(none string, all ...some) string {
	var said []string
	for _, one := range all {
		if one.n > 0 {
			said = append(said, display.Number(one.n)+" "+one.is)
		}
	}
	return cmp.Or(strings.Join(said, ", "), none)
}

// schedulesInShort says how many schedules there are, and when the next one is due.
func schedulesInShort(found []stint.ScheduleInfo, none string, now time.Time) []any {
	var next time.Time
	var paused int64
	for i := range found {
		paused += oneIf(!found[i].PausedSince.IsZero())
		if at := found[i].NextAt; !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	running := int64(len(found)) - paused
	said := []any{inShort(none, some{running, "running"}, some{paused, "paused"})}
	if !next.IsZero() {
		said = append(said, ", the next ", show.NewMoment(next, now))
	}
	return said
}
