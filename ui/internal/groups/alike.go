package groups

import (
	"encoding/binary"
	"slices"

	"github.com/stint-tasks/stint/internal/dag"
	"github.com/stint-tasks/stint/internal/layout"
)

// roundsMax is how often groups are told apart by their neighbours: so far does alike look around a
// node.
const roundsMax = 16

// alike puts nodes together that do the same at the same place of a network: they have the same
// label and the same number of layers before them, and lead to groups, and follow groups, that are
// the same again. How many edges there are to a group does not matter, so a film of 36 pictures is
// as a film of 24. The groups form a network without cycles if the nodes do.
//
// It tells fewer groups apart than that if there would be more than most, or if they differ only
// far away, but never puts nodes of different labels or layers together: so there may be more than
// most after all. Their edges are not joined yet.
func (n *net) alike(most int) *Groups {
	groups := number(len(n.labels), func(node int, key []byte) []byte {
		key = binary.AppendUvarint(key, uint64(n.depths[node])) //nolint:gosec // not negative
		return append(key, n.labels[node]...)
	})
	for range roundsMax {
		finer := number(len(n.labels), func(node int, key []byte) []byte {
			key = binary.AppendUvarint(key, uint64(groups.Of[node])) //nolint:gosec // not negative
			key = appendGroups(key, groups.Of, n.before[node])
			return appendGroups(key, groups.Of, n.after[node])
		})
		if finer.Count == groups.Count || finer.Count > most {
			break
		}
		groups = finer
	}
	return groups
}

func neighbours(nodes int, edges []layout.Edge) (before, after [][]int) {
	before, after = make([][]int, nodes), make([][]int, nodes)
	for _, e := range edges {
		before[e.To] = append(before[e.To], e.From)
		after[e.From] = append(after[e.From], e.To)
	}
	return before, after
}

// depths are how many layers each node has before it.
func depths(before [][]int, edges []layout.Edge) []int {
	sorted, _ := dag.Order(len(before), linksOf(edges))
	depths := make([]int, len(before))
	for _, node := range sorted {
		for _, other := range before[node] {
			depths[node] = max(depths[node], depths[other]+1)
		}
	}
	return depths
}

func linksOf(edges []layout.Edge) []dag.Edge {
	links := make([]dag.Edge, len(edges))
	for i, e := range edges {
		links[i] = dag.Edge{From: int32(e.From), To: int32(e.To)} //nolint:gosec // few
	}
	return links
}

// number groups nodes by their keys, which keyOf appends to an empty slice.
func number(nodes int, keyOf func(node int, key []byte) []byte) *Groups {
	groups := &Groups{Of: make([]int, nodes)}
	known := make(map[string]int)
	var key []byte
	for node := range nodes {
		key = keyOf(node, key[:0])
		group, ok := known[string(key)]
		if !ok {
			group = groups.Count
			known[string(key)] = group
			groups.Count++
		}
		groups.Of[node] = group
	}
	return groups
}

// appendGroups appends the groups of some nodes, each once.
func appendGroups(key []byte, of []int, nodes []int) []byte {
	groups := make([]int, len(nodes))
	for i, node := range nodes {
		groups[i] = of[node]
	}
	slices.Sort(groups)
	groups = slices.Compact(groups)
	key = binary.AppendUvarint(key, uint64(len(groups)))
	for _, group := range groups {
		key = binary.AppendUvarint(key, uint64(group)) //nolint:gosec // not negative
	}
	return key
}

// join fills in the edges between the groups, and the nodes of each.
func (g *Groups) join(edges []layout.Edge) {
	g.Nodes = make([][]int, g.Count)
	for node, group := range g.Of {
		g.Nodes[group] = append(g.Nodes[group], node)
	}
	known := make(map[layout.Edge]bool)
	for _, e := range edges {
		joined := layout.Edge{From: g.Of[e.From], To: g.Of[e.To]}
		if joined.From != joined.To && !known[joined] {
			known[joined] = true
			g.Edges = append(g.Edges, joined)
		}
	}
}
