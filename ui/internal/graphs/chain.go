package graphs

import (
	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/dag"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// A Chain is the longest chain of unfinished tasks of a network.
type Chain struct {
	Tasks []int          // by their numbers, the first one first
	First stint.TaskInfo // what it begins with
	Why   show.Sentence  // what that waits for
}

// longest finds the longest chain of unfinished tasks: the tasks that follow one another until the
// network has ended. It is nil if all have ended.
func (n *Net) longest() *Chain {
	links := make([]dag.Edge, len(n.edges))
	before := make([][]int, len(n.tasks))
	for i, e := range n.edges {
		links[i] = dag.Edge{From: int32(e.From), To: int32(e.To)} //nolint:gosec // few
		before[e.To] = append(before[e.To], e.From)
	}
	const none = -1
	length, previous := make([]int, len(n.tasks)), make([]int, len(n.tasks))
	last := none
	sorted, _ := dag.Order(len(n.tasks), links)
	for _, at := range sorted {
		if show.IsFinal(n.tasks[at].State) {
			continue
		}
		length[at], previous[at] = 1, none
		for _, other := range before[at] {
			if length[other] >= length[at] {
				length[at], previous[at] = length[other]+1, other
			}
		}
		if last == none || length[at] > length[last] {
			last = int(at)
		}
	}
	if last == none {
		return nil
	}
	c := &Chain{Tasks: make([]int, length[last])}
	for i := len(c.Tasks) - 1; i >= 0; i-- {
		c.Tasks[i] = last
		last = previous[last]
	}
	c.First = n.tasks[c.Tasks[0]]
	return c
}
