package model_test

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-tasks/stint"
)

// A newWait is how tasks are to wait: with what is changed of them, and when they start, in steps
// from now, 0 for none.
type newWait struct {
	stint.TaskChanges
	start int
}

func drawChanges(t *rapid.T) newWait {
	to := newWait{start: rapid.SampledFrom([]int{0, 0, 1, 2, -1}).Draw(t, "start")}
	if rapid.Bool().Draw(t, "prioritised") {
		to.Priority = new(rapid.SampledFrom([]int16{0, 1, -1}).Draw(t, "priority"))
	}
	if rapid.Bool().Draw(t, "keyed") {
		to.Key = new(rapid.SampledFrom([]string{"", "k", "l"}).Draw(t, "key"))
	}
	to.MaxTries = rapid.SampledFrom([]int{0, 0, 1, 2, 3, stint.UnlimitedTries}).Draw(t, "tries")
	if to.start == 0 {
		to.StartNow = rapid.Bool().Draw(t, "now") || to.TaskChanges == stint.TaskChanges{}
	}
	return to
}

// dated is the same with its start on the clock, as [dated] has it.
func (w newWait) dated() stint.TaskChanges {
	if w.start != 0 {
		w.NotBefore = time.Now().Add(time.Duration(w.start)*step - time.Minute)
	}
	return w.TaskChanges
}

func (r *reference) change(ids []stint.TaskID, to newWait) (changed []stint.TaskID, err error) {
	if err := r.missing(ids); err != nil {
		return nil, err
	}
	var started []stint.TaskID
	for _, id := range ids {
		if task := r.tasks[id]; task.late || task.final() ||
			task.state == stint.StateInProgress {
			started = append(started, id)
		}
	}
	if len(started) > 0 {
		return nil, taskError(started, stint.ErrTaskStarted)
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	var begun []*referenceTask
	for _, id := range ids {
		task := r.tasks[id]
		was := *task
		if to.Priority != nil {
			task.Priority = *to.Priority
		}
		if to.Key != nil {
			task.holds = task.holds && task.Key == *to.Key
			task.Key = *to.Key
		}
		switch {
		case to.MaxTries == stint.UnlimitedTries:
			task.MaxTries = to.MaxTries
		case to.MaxTries > 0:
			task.MaxTries = max(to.MaxTries, task.tries+1)
		}
		differs := task.Priority != was.Priority || task.Key != was.Key ||
			task.MaxTries != was.MaxTries
		switch now := to.StartNow || to.start < 0; {
		case to.start > 0: // to the step only: the times differ in any case
			task.state, task.until, differs = stint.StateScheduled, r.now+to.start, true
		case now && task.state == stint.StateScheduled:
			begun, differs = append(begun, task), true
		}
		if differs {
			task.moved = task.moved || r.ruled(task.Action)
			changed = append(changed, id)
		}
	}
	// Those that were due earlier go ahead.
	slices.SortStableFunc(begun, func(a, b *referenceTask) int { return a.until - b.until })
	for i, task := range begun {
		if i == 0 || task.until != begun[i-1].until {
			r.positions++
		}
		task.state, task.position, task.place = stint.StateReady, r.positions, 0
	}
	r.positions++
	return changed, nil
}

// change changes how tasks wait. It leaves scheduled joins alone, which end only when somebody
// looks for what is due.
func (m *netMachine) change(t *rapid.T) {
	ids := slices.DeleteFunc(m.drawIDs(t, 3, "ids"), func(id stint.TaskID) bool {
		task := m.model.tasks[id]
		return task != nil && task.joins() && task.place() == stint.StateScheduled
	})
	to := stint.TaskChanges{
		MaxTries: rapid.SampledFrom([]int{0, 1, 2, stint.UnlimitedTries}).Draw(t, "tries"),
		Priority: new(rapid.SampledFrom([]int16{0, 1}).Draw(t, "priority")),
	}
	switch rapid.SampledFrom([]string{"", "now", "later"}).Draw(t, "start") {
	case "now":
		to.StartNow = true
	case "later":
		to.NotBefore = time.Now().Add(time.Hour)
	}
	_, err := m.queue.ChangeTasks(t.Context(), ids, to)
	m.judge(t, "ChangeTasks", err, m.model.change(ids, to), nil)
}

func (r *netReference) change(ids []stint.TaskID, to stint.TaskChanges) verdicts {
	var wrong verdicts
	if wrong.add(r.missing(ids), stint.ErrTaskNotFound); len(wrong) > 0 {
		return wrong
	}
	var started []stint.TaskID
	for _, id := range ids {
		if r.tasks[id].started() {
			started = append(started, id)
		}
	}
	if wrong.add(started, stint.ErrTaskStarted); len(wrong) > 0 {
		return wrong
	}
	for _, id := range ids {
		task := r.tasks[id]
		task.Priority = *to.Priority
		task.early = (task.early || !to.NotBefore.IsZero()) && !to.StartNow
		switch {
		case to.MaxTries == stint.UnlimitedTries:
			task.MaxTries = to.MaxTries
		case to.MaxTries > 0:
			task.MaxTries = max(to.MaxTries, task.tries+1)
		}
	}
	return nil
}
