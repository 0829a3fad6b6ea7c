package ui

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/show"
)

type problemsData struct {
	Partly bool // as in [request]
	stint.Problems
	Counted int
	Hidden  []ask.HiddenAction // whose failures are not counted
	Now     time.Time
}

// problems lists errors in groups, and the tasks to look at first.
func problems(h *Handler, r *request) (view, error) {
	found, err := h.asked.Troubles.Get(r.Context())
	if err != nil {
		return view{}, err
	}
	data := problemsData{
		Partly: r.partly, Problems: found.Problems, Counted: ask.CountedErrorsMax, Now: r.now,
	}
	if stats, err := h.asked.Counts.Get(r.Context()); err == nil {
		data.Hidden = found.Hidden(stats)
	}
	const most = 20
	kinds := []*[]stint.TaskInfo{&data.Slow, &data.Failing, &data.Failed, &data.Unwatched}
	for _, tasks := range kinds {
		*tasks = (*tasks)[:min(len(*tasks), most)]
	}
	return view{name: "problems", data: data}, nil
}

type actorsData struct {
	Partly bool // as in [request]
	Actors []stint.ActorInfo
	More   int
	Tasks  int
	Others []otherOwner // who own tasks, though nobody watches their processes
	OrMore bool         // these may own more
	Now    time.Time
}

// An otherOwner is one whose process nobody watches.
type otherOwner struct {
	Actor stint.ActorID
	Tasks int
	Until time.Time // when the last of its leases expires; zero: never
}

// othersOf are the owners of tasks whose processes nobody watches.
func othersOf(unwatched []stint.TaskInfo) (others []otherOwner) {
	at := map[stint.ActorID]int{}
	for i := range unwatched {
		task := &unwatched[i]
		k, ok := at[task.Actor]
		if !ok { // the task whose lease expires last is the first one
			k = len(others)
			at[task.Actor] = k
			others = append(others, otherOwner{Actor: task.Actor, Until: task.LeaseUntil})
		}
		others[k].Tasks++
	}
	return others
}

// actorsMax is how many actors are listed.
const actorsMax = 1000

// actors lists who performs tasks.
func actors(h *Handler, r *request) (view, error) {
	found, err := h.asked.Actors.Get(r.Context())
	if err != nil {
		return view{}, err
	}
	trouble, err := h.asked.Troubles.Get(r.Context())
	if err != nil {
		return view{}, err
	}
	data := actorsData{
		Partly: r.partly, Actors: found, Others: othersOf(trouble.Unwatched), Now: r.now,
		OrMore: len(trouble.Unwatched) >= ask.ProblemsMax,
	}
	for _, actor := range found {
		data.Tasks += actor.Tasks
	}
	if len(found) > actorsMax {
		data.Actors, data.More = found[:actorsMax], len(found)-actorsMax
	}
	return view{name: "actors", data: data}, nil
}

// A limitRow is an action with limits, pauses or weights.
type limitRow struct {
	stint.ActionLimits
	Link       string
	Rate       string
	RatePerKey string
	Full       bool
	Paused     []pausedKey
	PausedMore int
	Weighted   []weightedKey
	Offer      *offer // what can be done with the action
}

type pausedKey struct {
	Key   string
	Since time.Time
	Link  string
	Offer *offer
}

type weightedKey struct {
	Key    string
	Weight int
}

// keysMax is how many keys of an action are named.
const keysMax = 50

func newLimitRow(l *stint.ActionLimits) limitRow {
	row := limitRow{
		ActionLimits: *l, Link: show.Link("action", "name", l.Action),
		Rate: rateText(l.Limits.Rate), RatePerKey: rateText(l.Limits.RatePerKey),
		Full: l.Limits.Concurrency > 0 && l.InProgress >= l.Limits.Concurrency,
	}
	for _, key := range slices.Sorted(maps.Keys(l.PausedKeys)) {
		if len(row.Paused) == keysMax {
			row.PausedMore = len(l.PausedKeys) - keysMax
			break
		}
		row.Paused = append(row.Paused, pausedKey{
			Key: key, Since: l.PausedKeys[key],
			Link: show.Link("tasks", "action", l.Action, "key", key),
		})
	}
	for _, key := range slices.Sorted(maps.Keys(l.Weights)) {
		if len(row.Weighted) == keysMax {
			break
		}
		row.Weighted = append(row.Weighted, weightedKey{key, l.Weights[key]})
	}
	return row
}

// rateText says a rate in words.
func rateText(r stint.Rate) string {
	if r == (stint.Rate{}) {
		return ""
	}
	text := display.Number(int64(r.Tasks)) + " per "
	switch r.Per {
	case time.Second:
		text += "second"
	case time.Minute:
		text += "minute"
	case time.Hour:
		text += "hour"
	default:
		text += r.Per.String()
	}
	if r.Burst > 1 {
		text += ", " + display.Number(int64(r.Burst)) + " at once"
	}
	return text
}

type limitsData struct {
	Partly bool // as in [request]
	Limits []limitRow
	More   int
	Offers bool // something can be done
	Now    time.Time
}

// limits lists limits and pauses.
func limits(h *Handler, r *request) (view, error) {
	found, err := h.asked.Limits.Get(r.Context())
	if err != nil {
		return view{}, err
	}
	data := limitsData{Partly: r.partly, Now: r.now}
	if len(found) > actionsMax {
		found, data.More = found[:actionsMax], len(found)-actionsMax
	}
	for i := range found {
		row := newLimitRow(&found[i])
		h.offerLimits(r, &row)
		data.Offers = data.Offers || row.Offer != nil
		data.Limits = append(data.Limits, row)
	}
	return view{name: "limits", data: data}, nil
}

// offerLimits offers what can be done with an action and its keys.
func (h *Handler) offerLimits(r *request, row *limitRow) {
	of := func(key string) []field {
		return append(target{action: row.Action, key: key}.fields(), field{"back", here(r)})
	}
	row.Offer = h.offer(r, of(""), pauseOr(row.PausedSince), "limit")
	if row.Offer != nil && h.offers(r, "limit") {
		row.Offer.Buttons[len(row.Offer.Buttons)-1].Text = "Limits…"
	}
	for i := range row.Paused {
		row.Paused[i].Offer = h.offer(r, of(row.Paused[i].Key), "resume")
	}
}

// pauseOr is the end of a pause, if there is one.
func pauseOr(since time.Time) string {
	if since.IsZero() {
		return "pause"
	}
	return "resume"
}

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
	Offers    bool // something can be done
	Now       time.Time
}

const (
	// schedulesMax is how many schedules are listed, nextMax how many of their occurrences.
	schedulesMax = 500
	nextMax      = 3
)

// schedules lists when tasks are inserted again.
func schedules(h *Handler, r *request) (view, error) {
	found, err := h.asked.Schedules.Get(r.Context())
	if err != nil {
		return view{}, err
	}
	data := schedulesData{Partly: r.partly, Now: r.now}
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
		var actions []string
		for _, task := range found[i].Tasks {
			if !slices.Contains(actions, task.Action) && len(actions) < nextMax {
				actions = append(actions, task.Action)
			}
		}
		row.Actions = strings.Join(actions, ", ")
		row.Offer = h.offer(r, append(target{schedule: row.Name}.fields(),
			field{"back", here(r)}), pauseOr(row.PausedSince), "trigger")
		data.Offers = data.Offers || row.Offer != nil
		data.Schedules = append(data.Schedules, row)
	}
	return view{name: "schedules", data: data}, nil
}
