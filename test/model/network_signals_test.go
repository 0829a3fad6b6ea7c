package model_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
)

// follow does what follows from the state of the tasks: signals, aborts by dependency, completions
// of joins, and tasks that are skipped or deleted. What a task waits for comes before it, so all
// that is due to it counts when it is decided what becomes of it: an abort before all else.
func (r *netReference) follow() {
	done := map[stint.TaskID]bool{}
	var visit func(id stint.TaskID)
	visit = func(id stint.TaskID) {
		task := r.tasks[id]
		if task == nil || done[id] {
			return
		}
		done[id] = true
		for before := range task.after {
			visit(before)
		}
		if !task.final() && (task.waits() || task.open || task.joins() && task.isFree()) {
			r.decide(task)
		}
		task.open, task.orphaned = false, false
	}
	for _, id := range r.ids() {
		visit(id)
	}
}

// decide takes the signals that have come for a task, and ends it if it ends by them.
func (r *netReference) decide(task *netTask) {
	for id, taken := range task.after {
		if !taken && r.tasks[id].state == stint.StateAborted && task.fallsWith(id) {
			task.end(stint.StateAborted, stint.CauseDependency)
			task.token = stint.Token{}
			return
		}
	}
	unmet := r.take(task) || !task.any && task.unmet > 0
	task.chosen = task.chosen || task.any && task.met > 0
	switch {
	case unmet:
		task.end(stint.StateSkipped, "")
	case task.any && !task.chosen && !task.waits() && len(task.after)+task.unmet > 0:
		if task.passed > 0 && task.OnAbort == stint.AbortToo {
			task.end(stint.StateAborted, stint.CauseDependency)
		} else {
			task.end(stint.StateSkipped, "")
		}
	case task.orphaned && len(task.after)+task.met+task.unmet == 0 && !task.held:
		r.leave(task.ID, true)
	case task.joins() && task.isFree():
		task.end(stint.StateCompleted, "")
	}
}

// fallsWith reports whether an abort of the predecessor aborts the task.
func (t *netTask) fallsWith(id stint.TaskID) bool {
	condition, ok := t.conditions[id]
	return t.OnAbort == stint.AbortToo && !t.any &&
		(!ok || !slices.Contains(condition.States, stint.StateAborted))
}

// isFree reports whether nothing holds the task up.
func (t *netTask) isFree() bool { return t.place() == stint.StateReady }

// take takes the signals that have come for a task. It reports whether one does not meet its
// condition.
func (r *netReference) take(task *netTask) (unmet bool) {
	for id, taken := range task.after {
		before := r.tasks[id]
		if taken || !before.final() {
			continue
		}
		task.after[id] = true
		met := task.isMet(id, before)
		switch {
		case before.state == stint.StateAborted:
			task.told.aborted++
			if !met {
				task.passed++
			}
		case before.state == stint.StateSkipped:
		case before.joins() && task.any && !met:
			task.told.completed += before.told.completed
		case before.joins():
			task.told.completed += before.told.completed
			task.told.aborted += before.told.aborted
		default:
			task.told.completed++
		}
		if task.any && met {
			task.chosen = true
		}
		unmet = unmet || !task.any && !met
	}
	return unmet
}

// isMet reports whether a predecessor has ended as the task wants it.
func (t *netTask) isMet(id stint.TaskID, before *netTask) bool {
	condition, ok := t.conditions[id]
	switch {
	case !ok:
		return before.state == stint.StateCompleted || t.OnAbort == stint.RunAnyway
	case len(condition.States) > 0 && !slices.Contains(condition.States, before.state),
		len(condition.States) == 0 && before.state != stint.StateCompleted:
		return false
	case before.state == stint.StateCompleted && len(condition.Results) > 0:
		return slices.Contains(condition.Results, before.result)
	}
	return true
}

// describe says what a task waits for, for people to read.
func (r *netReference) describe(task *netTask) string {
	var lines []string
	for id, taken := range task.after {
		lines = append(lines, fmt.Sprintf("%q (%s, signal taken: %t, condition %v)", id,
			r.tasks[id].place(), taken, task.conditions[id]))
	}
	slices.Sort(lines)
	return fmt.Sprintf("%s, %v, first of several: %t, waits for %s", task.Action, task.OnAbort,
		task.any, strings.Join(lines, ", "))
}

// leave takes a task out of the store: it is deleted, or replaced. What waited for it no longer
// does, and what a condition says about it is decided.
func (r *netReference) leave(id stint.TaskID, deleted bool) {
	gone := r.tasks[id]
	delete(r.tasks, id)
	for _, task := range r.tasks {
		if taken, ok := task.after[id]; ok {
			task.open = task.open || !task.final() && !taken && !task.chosen
			task.forget(id, gone, deleted)
			task.untie(id)
		}
	}
}

// forget notes what is left of a predecessor that leaves the store.
func (t *netTask) forget(id stint.TaskID, gone *netTask, deleted bool) {
	_, conditional := t.conditions[id]
	switch {
	case conditional && gone.final() && t.isMet(id, gone):
		t.met++
	case conditional:
		t.unmet++
	case !gone.final() && deleted:
		t.orphaned = true
	default:
		t.held = t.held || !t.final()
	}
}

// untie lets a task wait for another no more. One that waits for none any more may be tied again.
func (t *netTask) untie(id stint.TaskID) {
	delete(t.after, id)
	delete(t.conditions, id)
	if len(t.after) == 0 && t.met+t.unmet == 0 {
		t.any, t.chosen = false, false
	}
}

// handOver gives a task what the one of its ID has been to those that it names in ToSignalAfter.
func (r *netReference) handOver(batch []netTask, i int) {
	id := batch[i].ID
	for _, run := range batch[i].ToSignalAfter {
		task := r.tasks[run]
		isRun := func(other netTask) bool { return other.ID == run }
		if task == nil || !task.waits() || task.final() || slices.ContainsFunc(batch, isRun) ||
			!task.waitsOnce(id) {
			continue
		}
		if condition, ok := task.conditions[id]; ok {
			if batch[i].into == nil {
				batch[i].into = map[stint.TaskID]stint.Condition{}
			}
			batch[i].into[run] = condition
		}
		delete(task.after, id)
		delete(task.conditions, id)
	}
}
