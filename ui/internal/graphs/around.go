package graphs

import (
	"slices"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// Neighbours are tasks that a task waits for, or that wait for it.
type Neighbours struct {
	Conditions map[stint.TaskID]string // of those that have one
	Tasks      []stint.TaskInfo
	Counts     []show.Tally // by state, of all
	All        int
}

// neighboursMax is how many neighbours are named.
const neighboursMax = 50

// More is how many there are that are not named.
func (n Neighbours) More() int { return n.All - len(n.Tasks) }

// Around are the tasks beside a task in its network.
func Around(
	graph *stint.Graph, id stint.TaskID, mayReadBodies bool,
) (before, after Neighbours) {
	byID := make(map[stint.TaskID]*stint.TaskInfo, len(graph.Tasks))
	for i := range graph.Tasks {
		byID[graph.Tasks[i].ID] = &graph.Tasks[i]
	}
	for _, d := range graph.Dependencies {
		if d.Dependent == id {
			before.add(byID[d.Predecessor])
		}
		if d.Predecessor == id {
			after.add(byID[d.Dependent])
		}
	}
	before.Conditions, after.Conditions = map[stint.TaskID]string{}, map[stint.TaskID]string{}
	for _, c := range graph.Conditions {
		if c.Dependent == id {
			before.Conditions[c.After] = textOf(c, mayReadBodies)
		}
		if c.After == id {
			after.Conditions[c.Dependent] = textOf(c, mayReadBodies)
		}
	}
	return before, after
}

func (n *Neighbours) add(task *stint.TaskInfo) {
	if n.All == 0 {
		for _, state := range show.States() {
			n.Counts = append(n.Counts, show.Tally{State: state})
		}
	}
	n.All++
	if i := slices.Index(show.States(), task.State); i >= 0 {
		n.Counts[i].Tasks++
	}
	if len(n.Tasks) < neighboursMax {
		n.Tasks = append(n.Tasks, *task)
	}
}

// Origins goes back from a task along the edges, through the tasks of which goOn says so.
func Origins(
	graph *stint.Graph, id stint.TaskID,
	look func(task *stint.TaskInfo) (goOn, isOrigin bool),
) []stint.TaskInfo {
	n := NewNet(graph, id, false) // its conditions are not told
	before := make([][]int, len(n.tasks))
	for _, e := range n.edges {
		before[e.To] = append(before[e.To], e.From)
	}
	var found []stint.TaskInfo
	seen := make([]bool, len(n.tasks))
	for next := []int{n.asked}; len(next) > 0 && n.asked >= 0; next = next[1:] {
		for _, at := range before[next[0]] {
			if seen[at] {
				continue
			}
			seen[at] = true
			goOn, isOrigin := look(&n.tasks[at])
			if isOrigin {
				found = append(found, n.tasks[at])
			}
			if goOn {
				next = append(next, at)
			}
		}
	}
	return found
}
