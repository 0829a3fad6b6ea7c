// Package groups puts the nodes of a large network together, so that a picture of it needs few
// boxes, with texts that can be read. It knows no states: a picture stays as it is while the tasks
// that it shows go on.
package groups

import (
	"github.com/stint-tasks/stint/internal/layout"
)

// Groups are the nodes of a network, those that are alike together.
type Groups struct {
	Of    []int         // the group of each node, from 0 on, in the order of nodes
	Count int           // how many groups there are
	Edges []layout.Edge // between groups, each once, in order
	Nodes [][]int       // the nodes of each group, in order
}

// Bounds are what a picture has room for.
type Bounds struct {
	Apart   int // up to how many groups nodes are told apart that do the same in the same layer
	Groups  int // how many groups there may be
	Columns int // how many of them may follow one another: no more than there may be
}

// edgesPerGroup is how many edges there may be, for each group that there may be.
const edgesPerGroup = 10

// Of groups the nodes of a network, each with its label. It takes the first of these groups that
// fit into a picture:
//
//   - nodes with the same label in the same layer, told apart by their neighbours;
//   - the same, with each chain of one label as one node;
//   - nodes or chains with the same label in the same part of the network, which has half as many
//     parts as columns, one behind the other, or fewer;
//   - all nodes or chains of such a part.
//
// Groups that form a cycle become one. So the groups form a network without cycles, within the
// bounds.
func Of(labels []string, edges []layout.Edge, bounds Bounds) *Groups {
	if groups := newNet(labels, edges).fine(bounds); groups != nil {
		return groups
	}
	chains := chainsOf(labels, edges)
	short := chains.net(labels, edges)
	groups := short.fine(bounds)
	if groups == nil {
		groups = short.parts(bounds)
	}
	return chains.groups(groups, edges)
}

// Split groups the nodes of a network by its parts, also within a chain. So nodes that are one
// group can be looked at more closely: if there is an edge, there are several groups.
func Split(labels []string, edges []layout.Edge, bounds Bounds) *Groups {
	return newNet(labels, edges).parts(bounds)
}

// A net is a network by the numbers of its nodes.
type net struct {
	labels        []string
	edges         []layout.Edge
	before, after [][]int
	depths        []int // how many layers each node has before it
	deepest       int
}

func newNet(labels []string, edges []layout.Edge) *net {
	n := &net{labels: labels, edges: edges}
	n.before, n.after = neighbours(len(labels), edges)
	n.depths = depths(n.before, edges)
	for _, depth := range n.depths {
		n.deepest = max(n.deepest, depth)
	}
	return n
}

// fine are the nodes that are alike, nil if these groups do not fit.
func (n *net) fine(bounds Bounds) *Groups {
	if n.deepest >= bounds.Columns {
		return nil
	}
	groups := n.alike(bounds.Apart)
	if groups.Count > bounds.Groups {
		return nil
	}
	return fitting(groups, n.edges, bounds)
}

// parts are the nodes with the same label in the same part of the network, or all of such a part.
func (n *net) parts(bounds Bounds) *Groups {
	for _, byLabel := range []bool{true, false} {
		for parts := max(bounds.Columns/2, 1); parts > 0; parts /= 2 {
			groups := number(len(n.labels), func(node int, key []byte) []byte {
				key = append(key, byte(n.depths[node]*parts/(n.deepest+1))) //nolint:gosec // few
				if byLabel {
					key = append(key, n.labels[node]...)
				}
				return key
			})
			groups = fitting(groups, n.edges, bounds)
			if groups != nil && (groups.Count > 1 || !byLabel) {
				return groups
			}
		}
	}
	return nil // never: one group fits
}

// fitting completes groups, those that form a cycle as one. It returns nil if they do not fit.
func fitting(groups *Groups, edges []layout.Edge, bounds Bounds) *Groups {
	groups.join(edges)
	if groups = groups.withoutCycles(edges); groups.Count > bounds.Groups ||
		len(groups.Edges) > edgesPerGroup*bounds.Groups {
		return nil
	}
	before, _ := neighbours(groups.Count, groups.Edges)
	for _, depth := range depths(before, groups.Edges) {
		if depth >= bounds.Columns {
			return nil
		}
	}
	return groups
}
