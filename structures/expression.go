package structures

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint"
)

// An Expression says how tasks must end for another one to start: [Ended] and [Returned] are about
// one task each; [All], [Any] and [Not] combine expressions. [When] makes a task wait for it.
type Expression struct {
	kind  expressionKind
	leaf  stint.Condition
	parts []Expression
}

type expressionKind int

const (
	isMet    expressionKind = iota // the condition leaf
	isNotMet                       // its opposite, of one with results
	isNever
	isAll
	isAny
)

// endings are the states in which tasks end.
//
//nolint:gochecknoglobals // never changes
var endings = []stint.State{stint.StateCompleted, stint.StateAborted, stint.StateSkipped}

// Ended holds if the task ends in one of the states; without states, if it completes.
func Ended(id stint.TaskID, states ...stint.State) Expression {
	if len(states) == 0 {
		states = []stint.State{stint.StateCompleted}
	}
	return Expression{leaf: stint.Condition{After: id, States: states}}
}

// Returned holds if the task completes with one of the results.
func Returned(id stint.TaskID, results ...string) Expression {
	return Expression{leaf: stint.Condition{After: id, Results: results}}
}

// All holds if all parts do. It need not wait for all tasks to fail: one part that cannot hold any
// more is enough.
func All(parts ...Expression) Expression { return combine(isAll, parts) }

// Any holds as soon as one of the parts does.
func Any(parts ...Expression) Expression { return combine(isAny, parts) }

// combine combines parts. Those of the same kind are as if their parts were written out.
func combine(kind expressionKind, parts []Expression) Expression {
	e := Expression{kind: kind}
	for _, part := range parts {
		if part.kind == kind {
			e.parts = append(e.parts, part.parts...)
		} else {
			e.parts = append(e.parts, part)
		}
	}
	return e
}

// Not holds if the expression does not, once that is certain: Not(Ended(id)) waits for the end of
// the task, too.
func Not(e Expression) Expression {
	switch e.kind {
	case isMet:
		if len(e.leaf.Results) > 0 {
			return Expression{kind: isNotMet, leaf: e.leaf}
		}
		others := slices.DeleteFunc(slices.Clone(endings), func(state stint.State) bool {
			return slices.Contains(e.leaf.States, state)
		})
		if len(others) == 0 {
			return Expression{kind: isNever, leaf: e.leaf}
		}
		return Ended(e.leaf.After, others...)
	case isNotMet:
		return Expression{leaf: e.leaf}
	case isNever:
		return Ended(e.leaf.After, endings...)
	case isAll, isAny:
	}
	opposite := map[expressionKind]expressionKind{isAll: isAny, isAny: isAll}[e.kind]
	parts := make([]Expression, len(e.parts))
	for i, part := range e.parts {
		parts[i] = Not(part)
	}
	return combine(opposite, parts)
}

// When makes a task wait for an expression, besides the tasks in its After: it starts as soon as
// the expression holds, and is skipped as soon as it cannot hold any more; [stint.Task.When] says
// what an abort does that the expression does not mention. The result is the task, behind the
// spontaneous tasks that stand for the parts of the expression that no condition can say, with the
// IDs "id/when/0", "id/when/1" and so on. A task without an ID gets a random one.
//
// The error is an [*stint.ArgumentError] if the task has conditions already, or the expression has
// an [Any] without parts, which never holds.
func When(task stint.Task, e Expression) ([]stint.Task, error) {
	if len(task.When)+len(task.WhenAny) > 0 {
		return nil, refusal("task", "has conditions already")
	}
	if task.ID == "" {
		task.ID = stint.TaskID(uuid.Must(uuid.NewV7()).String())
	}
	c := &conditionBuilder{of: task}
	if e.kind == isAny && len(task.After) > 0 {
		e = Expression{kind: isAll, parts: []Expression{e}}
	}
	c.wait(&task, e)
	if c.err != nil {
		return nil, fmt.Errorf("conditions of a task: %w", c.err)
	}
	return append(c.gates, task), nil
}

func refusal(argument, problem string) error {
	return &stint.ArgumentError{
		Argument: argument, Index: -1, Problem: problem, Err: stint.ErrInvalidArgument,
	}
}

// A conditionBuilder turns an expression into conditions of a task, and of spontaneous tasks.
type conditionBuilder struct {
	of    stint.Task
	gates []stint.Task
	err   error
}

// wait makes a task wait for an expression.
func (c *conditionBuilder) wait(task *stint.Task, e Expression) {
	switch e.kind {
	case isAny:
		if len(e.parts) == 0 {
			c.err = refusal("expression", "has an Any without parts, which never holds")
		}
		task.WhenAny = c.conditions(e.parts, union)
	case isAll:
		task.When = c.conditions(e.parts, intersection)
	case isMet, isNotMet, isNever:
		task.When = []stint.Condition{c.condition(e)}
	}
}

// conditions are those of the parts of an expression. Two about one task become one by merge, or
// else a spontaneous task stands for the second.
func (c *conditionBuilder) conditions(
	parts []Expression, merge func(a, b []stint.State) []stint.State,
) (all []stint.Condition) {
	for _, part := range parts {
		condition := c.condition(part)
		i := slices.IndexFunc(all, func(other stint.Condition) bool {
			return other.After == condition.After
		})
		if i < 0 {
			all = append(all, condition)
			continue
		}
		states := merge(all[i].States, condition.States)
		if len(all[i].Results)+len(condition.Results) > 0 || len(states) == 0 {
			all = append(all, stint.Condition{After: c.gate(part)})
		} else {
			all[i].States = states
		}
	}
	return all
}

func union(a, b []stint.State) []stint.State {
	both := slices.Concat(a, b)
	slices.Sort(both)
	return slices.Compact(both)
}

func intersection(a, b []stint.State) []stint.State {
	return slices.DeleteFunc(slices.Clone(a), func(state stint.State) bool {
		return !slices.Contains(b, state)
	})
}

// condition is that of one part of an expression.
func (c *conditionBuilder) condition(e Expression) stint.Condition {
	plain := Expression{leaf: e.leaf}
	switch e.kind {
	case isMet:
		return e.leaf
	case isNotMet:
		return stint.Condition{After: c.gate(plain), States: endings[1:]}
	case isNever: // the spontaneous task completes however the other one ends
		return stint.Condition{After: c.gate(plain), States: endings[2:]}
	case isAll, isAny:
	}
	return stint.Condition{After: c.gate(e)}
}

// gate adds a spontaneous task that completes when an expression holds.
func (c *conditionBuilder) gate(e Expression) stint.TaskID {
	gate := stint.Task{Action: stint.Spontaneous, OnAbort: c.of.OnAbort}
	c.wait(&gate, e)
	gate.ID = c.of.ID + stint.TaskID("/when/"+strconv.Itoa(len(c.gates)))
	c.gates = append(c.gates, gate)
	return gate.ID
}
