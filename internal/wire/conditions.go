package wire

import (
	"unicode/utf8"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
)

// FromCondition returns a condition as a message. Results that are UTF-8 are text.
func FromCondition(c *stint.Condition) *stintv1.Condition {
	m := &stintv1.Condition{After: string(c.After)}
	for _, state := range c.States {
		m.States = append(m.States, string(state))
	}
	for _, result := range c.Results {
		if utf8.ValidString(result) {
			m.Results = append(m.Results, result)
		} else {
			m.ResultBytes = append(m.ResultBytes, []byte(result))
		}
	}
	return m
}

// ToCondition undoes [FromCondition].
func ToCondition(m *stintv1.Condition) stint.Condition {
	c := stint.Condition{After: stint.TaskID(m.GetAfter()), Results: m.GetResults()}
	for _, state := range m.GetStates() {
		c.States = append(c.States, stint.State(state))
	}
	for _, result := range m.GetResultBytes() {
		c.Results = append(c.Results, string(result))
	}
	return c
}

// FromConditions is [FromCondition] for several conditions.
func FromConditions(conditions []stint.Condition) (messages []*stintv1.Condition) {
	for i := range conditions {
		messages = append(messages, FromCondition(&conditions[i]))
	}
	return messages
}

// ToConditions undoes [FromConditions].
func ToConditions(messages []*stintv1.Condition) (conditions []stint.Condition) {
	for _, m := range messages {
		conditions = append(conditions, ToCondition(m))
	}
	return conditions
}

// FromEdgeConditions returns the conditions of the dependencies of a network as messages.
func FromEdgeConditions(conditions []stint.EdgeCondition) (messages []*stintv1.EdgeCondition) {
	for i := range conditions {
		c := &conditions[i]
		messages = append(messages, &stintv1.EdgeCondition{
			Dependent: string(c.Dependent), Condition: FromCondition(&c.Condition), Any: c.Any,
			Hidden: c.Hidden,
		})
	}
	return messages
}

// ToEdgeConditions undoes [FromEdgeConditions].
func ToEdgeConditions(messages []*stintv1.EdgeCondition) (conditions []stint.EdgeCondition) {
	for _, m := range messages {
		conditions = append(conditions, stint.EdgeCondition{
			Dependent: stint.TaskID(m.GetDependent()), Condition: ToCondition(m.GetCondition()),
			Any: m.GetAny(), Hidden: m.GetHidden(),
		})
	}
	return conditions
}

// PredecessorsOf are the tasks that a task waits for, in whatever way.
func PredecessorsOf(m *stintv1.Task) []string {
	ids := append([]string(nil), m.GetAfter()...)
	for _, conditions := range [][]*stintv1.Condition{m.GetWhen(), m.GetWhenAny()} {
		for _, condition := range conditions {
			ids = append(ids, condition.GetAfter())
		}
	}
	return ids
}
