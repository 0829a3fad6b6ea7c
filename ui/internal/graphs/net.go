package graphs

import (
	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/layout"
)

// A Net is a network by numbers.
type Net struct {
	id            stint.TaskID // the task that was asked for
	tasks         []stint.TaskInfo
	edges         []layout.Edge
	asked         int   // which one that is; -1: none
	cut           bool  // there are more tasks
	before, after []int // how many edges lead to and from each task
	// conditions are how tasks must end for others to start, by edge.
	conditions map[layout.Edge]string
}

// NewNet returns a network. mayReadBodies says whether its conditions may be told with their
// results.
func NewNet(graph *stint.Graph, id stint.TaskID, mayReadBodies bool) *Net {
	n := &Net{
		id: id, tasks: graph.Tasks, asked: -1, cut: graph.Cut,
		before: make([]int, len(graph.Tasks)), after: make([]int, len(graph.Tasks)),
		conditions: make(map[layout.Edge]string, len(graph.Conditions)),
	}
	index := make(map[stint.TaskID]int, len(graph.Tasks))
	for i := range graph.Tasks {
		index[graph.Tasks[i].ID] = i
		if graph.Tasks[i].ID == id {
			n.asked = i
		}
	}
	for _, c := range graph.Conditions {
		from, isThere := index[c.After]
		to, isThereToo := index[c.Dependent]
		if isThere && isThereToo {
			n.conditions[layout.Edge{From: from, To: to}] = textOf(c, mayReadBodies)
		}
	}
	for _, d := range graph.Dependencies {
		from, isThere := index[d.Predecessor]
		to, isThereToo := index[d.Dependent]
		if isThere && isThereToo {
			n.edges = append(n.edges, layout.Edge{From: from, To: to})
			n.after[from]++
			n.before[to]++
		}
	}
	return n
}

// textOf says a condition, with its results only to those who may read bodies.
func textOf(c stint.EdgeCondition, mayReadBodies bool) string {
	if len(c.Results) > 0 && !mayReadBodies {
		c.Results = []string{"…"}
	}
	return c.String()
}
