package modeltest_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
)

// follow does what follows from the state of the tasks: signals, aborts by dependency, completions
// of joins, and tasks that are skipped. It goes on by levels, as R23 says: what ends in one counts
// in the next, and an abort brings everything down first.
func (r *netReference) follow() {
	for again := true; again; {
		again = r.bringDown()
		for r.level() {
			again = true
		}
		for _, task := range r.tasks {
			if task.fresh = false; task.falls {
				task.falls, again = false, true
				task.end(stint.StateAborted, stint.CauseDependency)
			}
		}
	}
}

// fallsWith reports whether an abort of the predecessor aborts the task.
func (t *netTask) fallsWith(id stint.TaskID) bool {
	condition, ok := t.conditions[id]
	return t.OnAbort == stint.AbortToo && !t.any &&
		(!ok || !slices.Contains(condition.States, stint.StateAborted))
}

// bringDown aborts what falls with its predecessors. It reports whether there was anything.
func (r *netReference) bringDown() (some bool) {
	for again := true; again; {
		again = false
		for _, task := range r.tasks {
			for id, taken := range task.after {
				if !taken && !task.final() && r.tasks[id].state == stint.StateAborted &&
					task.fallsWith(id) {
					task.end(stint.StateAborted, stint.CauseDependency)
					task.token = stint.Token{}
					again, some = true, true
				}
			}
		}
	}
	return some
}

// level takes the signals of all tasks that have ended, and ends what ends by them. It reports
// whether there was anything.
func (r *netReference) level() (some bool) {
	var decided []func()
	for _, task := range r.tasks {
		completes := task.joins() && task.isFree()
		if task.final() || !task.waits() && !task.fresh && !completes {
			continue
		}
		took, unmet := r.take(task)
		some = some || took
		switch {
		case unmet:
			decided = append(decided, func() { task.end(stint.StateSkipped, "") })
		case task.any && !task.chosen && len(task.after) > 0 && !task.waits():
			decided = append(decided, task.passOver)
		case task.joins() && task.isFree():
			decided = append(decided, func() { task.end(stint.StateCompleted, "") })
		}
	}
	for _, end := range decided {
		end()
	}
	return some || len(decided) > 0
}

// isFree reports whether nothing holds the task up.
func (t *netTask) isFree() bool { return t.place() == stint.StateReady }

// passOver ends a task that the first of several was to start, and none does. One that was aborted
// aborts it behind the other signals.
func (t *netTask) passOver() {
	switch {
	case t.falls:
	case t.passed > 0 && t.OnAbort == stint.AbortToo:
		t.falls = true
	default:
		t.end(stint.StateSkipped, "")
	}
}

// take takes the signals that have come for a task. It reports whether there were any, and whether
// one does not meet its condition.
func (r *netReference) take(task *netTask) (some, unmet bool) {
	for id, taken := range task.after {
		before := r.tasks[id]
		if taken || !before.final() {
			continue
		}
		some = true
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
			task.chosen, task.fresh = true, true
		}
		unmet = unmet || !task.any && !met
	}
	return some, unmet
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
