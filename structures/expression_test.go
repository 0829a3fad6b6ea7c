package structures_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/structures"
)

// An end is how a task has ended.
type end struct {
	state  stint.State
	result string
}

// drawExpression draws an expression over tasks, and what it should say of their ends.
func drawExpression(
	t *rapid.T, ids []stint.TaskID, depth int,
) (structures.Expression, func(ends map[stint.TaskID]end) bool) {
	kinds := []string{"ended", "returned", "not", "all", "any"}
	if depth == 0 {
		kinds = kinds[:2]
	}
	switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
	case "ended":
		id := rapid.SampledFrom(ids).Draw(t, "task")
		states := rapid.SliceOfNDistinct(rapid.SampledFrom(finalStates), 1, 3, rapid.ID).
			Draw(t, "states")
		return structures.Ended(id, states...), func(ends map[stint.TaskID]end) bool {
			return slices.Contains(states, ends[id].state)
		}
	case "returned":
		id := rapid.SampledFrom(ids).Draw(t, "task")
		return structures.Returned(id, "x"), func(ends map[stint.TaskID]end) bool {
			return ends[id] == end{stint.StateCompleted, "x"}
		}
	case "not":
		part, says := drawExpression(t, ids, depth-1)
		return structures.Not(part), func(ends map[stint.TaskID]end) bool { return !says(ends) }
	default:
		var parts []structures.Expression
		var says []func(map[stint.TaskID]end) bool
		for range rapid.IntRange(1, 3).Draw(t, "parts") {
			part, say := drawExpression(t, ids, depth-1)
			parts, says = append(parts, part), append(says, say)
		}
		holds := func(ends map[stint.TaskID]end) (all, one bool) {
			all = true
			for _, say := range says {
				all, one = say(ends) && all, say(ends) || one
			}
			return all, one
		}
		if kind == "all" {
			return structures.All(parts...), func(ends map[stint.TaskID]end) bool {
				all, _ := holds(ends)
				return all
			}
		}
		return structures.Any(parts...), func(ends map[stint.TaskID]end) bool {
			_, one := holds(ends)
			return one
		}
	}
}

var finalStates = []stint.State{stint.StateCompleted, stint.StateAborted, stint.StateSkipped}

// However an expression is written, the tasks that stand for it decide as it reads.
// Proves G276.
func TestWhen_DecidesAsTheExpressionReads(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ids := []stint.TaskID{"a", "b", "c"}
		expression, says := drawExpression(t, ids, 4)
		tasks, err := structures.When(stint.Task{
			ID: "task", Action: "act",
			OnAbort: rapid.SampledFrom([]stint.OnAbort{0, stint.RunAnyway}).Draw(t, "on abort"),
		}, expression)
		if err != nil {
			t.Fatal(err)
		}
		ends := map[stint.TaskID]end{}
		for _, id := range ids {
			ends[id] = end{
				rapid.SampledFrom(finalStates).Draw(t, "state"),
				rapid.SampledFrom([]string{"", "x"}).Draw(t, "result"),
			}
		}
		want := says(ends)
		for i := range tasks {
			ends[tasks[i].ID] = end{state: endOf(&tasks[i], ends)}
		}
		if got := ends["task"].state == stint.StateCompleted; got != want {
			t.Fatalf("the task begins: %t, want %t; the tasks are %+v", got, want, tasks)
		}
	})
}

// endOf is how a task ends by R23 once all that it waits for has ended, if it completes when it may
// begin.
func endOf(task *stint.Task, ends map[stint.TaskID]end) stint.State {
	met, fell := 0, 0
	conditions := slices.Concat(task.When, task.WhenAny)
	for _, condition := range conditions {
		states, before := condition.States, ends[condition.After]
		if len(states) == 0 {
			states = []stint.State{stint.StateCompleted}
		}
		switch {
		case slices.Contains(states, before.state) && (before.state != stint.StateCompleted ||
			len(condition.Results) == 0 || slices.Contains(condition.Results, before.result)):
			met++
		case before.state == stint.StateAborted && task.OnAbort == stint.AbortToo:
			fell++
		}
	}
	switch {
	case met == len(conditions), met > 0 && len(task.WhenAny) > 0:
		return stint.StateCompleted
	case fell > 0:
		return stint.StateAborted
	}
	return stint.StateSkipped
}

func TestWhen_RefusesWhatCannotBeSaid(t *testing.T) {
	t.Parallel()
	conditional := stint.Task{ID: "a", When: []stint.Condition{{After: "b"}}}
	for _, c := range []struct {
		task       stint.Task
		expression structures.Expression
	}{
		{stint.Task{ID: "a"}, structures.Any()},
		{stint.Task{ID: "a"}, structures.All(structures.Ended("b"), structures.Any())},
		{conditional, structures.Ended("c")},
	} {
		var refused *stint.ArgumentError
		_, err := structures.When(c.task, c.expression)
		if !errors.As(err, &refused) || !errors.Is(err, stint.ErrInvalidArgument) {
			t.Errorf("When = %v, want an *ArgumentError that is ErrInvalidArgument", err)
		}
	}
}

// A task of a structure keeps its conditions beside what the structure says.
func TestBuild_KeepsConditions(t *testing.T) {
	t.Parallel()
	plan := build(t, structures.Chain(
		structures.Task{ID: "flip", Action: "do"},
		structures.Group(
			structures.Task{
				ID: "heads", Action: "do",
				When: []stint.Condition{{After: "flip", Results: []string{"heads"}}},
			},
			structures.Task{
				ID: "either", Action: "do",
				WhenAny: []stint.Condition{{After: "x"}, {After: "heads"}},
			},
		),
	))
	got := map[stint.TaskID]stint.Task{}
	var order []stint.TaskID
	for _, task := range plan.Tasks {
		got[task.ID] = task
		order = append(order, task.ID)
	}
	heads, either, gate := got["heads"], got["either"], got["p/2/any"]
	if len(heads.After) != 0 || len(heads.When) != 1 {
		t.Errorf("heads waits for %v, %v, want its condition alone", heads.After, heads.When)
	}
	if !slices.Equal(either.After, []stint.TaskID{"flip", "p/2/any"}) || len(either.WhenAny) != 0 {
		t.Errorf("either waits for %v, %v, want flip and a spontaneous task", either.After,
			either.WhenAny)
	}
	if gate.Action != stint.Spontaneous || len(gate.WhenAny) != 2 ||
		slices.Index(order, "heads") > slices.Index(order, "p/2/any") {
		t.Errorf("in place of WhenAny stands %+v, in the order %v", gate, order)
	}
}
