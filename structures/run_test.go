package structures_test

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/stint-tasks/stint"
)

// A run performs a plan by the rules that matter here: R12 (signals and aborts) and R14 (joins),
// with what joins pass on.
type run struct {
	*drawnCase
	dependents map[stint.TaskID][]stint.TaskID
	missing    map[stint.TaskID]int
	told       map[stint.TaskID]tally
	ready      []stint.TaskID // or in progress: it has started and has not ended
	ended      map[stint.TaskID]stint.StatusCode
}

// A tally is what a task is told of those it waited for.
type tally struct{ completed, aborted int }

func newRun(c *drawnCase) *run {
	r := &run{
		drawnCase:  c,
		dependents: map[stint.TaskID][]stint.TaskID{},
		missing:    map[stint.TaskID]int{},
		told:       map[stint.TaskID]tally{},
		ended:      map[stint.TaskID]stint.StatusCode{},
	}
	for _, task := range c.plan.Tasks {
		r.missing[task.ID] = len(task.After)
		for _, id := range task.After {
			r.dependents[id] = append(r.dependents[id], task.ID)
		}
	}
	return r
}

func (r *run) perform(t *rapid.T) {
	for _, task := range r.plan.Tasks {
		if len(task.After) == 0 {
			r.start(t, task.ID)
		}
	}
	abortsPercent := rapid.SampledFrom([]int{0, 5, 30, 100}).Draw(t, "aborts")
	for len(r.ready) > 0 {
		i := rapid.IntRange(0, len(r.ready)-1).Draw(t, "next")
		id := r.ready[i]
		r.ready = slices.Delete(r.ready, i, i+1)
		code := stint.StatusCompleted
		if rapid.IntRange(0, 99).Draw(t, "fate") < abortsPercent {
			code = stint.StatusAborted
		}
		r.end(t, id, code)
	}
	if len(r.ended) != len(r.plan.Tasks) {
		t.Fatalf("%d tasks ended, want %d", len(r.ended), len(r.plan.Tasks))
	}
	want := stint.StatusCompleted
	for id := range r.whole.last {
		if r.ended[id] == stint.StatusAborted {
			want = stint.StatusAborted
		}
	}
	if got := r.ended[r.plan.End]; got != want {
		t.Fatalf("the end is %s, want %s", got, want)
	}
}

// start is called when the last signal for a task arrives.
func (r *run) start(t *rapid.T, id stint.TaskID) {
	task := r.tasks[id]
	if task.Action == stint.Spontaneous {
		r.end(t, id, stint.StatusCompleted)
		return
	}
	r.ready = append(r.ready, id)
	waits := task.OnAbort == stint.RunAnyway || !r.recovers(id)
	for before := range r.all[id] {
		if waits && r.ended[before] == "" {
			t.Fatalf("%q starts before %q has ended", id, before)
		}
	}
	for before := range r.last[id] {
		if task.OnAbort == stint.AbortToo && r.ended[before] != stint.StatusCompleted {
			t.Fatalf("%q starts while %q is %q", id, before, r.ended[before])
		}
	}
	var want tally
	for before, times := range r.behind(t, task) {
		if r.ended[before] == stint.StatusCompleted {
			want.completed += times
		} else {
			want.aborted += times
		}
	}
	if got := r.told[id]; got != want {
		t.Fatalf("%q is told %+v, want %+v", id, got, want)
	}
}

// recovers reports whether one of the tasks that a task follows runs anyway, so that the last of
// them may complete while others, aside from an abort, still run.
func (r *run) recovers(id stint.TaskID) bool {
	for before := range r.all[id] {
		if r.policy[before] == stint.RunAnyway {
			return true
		}
	}
	return false
}

func (r *run) end(t *rapid.T, id stint.TaskID, code stint.StatusCode) {
	r.ended[id] = code
	signal := tally{completed: 1}
	switch {
	case code == stint.StatusAborted:
		signal = tally{aborted: 1}
	case r.tasks[id].Action == stint.Spontaneous:
		signal = r.told[id]
	}
	for _, dependent := range r.dependents[id] {
		if r.ended[dependent] != "" {
			continue
		}
		if code == stint.StatusAborted && r.tasks[dependent].OnAbort == stint.AbortToo {
			r.end(t, dependent, stint.StatusAborted)
			continue
		}
		told := r.told[dependent]
		told.completed += signal.completed
		told.aborted += signal.aborted
		r.told[dependent] = told
		r.missing[dependent]--
		if r.missing[dependent] == 0 {
			r.start(t, dependent)
		}
	}
}
