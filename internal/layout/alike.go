package layout

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/stint-tasks/stint/internal/dag"
)

// Groups are the nodes of a network, those that are alike together.
type Groups struct {
	Of    []int   // the group of each node; groups are numbered from 0 on, in the order of nodes
	Count int     // how many groups there are
	Edges []Edge  // between groups, each once, in order
	Nodes [][]int // the nodes of each group, in order
}

// roundsMax is how often groups are told apart by their neighbours: so far does Alike look around a
// node.
const roundsMax = 16

// Alike puts nodes together that do the same at the same place of a network: they have the same
// label and the same number of layers before them, and lead to groups, and follow groups, that are
// the same again. How many edges there are to a group does not matter, so a film of 36 pictures is
// as a film of 24. The groups form a network without cycles if the nodes do.
//
// It tells fewer groups apart than that if there would be more than most, or if they differ only
// far away, but never puts nodes of different labels or layers together: so there may be more than
// most after all.
func Alike(labels []string, edges []Edge, most int) *Groups {
	before, after := neighbours(len(labels), edges)
	depths := depths(before, edges)
	groups := number(len(labels), func(node int, key []byte) []byte {
		key = binary.AppendUvarint(key, uint64(depths[node])) //nolint:gosec // not negative
		return append(key, labels[node]...)
	})
	for range roundsMax {
		finer := number(len(labels), func(node int, key []byte) []byte {
			key = binary.AppendUvarint(key, uint64(groups.Of[node])) //nolint:gosec // not negative
			key = appendGroups(key, groups.Of, before[node])
			return appendGroups(key, groups.Of, after[node])
		})
		if finer.Count == groups.Count || finer.Count > most {
			break
		}
		groups = finer
	}
	groups.join(edges)
	return groups
}

func neighbours(nodes int, edges []Edge) (before, after [][]int) {
	before, after = make([][]int, nodes), make([][]int, nodes)
	for _, e := range edges {
		before[e.To] = append(before[e.To], e.From)
		after[e.From] = append(after[e.From], e.To)
	}
	return before, after
}

// depths are how many layers each node has before it.
func depths(before [][]int, edges []Edge) []int {
	links := make([]dag.Edge, len(edges))
	for i, e := range edges {
		links[i] = dag.Edge{From: int32(e.From), To: int32(e.To)} //nolint:gosec // few
	}
	sorted, _ := dag.Order(len(before), links)
	depths := make([]int, len(before))
	for _, node := range sorted {
		for _, other := range before[node] {
			depths[node] = max(depths[node], depths[other]+1)
		}
	}
	return depths
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
func (g *Groups) join(edges []Edge) {
	g.Nodes = make([][]int, g.Count)
	for node, group := range g.Of {
		g.Nodes[group] = append(g.Nodes[group], node)
	}
	known := make(map[Edge]bool)
	for _, e := range edges {
		joined := Edge{g.Of[e.From], g.Of[e.To]}
		if joined.From != joined.To && !known[joined] {
			known[joined] = true
			g.Edges = append(g.Edges, joined)
		}
	}
}

// CommonPrefix is what all texts begin with, cut behind a separator such as the slash between the
// parts of an ID, or between a word and a number.
func CommonPrefix(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	prefix := texts[0]
	for _, text := range texts[1:] {
		n := 0
		for n < len(prefix) && n < len(text) && prefix[n] == text[n] {
			n++
		}
		prefix = prefix[:n]
	}
	if len(texts) == 1 {
		return prefix
	}
	return prefix[:strings.LastIndexAny(prefix, "/:@.-_ ")+1]
}

// Near returns the nodes that are at most so many edges before or behind a node, itself included,
// the nearest first, and at most so many of them. Cut says that some were left out by that.
func Near(node, nodes int, edges []Edge, distance, most int) (near []int, cut bool) {
	before, after := neighbours(nodes, edges)
	seen := map[int]bool{node: true}
	near = []int{node}
	// Before the node only its predecessors count, and behind it only its dependents: their other
	// relations have little to do with it.
	ahead, behind := []int{node}, []int{node}
	for range distance {
		ahead, behind = step(ahead, before, seen), step(behind, after, seen)
		near = append(append(near, ahead...), behind...)
	}
	if len(near) > most {
		return near[:most], true
	}
	return near, false
}

// step returns the nodes next to some that were not seen before.
func step(from []int, next [][]int, seen map[int]bool) []int {
	var found []int
	for _, node := range from {
		for _, other := range next[node] {
			if !seen[other] {
				seen[other] = true
				found = append(found, other)
			}
		}
	}
	return found
}
