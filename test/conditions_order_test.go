package stint_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A fate is what becomes of a predecessor: events one after the other, and how it has ended then.
type fate struct {
	events []string
	end    stint.State // empty: it was replaced or deleted before it ended
	result string
}

// isReplaced reports whether the predecessor was replaced rather than deleted.
func (f fate) isReplaced() bool { return f.events[0] == "replace" }

var fates = []fate{
	{events: []string{"yes"}, end: isCompleted, result: "yes"},
	{events: []string{"no"}, end: isCompleted, result: "no"},
	{events: []string{"abort"}, end: isAborted},
	{events: []string{"skip"}, end: isSkipped},
	{events: []string{"yes", "delete"}, end: isCompleted, result: "yes"},
	{events: []string{"yes", "replace"}, end: isCompleted, result: "yes"},
	{events: []string{"no", "delete"}, end: isCompleted, result: "no"},
	{events: []string{"abort", "delete"}, end: isAborted},
	{events: []string{"skip", "replace"}, end: isSkipped},
	{events: []string{"delete"}},
	{events: []string{"delete"}},
	{events: []string{"delete"}},
	{events: []string{"replace"}},
	{events: []string{"replace", "delete"}},
}

// A fated network is a task that waits for others, by conditions or without, and two behind it.
type fatedNetwork struct {
	conditions []*stint.Condition // of the edge from each of the others; nil: none
	anyOf      bool
	onAbort    stint.OnAbort
	fates      []fate
}

func (n *fatedNetwork) String() string {
	text := fmt.Sprintf("OnAbort %v, any of %t", n.onAbort, n.anyOf)
	for i, condition := range n.conditions {
		text += fmt.Sprintf("; %d: %v", i, n.fates[i].events)
		if condition != nil {
			text += fmt.Sprintf(" if %v %v", condition.States, condition.Results)
		}
	}
	return text
}

func drawFated(random *rand.Rand) *fatedNetwork {
	n := &fatedNetwork{
		anyOf: random.IntN(3) == 0, onAbort: []stint.OnAbort{0, stint.RunAnyway}[random.IntN(2)],
	}
	plain := !n.anyOf && random.IntN(3) == 0
	for range 1 + random.IntN(3) {
		conditions := []*stint.Condition{
			{Results: []string{"yes"}},
			{},
			{States: []stint.State{isAborted}},
			{States: []stint.State{isSkipped, isCompleted}},
			{States: []stint.State{isCompleted, isAborted, isSkipped}},
			nil, nil, nil,
		}
		condition := conditions[random.IntN(len(conditions))]
		switch {
		case plain:
			condition = nil
		case n.anyOf && condition == nil:
			condition = &stint.Condition{}
		}
		n.conditions = append(n.conditions, condition)
		n.fates = append(n.fates, fates[random.IntN(len(fates))])
	}
	return n
}

// tasks are the network under a name of its own.
func (n *fatedNetwork) tasks(name string) []stint.Task {
	id := func(of string) stint.TaskID { return stint.TaskID(name + of) }
	run := stint.Task{ID: id("run"), Action: "act", OnAbort: n.onAbort}
	var all []stint.Task
	for i, condition := range n.conditions {
		before := id(fmt.Sprint(i))
		all = append(all, stint.Task{ID: before, Action: stint.External})
		switch {
		case condition == nil:
			run.After = append(run.After, before)
			continue
		case n.anyOf:
			run.WhenAny = append(run.WhenAny, *condition)
			run.WhenAny[len(run.WhenAny)-1].After = before
		default:
			run.When = append(run.When, *condition)
			run.When[len(run.When)-1].After = before
		}
	}
	return append(all, run, after(id("next"), run.ID), anyway(id("last"), run.ID))
}

// ends are the states that the task may have in the end: several only if an abort and a skip come
// in calls of their own, of which the first decides. Empty: it was deleted.
func (n *fatedNetwork) ends() (may []stint.State) {
	var aborts, skips, met, deleted int
	for i, condition := range n.conditions {
		f := n.fates[i]
		switch {
		case condition == nil && f.end == isAborted && n.onAbort == stint.AbortToo:
			aborts++
		case condition == nil && f.end == isSkipped && n.onAbort == stint.AbortToo:
			skips++
		case condition == nil && f.end == "" && !f.isReplaced():
			deleted++
		case condition == nil:
			met++
		case n.isMet(i):
			met++
		case f.end == isAborted && n.onAbort == stint.AbortToo &&
			!slices.Contains(condition.States, isAborted):
			aborts++
		default:
			skips++
		}
	}
	switch {
	case n.anyOf && met > 0, aborts+skips == 0 && deleted < len(n.conditions):
		return []stint.State{stint.StateReady}
	case aborts+skips == 0:
		return []stint.State{""}
	case n.anyOf && aborts > 0:
		return []stint.State{isAborted}
	}
	if aborts > 0 {
		may = append(may, isAborted)
	}
	if skips > 0 {
		may = append(may, isSkipped)
	}
	return may
}

// isMet reports whether a predecessor ended as its condition says.
func (n *fatedNetwork) isMet(i int) bool {
	condition, f := n.conditions[i], n.fates[i]
	states := condition.States
	if len(states) == 0 {
		states = []stint.State{isCompleted}
	}
	return f.end != "" && slices.Contains(states, f.end) && (f.end != isCompleted ||
		len(condition.Results) == 0 || slices.Contains(condition.Results, f.result))
}

// orders are all orders of the events of the predecessors, each the places of these, or some at
// random if there are many.
func (n *fatedNetwork) orders(random *rand.Rand) [][]int {
	var all [][]int
	left := make([]int, len(n.fates))
	for i, f := range n.fates {
		left[i] = len(f.events)
	}
	var walk func(so []int)
	walk = func(so []int) {
		over := true
		for i := range left {
			if left[i] > 0 {
				over = false
				left[i]--
				walk(append(slices.Clone(so), i))
				left[i]++
			}
		}
		if over {
			all = append(all, so)
		}
	}
	walk(nil)
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(len(all), 8)]
}

// happen lets an event happen to a task.
func happen(t *testing.T, store *stint.Store, event string, id stint.TaskID) {
	t.Helper()
	answer := stint.Answer{ID: id, Code: stint.StatusCompleted}
	switch event {
	case "yes", "no":
		answer.Result = []byte(event)
	case "abort":
		answer.Code = stint.StatusAborted
	case "skip":
		answer.Code = stint.StatusSkipped
	case "replace":
		wantErr(t, "ReplaceTasks", store.ReplaceTasks(t.Context(), []stint.Task{
			{ID: id, Action: stint.External},
		}), nil)
		return
	default:
		ids := []stint.TaskID{id}
		told, err := store.DryRun().DeleteTasks(t.Context(), ids)
		wantErr(t, "the dry run of DeleteTasks", err, nil)
		done, err := store.DeleteTasks(t.Context(), ids)
		wantErr(t, "DeleteTasks", err, nil)
		if !slices.Equal(told.Tasks, done.Tasks) || told.Others != done.Others {
			t.Errorf("DeleteTasks did %+v, and its dry run told %+v", done, told)
		}
		return
	}
	verdicts, err := store.AnswerTasks(t.Context(), "actor", []stint.Answer{answer})
	wantErr(t, "AnswerTasks", err, nil)
	wantErr(t, "AnswerTasks", verdicts[0], nil)
}

// What becomes of a dependent does not depend on the order in which its predecessors end, are
// deleted and are replaced; and what has a condition that was not met is not started by a retry.
// Proves G280, R5, R17, R23.
func TestConditions_MeanTheSameInWhateverOrder(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 13))
	for round := range testrun.Rounds(50) {
		n := drawFated(random)
		orders, may := n.orders(random), n.ends()
		var all []stint.Task
		name := func(i int) string { return fmt.Sprintf("%d %d ", round, i) }
		for i := range orders {
			all = append(all, n.tasks(name(i))...)
		}
		insert(t, store, all...)
		for i, order := range orders {
			done := make([]int, len(n.fates))
			for _, at := range order {
				happen(t, store, n.fates[at].events[done[at]],
					stint.TaskID(name(i)+fmt.Sprint(at)))
				done[at]++
			}
			states := statesOf(t, store)
			id := func(of string) stint.TaskID { return stint.TaskID(name(i) + of) }
			run := states[id("run")]
			if !slices.Contains(may, run) {
				t.Errorf("%v, in the order %v: the task is %q, want one of %q", n, order, run, may)
			}
			want := map[stint.State][2]stint.State{
				stint.StateReady: {stint.StateBlocked, stint.StateBlocked},
				isAborted:        {isAborted, stint.StateReady},
				isSkipped:        {isSkipped, stint.StateReady},
			}[run]
			if got := [2]stint.State{states[id("next")], states[id("last")]}; got != want {
				t.Errorf("%v, in the order %v: behind it are %q, want %q", n, order, got, want)
			}
			n.wantNotStartedByRetry(t, store, id("run"), run)
		}
		_, err := store.DeleteTasks(t.Context(), slices.Sorted(maps.Keys(statesOf(t, store))))
		wantErr(t, "DeleteTasks", err, nil)
		if t.Failed() {
			return
		}
	}
}

// wantNotStartedByRetry retries a task that has conditions which were not met.
func (n *fatedNetwork) wantNotStartedByRetry(
	t *testing.T, store *stint.Store, id stint.TaskID, was stint.State,
) {
	t.Helper()
	unmet := false
	for i, condition := range n.conditions {
		unmet = unmet || condition != nil && !n.isMet(i)
	}
	if was != isSkipped && was != isAborted || !unmet {
		return
	}
	_, err := store.RetryTasks(t.Context(), []stint.TaskID{id})
	if state := info(t, store, id).State; state != isSkipped && state != isAborted {
		t.Errorf("%v: RetryTasks = %v, and the task is %q", n, err, state)
	}
}
