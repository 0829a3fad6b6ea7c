package worker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

// explanations are what a store would say of tasks.
type explanations map[stint.TaskID]stint.Explanation

func (x explanations) Explain(_ context.Context, id stint.TaskID) (stint.Explanation, error) {
	why, ok := x[id]
	if !ok {
		return why, stint.ErrTaskNotFound
	}
	why.Now = time.Unix(1000, 0)
	why.Task.ID = id
	for i, before := range why.WaitsFor {
		why.WaitsFor[i] = x[before.ID].Task
		why.WaitsFor[i].ID = before.ID
	}
	return why, nil
}

func explained(state stint.State, action string) stint.Explanation {
	return stint.Explanation{Task: stint.TaskInfo{State: state, Action: action}}
}

// blockedBy is what a store says of a task that waits for others.
func blockedBy(ids ...stint.TaskID) stint.Explanation {
	why := explained(stint.StateBlocked, "elsewhere")
	for _, id := range ids {
		why.WaitsFor = append(why.WaitsFor, stint.TaskInfo{ID: id})
	}
	return why
}

func heldBy(limits stint.TaskLimits) stint.Explanation {
	why := explained(stint.StateReady, "child")
	why.Limits = &limits
	return why
}

// A handler is held up by a ready task that would begin if it had a slot, and by no other.
// Proves G108.
func TestWaitLook_FindsWhatWouldBeginInAFreeSlot(t *testing.T) {
	t.Parallel()
	ready := explained(stint.StateReady, "child")
	past, future := time.Unix(999, 0), time.Unix(1001, 0)
	others := []stint.TaskInfo{{ID: "parent"}, {ID: "other"}}
	long := explanations{"t": blockedBy("0"), "30": ready}
	for i := range 30 {
		long[stint.TaskID(fmt.Sprint(i))] = blockedBy(stint.TaskID(fmt.Sprint(i + 1)))
	}
	for name, test := range map[string]struct {
		tasks explanations
		stuck stint.TaskID
	}{
		"ready":         {explanations{"t": ready}, "t"},
		"gone":          {explanations{}, ""},
		"of others":     {explanations{"t": explained(stint.StateReady, "elsewhere")}, ""},
		"under way":     {explanations{"t": explained(stint.StateInProgress, "child")}, ""},
		"scheduled":     {explanations{"t": explained(stint.StateScheduled, "child")}, ""},
		"behind it":     {explanations{"t": blockedBy("a"), "a": ready}, "a"},
		"far behind it": {explanations{"t": blockedBy("a"), "a": blockedBy("b"), "b": ready}, "b"},
		"behind several": {explanations{
			"t": blockedBy("a", "b"), "b": blockedBy("c", "d"), "d": ready,
			"a": explained(stint.StateInProgress, "child"),
			"c": explained(stint.StateScheduled, "child"),
		}, "d"},
		"behind others": {explanations{
			"t": blockedBy("a"), "a": explained(stint.StateReady, "elsewhere"),
		}, ""},
		"circle":   {explanations{"t": blockedBy("a"), "a": blockedBy("t")}, ""},
		"too far":  {long, ""},
		"no limit": {explanations{"t": heldBy(stint.TaskLimits{NextAt: past})}, "t"},
		"paused":   {explanations{"t": heldBy(stint.TaskLimits{PausedSince: past})}, ""},
		"paused behind it": {explanations{
			"t": blockedBy("a"), "a": heldBy(stint.TaskLimits{KeyPausedSince: past}),
		}, ""},
		"rate": {explanations{"t": heldBy(stint.TaskLimits{NextAt: future})}, ""},
		"turn": {explanations{"t": heldBy(stint.TaskLimits{TurnsAhead: 1})}, "t"},
		"limit that others have taken": {explanations{"t": heldBy(stint.TaskLimits{
			Limits: stint.Limits{Concurrency: 2}, InProgress: 2, Owned: others,
		})}, ""},
		"limit that the handler has taken": {explanations{"t": heldBy(stint.TaskLimits{
			Limits: stint.Limits{ConcurrencyPerKey: 1}, KeyInProgress: 1, KeyOwned: others[:1],
		})}, "t"},
		"limit with room": {explanations{"t": heldBy(stint.TaskLimits{
			Limits: stint.Limits{Concurrency: 3}, InProgress: 2, Owned: others,
		})}, "t"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			look := waitLook{
				e: &execution{
					Worker: &Worker{actions: map[string]*handling{"child": {}, "parent": {}}},
					waits:  handlerWaits{slots: 1},
				},
				waiting: slotsWaiting{
					of: map[string]int{"parent": 1}, tasks: map[stint.TaskID]bool{"parent": true},
				},
				seen: map[stint.TaskID]bool{},
			}
			call := &handlerWait{p: &performance{ctx: t.Context()}, source: test.tasks}
			stuck, ok := look.withoutSlot(call, "t")
			if stuck.ID != test.stuck || ok != (test.stuck != "") {
				t.Errorf("found %q, %v, want %q", stuck.ID, ok, test.stuck)
			}
		})
	}
}
