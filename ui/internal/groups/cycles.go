package groups

import (
	"slices"

	"github.com/stint-tasks/stint/internal/dag"
	"github.com/stint-tasks/stint/internal/layout"
)

// withoutCycles are the groups, those that form a cycle as one (Kosaraju's and Sharir's method): an
// order in which a search ends, from each group to those before it, and a search back, from the
// last of them to those behind it.
func (g *Groups) withoutCycles(edges []layout.Edge) *Groups {
	order, cycle := dag.Order(g.Count, linksOf(g.Edges))
	if cycle == nil {
		return g
	}
	_, after := neighbours(g.Count, g.Edges)
	const none = -1
	joined := slices.Repeat([]int{none}, g.Count)
	for _, first := range slices.Backward(order) {
		for stack := []int{int(first)}; len(stack) > 0; {
			at := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if joined[at] != none {
				continue
			}
			joined[at] = int(first)
			stack = append(stack, after[at]...)
		}
	}
	return g.as(joined, edges)
}

// as are the groups, those together that have the same number.
func (g *Groups) as(numbers []int, edges []layout.Edge) *Groups {
	known := map[int]int{}
	larger := &Groups{Of: make([]int, len(g.Of))}
	for node, group := range g.Of {
		at, ok := known[numbers[group]]
		if !ok {
			at = larger.Count
			known[numbers[group]] = at
			larger.Count++
		}
		larger.Of[node] = at
	}
	larger.join(edges)
	return larger
}
