package ui

import (
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/ask"
)

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

// actorsPage lists who performs tasks.
func actorsPage(h *Handler, r *request) (view, error) {
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
