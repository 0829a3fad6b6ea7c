package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/charts"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// An actionRow is an action in a list.
type actionRow struct {
	stint.ActionStats
	States []show.Tally
	All    int64
	Pace   charts.Pace
	Link   string
}

type overviewData struct {
	Partly  bool // as in [request]
	Empty   bool
	States  []show.Tally
	All     int64
	Spark   charts.Spark
	Notices []notice
	Checked *checkSaid // nil if nobody can have the store checked
	Actions []actionRow
	More    int // actions
	Others  []glimpse
	Now     time.Time
}

// overviewActions is how many actions the overview names.
const overviewActions = 12

// overview shows how things are, and what needs attention.
func overview(h *Handler, r *request) (view, error) {
	ctx := r.Context()
	stats, found, actors, err := h.asked.All(ctx)
	if err != nil {
		return view{}, err
	}
	attention := notices(stats, found.Problems, actors, h.answersFrom(), r.partly)
	if h.asked.Shards != nil {
		each, err := h.asked.Shards.Get(ctx)
		if err != nil {
			return view{}, err
		}
		attention = worstFirst(append(ofErrors(found.Problems), h.shardNotices(each, actors)...))
	}
	attention = worstFirst(append(attention, ofHidden(found.Hidden(stats))...))
	data := overviewData{
		Partly: r.partly,
		States: show.Tallies(stats), Spark: h.asked.Rates.Spark(), Now: r.now,
		Notices: attention, Checked: h.checkNotice(r),
		Others: h.glimpses(r, stats, actors),
	}
	for _, state := range data.States {
		data.All += state.Tasks
	}
	data.Empty = data.All == 0 && len(stats.Actions) == 0
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
	none := "none" + seen(r.partly)
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
		full += oneIf(isFull(a))
		paused += oneIf(a.Paused)
		parked += a.Parked
	}
	if oldest.Action != "" {
		ready := show.Link("tasks", "action", oldest.Action, "state", string(stint.StateReady))
		add("Oldest ready", ready,
			show.Old(oldest.OldestReady)+" old, of ", show.Action(oldest.Action))
	}
	owned := 0
	for i := range actors {
		owned += actors[i].Tasks
	}
	registered := "none registered" + seen(r.partly)
	if len(actors) > 0 && r.partly { // how many tasks they own is not told
		registered = display.Number(int64(len(actors))) + " registered" + seen(true)
	} else if len(actors) > 0 {
		registered = display.Number(int64(len(actors))) + " registered, with " +
			display.Count(int64(owned), "task")
	}
	add("Actors", "actors", registered)
	if h.asked.Limits != nil {
		add("Limits", "limits", inShort(none,
			some{limited, "limited"}, some{full, "full"}, some{paused, "paused"},
			some{parked, "ready tasks parked"}))
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

// seen says of what there is none that this is as far as whoever asks may see it.
func seen(partly bool) string {
	if partly {
		return " that you may see"
	}
	return ""
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

// A notice is something that needs attention, or may.
type notice struct {
	Bad   bool
	What  show.Sentence
	Where string // a page that tells more
	Key   string // what tells it from the others
	age   time.Duration
}

const (
	// readyLong is for how long a task may be ready before somebody should know.
	readyLong = time.Minute
	// behindLong is for how long, although somebody performs tasks of the action.
	behindLong = 10 * time.Minute
	// pruningLong is how far pruning may be behind: half a minute is usual.
	pruningLong = 5 * time.Minute
	// noticesMax is how many notices of a kind there are.
	noticesMax = 5
)

// notices says what needs attention, the worst first.
func notices(
	stats stint.Stats, found stint.Problems, actors []stint.ActorInfo, answersFrom string,
	partly bool,
) []notice {
	asked := map[string]bool{}
	for _, actor := range actors {
		for _, action := range actor.Actions {
			asked[action] = true
		}
	}
	var all []notice
	all = append(all, ofErrors(found)...)
	var stuck, paused []notice
	for i := range stats.Actions {
		a := &stats.Actions[i]
		waits := display.Count(a.Ready, "task")
		page := show.Link("action", "name", a.Action)
		switch {
		case a.Action == stint.External && a.Ready > 0:
			page = "waiting"
			verb := " wait"
			if a.Ready == 1 {
				verb = " waits"
			}
			paused = append(paused, notice{
				What: show.Say(waits + verb + " for an answer " + answersFrom + "."), Where: page,
				Key: "answers",
			})
		case a.Action == stint.External || a.Action == stint.Spontaneous:
		case a.Paused:
			paused = append(paused, notice{
				What:  show.Say(show.Action(a.Action), " is paused: "+waits+" ready."),
				Where: page, Key: "paused " + a.Action,
			})
		case a.OldestReady > readyLong && a.InProgress == 0 && !asked[a.Action]:
			stuck = append(stuck, notice{
				Bad: a.Ready > a.Parked, Where: page, Key: "stuck " + a.Action, age: a.OldestReady,
				What: show.Say("No registered actor"+seen(partly)+" performs ",
					show.Action(a.Action), ": "+waits+" ready, the oldest for "+
						display.Span(a.OldestReady)+heldUp(a)+"."),
			})
		case a.OldestReady > behindLong, a.OldestReady > readyLong && heldUp(a) != "":
			stuck = append(stuck, notice{
				Where: page, Key: "late " + a.Action, age: a.OldestReady,
				What: show.Say(show.Action(a.Action), " is behind: "+waits+" ready, the oldest "+
					"for "+display.Span(a.OldestReady)+heldUp(a)+"."),
			})
		}
	}
	slices.SortStableFunc(stuck, func(a, b notice) int { return cmp.Compare(b.age, a.age) })
	all = append(all, atMost(stuck, "actions wait")...)
	all = append(all, atMost(paused, "actions are paused")...)
	if stats.PruningBehind > pruningLong {
		all = append(all, notice{
			Bad: true, Key: "pruning",
			What: show.Say("Finished tasks stay too long: pruning is " +
				display.Span(stats.PruningBehind) + " behind."),
		})
	}
	return worstFirst(all)
}

// heldUp says what holds tasks of an action up, as far as counts tell.
func heldUp(a *stint.ActionStats) string {
	text := ""
	if isFull(a) {
		text = "; its limit is full"
	}
	if a.Parked > 0 {
		text += "; " + display.Number(a.Parked) + " parked by limits, pauses or turns of their keys"
	}
	return text
}

func isFull(a *stint.ActionStats) bool {
	return a.Concurrency > 0 && a.InProgress >= int64(a.Concurrency)
}

func worstFirst(all []notice) []notice {
	slices.SortStableFunc(all, func(a, b notice) int {
		switch {
		case a.Bad == b.Bad:
			return 0
		case a.Bad:
			return -1
		}
		return 1
	})
	return all
}

// atMost names some notices, and says how many more there are, if it is more than one.
func atMost(all []notice, kind string) []notice {
	if len(all) <= noticesMax+1 {
		return all
	}
	return append(all[:noticesMax:noticesMax], notice{
		What: show.Say(fmt.Sprintf("%d more %s.", len(all)-noticesMax, kind)), Where: "actions",
		Key: "more " + kind, Bad: all[noticesMax].Bad,
	})
}

// ofHidden are the actions whose failures no group of errors counts.
func ofHidden(hidden []ask.HiddenAction) (all []notice) {
	for _, one := range hidden {
		verb := " are"
		if one.Aborted == 1 {
			verb = " is"
		}
		all = append(all, notice{
			Bad: true, Where: one.Link, Key: "hidden " + one.Action,
			What: show.Say(show.Action(one.Action), ": "+display.Count(one.Aborted, "task")+verb+
				" aborted, of which no group of errors tells: others failed too often since."),
		})
	}
	return atMost(all, "actions have aborted tasks of which no group tells")
}

// ofErrors are the largest groups of errors.
func ofErrors(found stint.Problems) []notice {
	const most = 3
	var all []notice
	for i, group := range found.Errors {
		if i == most && len(found.Errors) > most+1 {
			all = append(all, notice{
				Bad: true, Where: "problems", Key: "errors",
				What: show.Say(fmt.Sprintf("%d more kinds of errors.", len(found.Errors)-most)),
			})
			break
		}
		said := ""
		if group.Error != "" {
			said = ": “" + display.Text(show.FirstWords(group.Error)) + "”"
		}
		verb := " were"
		if group.Tasks == 1 {
			verb = " was"
		}
		all = append(all, notice{
			Bad: true, Where: show.Link("task", "id", string(group.Example)),
			Key: "error " + group.Action + " " + group.Error,
			What: show.Say(show.Action(group.Action), ": "+
				display.Count(int64(group.Tasks), "task")+" failed or"+verb+" given back"+said),
		})
	}
	return all
}
