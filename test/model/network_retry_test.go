package model_test

import (
	"slices"

	"github.com/stint-tasks/stint"
)

// retry opens tasks again, with what they brought down.
func (r *netReference) retry(ids []stint.TaskID) verdicts {
	var wrong verdicts
	if wrong.add(r.missing(ids), stint.ErrTaskNotFound); len(wrong) > 0 {
		return wrong
	}
	opened := r.broughtDown(ids)
	keptDown := func(id stint.TaskID) (by []stint.TaskID) {
		for before := range r.tasks[id].after {
			if r.tasks[before].state == stint.StateAborted && !opened[before] &&
				r.tasks[id].fallsWith(before) {
				by = append(by, before)
			}
		}
		return by
	}
	for again := true; again; {
		again = false
		for id := range opened {
			if !slices.Contains(ids, id) && len(keptDown(id)) > 0 {
				delete(opened, id)
				again = true
			}
		}
	}
	var refused []stint.TaskID
	for id := range opened {
		refused = append(refused, keptDown(id)...)
	}
	if wrong.add(refused, stint.ErrPredecessorAborted); len(wrong) > 0 {
		return wrong
	}
	next := r.clone()
	for id := range opened {
		next.takeBack(id, opened)
	}
	for id := range opened {
		next.tasks[id].reopen()
	}
	if next.cyclic() {
		return verdicts{stint.ErrCycle}
	}
	next.follow()
	r.tasks = next.tasks
	return nil
}

// broughtDown are those of the tasks that have ended, and what was aborted because of them.
func (r *netReference) broughtDown(ids []stint.TaskID) map[stint.TaskID]bool {
	down := map[stint.TaskID]bool{}
	for _, id := range ids {
		if r.tasks[id].final() {
			down[id] = true
		}
	}
	for again := true; again; {
		again = false
		for id, task := range r.tasks {
			if down[id] || task.cause != stint.CauseDependency && task.state != stint.StateSkipped {
				continue
			}
			for before := range task.after {
				if down[before] && (task.state == stint.StateSkipped ||
					r.tasks[before].state == stint.StateAborted) {
					down[id], again = true, true
				}
			}
		}
	}
	return down
}

// takeBack takes back the signals of a task that has ended. What had begun keeps them, and is not
// tied to the task any more.
func (r *netReference) takeBack(id stint.TaskID, opened map[stint.TaskID]bool) {
	ended := r.tasks[id]
	for other, task := range r.tasks {
		_, waited := task.after[id]
		switch {
		case !waited || opened[other] || task.state == stint.StateAborted ||
			task.state == stint.StateSkipped:
		case task.started() || task.chosen:
			task.untie(id)
		default:
			task.after[id] = false
			sent := signals{completed: 1}
			switch {
			case ended.state == stint.StateAborted:
				sent = signals{aborted: 1}
				task.passed--
			case ended.state == stint.StateSkipped:
				sent = signals{}
			case ended.joins():
				sent = ended.told
				if task.any {
					sent.aborted = 0
				}
			}
			task.told.completed -= sent.completed
			task.told.aborted -= sent.aborted
		}
	}
}

func (t *netTask) reopen() {
	t.end(statePending, "")
	t.early, t.tries, t.token, t.told = false, 0, stint.Token{}, signals{}
	t.losses = losses{}
	t.chosen, t.passed, t.result, t.open = false, 0, "", true
	for before := range t.after {
		t.after[before] = false
	}
}

// settled are the edges that nobody waits along.
func (r *netReference) settled() []stint.Dependency {
	var edges []stint.Dependency
	for id, task := range r.tasks {
		for before, taken := range task.after {
			if taken || task.final() {
				edges = append(edges, stint.Dependency{Predecessor: before, Dependent: id})
			}
		}
	}
	return edges
}
