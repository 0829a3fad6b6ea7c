package stint_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/structures"
)

// An argoTask is a task of one of Argo's published workflows: its depends, or dependencies joined
// by "&&", and its when, as in the file.
type argoTask struct{ name, depends, when string }

// An argoWorkflow is one with the ends that its containers have. runs are the tasks that Argo runs;
// it omits or skips the others.
type argoWorkflow struct {
	name    string
	tasks   []argoTask
	results map[stint.TaskID]string
	fails   []stint.TaskID
	runs    string
}

// The files are in the directory examples of argoproj/argo-workflows, the expressions of "depends"
// in docs/enhanced-depends-logic.md.
var argoWorkflows = []argoWorkflow{
	{
		name: "dag-enhanced-depends.yaml",
		tasks: []argoTask{
			{"A", "", ""},
			{"B", "A", ""},
			{"C", "A", ""},
			{"should-execute-1", "A && (C.Succeeded || C.Failed)", ""},
			{"should-execute-2", "B || C", ""},
			{"should-not-execute", "B && C", ""},
			{"should-execute-3", "should-execute-2.Succeeded || should-not-execute", ""},
		},
		fails: []stint.TaskID{"C"},
		runs:  "A B C should-execute-1 should-execute-2 should-execute-3",
	},
	{
		name: "dag-coinflip.yaml",
		tasks: []argoTask{
			{"A", "", ""}, {"B", "A", ""}, {"C", "A", ""}, {"D", "B && C", ""},
		},
		runs: "A B C D",
	},
	{
		name: "dag-conditional-parameters.yaml",
		tasks: []argoTask{
			{"flip-coin", "", ""},
			{"heads", "flip-coin", "flip-coin == heads"},
			{"tails", "flip-coin", "flip-coin == tails"},
		},
		results: map[stint.TaskID]string{"flip-coin": "tails"},
		runs:    "flip-coin tails",
	},
	{
		name: "conditionals-complex.yaml, heads and tails",
		tasks: []argoTask{
			{"flip-coin", "", ""},
			{"heads", "flip-coin", "flip-coin == heads"},
			{"tails", "flip-coin", "flip-coin == tails"},
			{"flip-again", "heads && tails", ""},
			{
				"complex-condition", "flip-again", "flip-coin == heads && flip-again == tails || " +
					"flip-coin == tails && flip-again == tails",
			},
		},
		results: map[stint.TaskID]string{"flip-coin": "heads", "flip-again": "tails"},
		runs:    "flip-coin heads flip-again complex-condition",
	},
	{
		name: "conditionals-complex.yaml, heads twice",
		tasks: []argoTask{
			{"flip-coin", "", ""},
			{"heads", "flip-coin", "flip-coin == heads"},
			{"tails", "flip-coin", "flip-coin == tails"},
			{"flip-again", "heads && tails", ""},
			{
				"complex-condition", "flip-again", "flip-coin == heads && flip-again == tails || " +
					"flip-coin == tails && flip-again == tails",
			},
		},
		results: map[stint.TaskID]string{"flip-coin": "heads", "flip-again": "heads"},
		runs:    "flip-coin heads flip-again",
	},
	{
		name: "dag-continue-on-fail.yaml",
		tasks: []argoTask{
			{"A", "", ""},
			{"B", "A", ""},
			{"C", "A", ""},
			{"D", "B.Failed && C", ""},
			{"E", "A", ""},
			{"F", "A", ""},
			{"G", "E && F", ""},
		},
		fails: []stint.TaskID{"B", "E"},
		runs:  "A B C D E F",
	},
	{
		name: "dag-disable-failFast.yaml",
		tasks: []argoTask{
			{"A", "", ""}, {"B", "A", ""}, {"C", "A", ""}, {"D", "B", ""}, {"E", "D", ""},
		},
		fails: []stint.TaskID{"C"},
		runs:  "A B C D E",
	},
	{
		name: "status-reference.yaml, failed",
		tasks: []argoTask{
			{"flakey-container", "", ""},
			{"failed", "flakey-container.Failed", ""},
			{"succeeded", "flakey-container.Succeeded", ""},
		},
		fails: []stint.TaskID{"flakey-container"},
		runs:  "flakey-container failed",
	},
	{
		name: "status-reference.yaml, succeeded",
		tasks: []argoTask{
			{"flakey-container", "", ""},
			{"failed", "flakey-container.Failed", ""},
			{"succeeded", "flakey-container.Succeeded", ""},
		},
		runs: "flakey-container succeeded",
	},
	{
		name: "dag-multiroot.yaml",
		tasks: []argoTask{
			{"A", "", ""}, {"B", "", ""}, {"C", "A", ""}, {"D", "A && B", ""},
		},
		fails: []stint.TaskID{"B"},
		runs:  "A B C",
	},
	{
		name: "depends, an unspecified result",
		tasks: []argoTask{
			{"task-0", "", ""},
			{"task", "task-0", "task-0 == never"},
			{"task-2", "", ""},
			{"last", "task || task-2.Failed", ""},
		},
		runs: "task-0 task-2 last",
	},
	{
		name: "depends, what failed is not succeeded",
		tasks: []argoTask{
			{"task-2", "", ""},
			{"task-3", "", ""},
			{"last", "(task-2.Succeeded || task-2.Skipped) && !task-3.Failed", ""},
		},
		fails: []stint.TaskID{"task-3"},
		runs:  "task-2 task-3",
	},
	{
		name: "depends, what was skipped has not failed",
		tasks: []argoTask{
			{"task-1", "", ""},
			{"task-2", "task-1", "task-1 == never"},
			{"task-3", "task-1", "task-1 == never"},
			{"last", "(task-2.Succeeded || task-2.Skipped) && !task-3.Failed", ""},
		},
		runs: "task-1 last",
	},
	{
		// With items: task-1(0:a) and so on are tasks of their own.
		name: "depends, any succeeded and all failed",
		tasks: []argoTask{
			{"task-1a", "", ""},
			{"task-1b", "", ""},
			{"task-2a", "", ""},
			{"task-2b", "", ""},
			{"either", "task-1a.Succeeded || task-1b.Succeeded", ""},
			{"all", "task-2a.Failed && task-2b.Failed", ""},
			{"not", "task-1a.Failed && task-1b.Failed", ""},
			{"both", "either || all", ""},
		},
		fails: []stint.TaskID{"task-1a", "task-2a", "task-2b"},
		runs:  "task-1a task-1b task-2a task-2b either all both",
	},
}

// Argo's expressions run as networks, and what they leave out is skipped, or aborted where an abort
// is why (argo-workflows#1781).
// Proves G276, R23.
func TestConditions_RunArgosWorkflows(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	for _, w := range argoWorkflows { //nolint:paralleltest // they share a store
		t.Run(w.name, func(t *testing.T) {
			var tasks []stint.Task
			for _, task := range w.tasks {
				tasks = append(tasks, task.network(t)...)
			}
			insert(t, store, tasks...)
			got := play(t, store, w.results, w.fails...)
			var ran []string
			for _, task := range w.tasks {
				id := stint.TaskID(task.name)
				if got[id] == isCompleted || slices.Contains(w.fails, id) {
					ran = append(ran, task.name)
				}
				if got[id] == stint.StateBlocked {
					t.Errorf("%q is blocked", id)
				}
			}
			if got := strings.Join(ran, " "); got != w.runs {
				t.Errorf("ran %s, want %s", got, w.runs)
			}
			deleteChecked(t, store)
		})
	}
}

func (a argoTask) network(t *testing.T) []stint.Task {
	t.Helper()
	task := stint.Task{ID: stint.TaskID(a.name), Action: "act"}
	if a.depends == "" {
		return []stint.Task{task}
	}
	parts := []structures.Expression{(&argoParser{rest: a.depends}).either()}
	if a.when != "" {
		parts = append(parts, (&argoParser{rest: a.when}).either())
	}
	tasks, err := structures.When(task, structures.All(parts...))
	wantErr(t, "When", err, nil)
	return tasks
}

// An argoParser reads an expression of Argo's: of "depends", and of "when" in the form "task ==
// result" for {{tasks.task.outputs.result}}.
type argoParser struct{ rest string }

func (p *argoParser) accept(token string) bool {
	p.rest = strings.TrimLeft(p.rest, " ")
	rest, ok := strings.CutPrefix(p.rest, token)
	if ok {
		p.rest = rest
	}
	return ok
}

func (p *argoParser) either() structures.Expression {
	parts := []structures.Expression{p.both()}
	for p.accept("||") {
		parts = append(parts, p.both())
	}
	return structures.Any(parts...)
}

func (p *argoParser) both() structures.Expression {
	parts := []structures.Expression{p.one()}
	for p.accept("&&") {
		parts = append(parts, p.one())
	}
	return structures.All(parts...)
}

func (p *argoParser) one() structures.Expression {
	switch {
	case p.accept("!"):
		return structures.Not(p.one())
	case p.accept("("):
		inner := p.either()
		p.accept(")")
		return inner
	}
	word := p.word()
	if p.accept("==") {
		p.accept("")
		return structures.Returned(stint.TaskID(word), p.word())
	}
	name, result, _ := strings.Cut(word, ".")
	return structures.Ended(stint.TaskID(name), map[string][]stint.State{
		"":          {isCompleted, isSkipped},
		"Succeeded": {isCompleted},
		"Failed":    {isAborted},
		"Skipped":   {isSkipped},
	}[result]...)
}

func (p *argoParser) word() string {
	n := strings.IndexAny(p.rest+" ", " )")
	word := p.rest[:n]
	p.rest = p.rest[n:]
	return word
}
