package ui

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/conditions"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// readConditions reads those of a new task from a form. The problem is empty if there is none.
func (f *insertForm) readConditions(task *stint.Task) (problem string) {
	if strings.TrimSpace(f.When) == "" {
		if f.AnyOf {
			return "There is no condition of which one would be enough."
		}
		return ""
	}
	read, err := conditions.Read([]byte(f.When))
	switch {
	case err != nil:
		return "Conditions: " + display.Text(err.Error()) + "."
	case f.AnyOf && len(task.After) > 0:
		return "If one of the conditions is enough, the task waits for no others: leave these out."
	case f.AnyOf:
		task.WhenAny = read
	default:
		task.When = read
	}
	for _, c := range read {
		if slices.Contains(task.After, c.After) {
			return "The task " + show.Text(c.After) + " is named twice: by itself, and in a " +
				"condition. Once is enough."
		}
	}
	return ""
}

// sayConditions says how a new task depends on the ends of others.
func sayConditions(task *stint.Task) (said []show.Sentence) {
	const most = 10
	all := slices.Concat(task.When, task.WhenAny)
	for _, c := range all[:min(len(all), most)] {
		edge := stint.EdgeCondition{Condition: c}
		said = append(said, show.Say("It waits for ", show.Part{
			Text: show.Text(c.After), Link: show.Link("task", "id", string(c.After)),
		}, ": "+show.Text(edge)+"."))
	}
	if more := len(all) - most; more > 0 {
		said = append(said, show.Say("It waits for "+display.Count(int64(more), "more task")+
			" by conditions."))
	}
	if n := len(task.After); len(all) > 0 && n > 0 {
		said = append(said, show.Say("It waits for the end of "+
			display.Count(int64(n), "task")+" without a condition."))
	}
	return said
}

// copyConditions fills a form in with those that a task has. What is said is empty, or why some are
// left out.
func (h *Handler) copyConditions(r *request, f *insertForm, of stint.TaskID) (said string) {
	graph, err := h.asked.Graphs.Get(r.Context(), of)
	if err != nil {
		return "Its conditions could not be read: the copy has those that you type."
	}
	var all []string
	left := 0
	for _, c := range graph.Conditions {
		if c.Dependent != of {
			continue
		}
		text, ok := typedCondition(c, r.may(ReadBodies))
		if !ok {
			left++
			continue
		}
		all, f.AnyOf = append(all, text), c.Any
	}
	if len(all) > 0 {
		f.When = "[" + strings.Join(all, ",\n") + "]"
	}
	if left == 0 {
		return ""
	}
	return display.Count(int64(left), "condition") + " with results that you may not read, or " +
		"that are no text: the copy has those that you type."
}

// typedCondition is a condition as somebody would type it, unless nobody can, or it has results
// that somebody may not read.
func typedCondition(c stint.EdgeCondition, mayReadBodies bool) (text string, ok bool) {
	if c.Hidden || len(c.Results) > 0 && !mayReadBodies ||
		!utf8.ValidString(strings.Join(c.Results, " ")) {
		return "", false
	}
	if slices.Equal(c.States, []stint.State{stint.StateCompleted}) { // it need not be said
		c.States = nil
	}
	var typed bytes.Buffer
	encoder := json.NewEncoder(&typed)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(c.Condition)
	return strings.TrimSpace(typed.String()), err == nil
}
