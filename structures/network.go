package structures

import (
	"slices"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/dag"
)

// A Node is a part of a [Network].
type Node struct {
	// Name names the node within its network.
	Name string
	// Run is the structure that the node stands for. An empty structure makes the node a milestone:
	// nodes that wait for it wait for its own predecessors, through a join if these have more than
	// one task to wait for.
	Run Structure
	// After are the names of the nodes that this one waits for. A name given twice counts once.
	After []string
}

type network struct {
	names []string
	parts []Structure
	after [][]int // the nodes that each waits for, each once
	order []int   // all nodes, each after those that it waits for

	// follows says that a node waits for a task of the network, directly or through empty nodes.
	follows  []bool
	starting byPolicy
	err      error
}

func (n *network) starts() byPolicy {
	if n.err != nil {
		return byPolicy{1} // an empty network would be left out, and the error with it
	}
	return n.starting
}

// Network runs each node after the nodes that it names, in whatever order they are given. A network
// of no nodes is empty.
//
// A node that runs anyway waits until every task of the nodes that it names has ended. It does not
// wait for nodes before those, unless it names them as well. A task that waits for a node both by
// its name and through a milestone may count it twice.
//
// [Build] returns [ErrDuplicate] if two nodes have the same name, [ErrUnknownName] if After holds a
// name that no node has, and [ErrCycle], with the path, if nodes wait for one another in a circle.
// Names in other networks, inside or outside, have no effect.
func Network(nodes ...Node) Structure {
	n := &network{
		names:   make([]string, len(nodes)),
		parts:   make([]Structure, len(nodes)),
		after:   make([][]int, len(nodes)),
		follows: make([]bool, len(nodes)),
	}
	if n.err = n.resolve(nodes); n.err != nil {
		return n
	}
	order, cycle := sorted(n.after)
	if cycle != nil {
		path := make([]string, len(cycle))
		for i, node := range cycle {
			path[i] = n.names[node]
		}
		n.err = &ShapeError{Names: path, Err: ErrCycle}
		return n
	}
	n.order = order
	for _, i := range order {
		for _, j := range n.after[i] {
			n.follows[i] = n.follows[i] || n.follows[j] || !empty(n.parts[j])
		}
		if !n.follows[i] && !empty(n.parts[i]) {
			n.starting.add(n.parts[i].starts())
		}
	}
	return n
}

// resolve turns names into places.
func (n *network) resolve(nodes []Node) error {
	places := make(map[string]int, len(nodes))
	for i, node := range nodes {
		if _, ok := places[node.Name]; ok {
			return &ShapeError{Names: []string{node.Name}, Err: ErrDuplicate}
		}
		places[node.Name] = i
		n.names[i], n.parts[i] = node.Name, node.Run
	}
	met := make([]int, len(nodes)) // met[j] == i+1: node i has named node j before
	for i, node := range nodes {
		n.after[i] = make([]int, 0, len(node.After))
		for _, name := range node.After {
			j, ok := places[name]
			if !ok {
				return &ShapeError{Names: []string{name, node.Name}, Err: ErrUnknownName}
			}
			if met[j] != i+1 {
				met[j] = i + 1
				n.after[i] = append(n.after[i], j)
			}
		}
	}
	return nil
}

// demand counts, for each node, the nodes that wait for it, by the policy of their first tasks. An
// empty node counts by the policies of the nodes that wait for it.
func (n *network) demand() []byPolicy {
	demand := make([]byPolicy, len(n.parts))
	for _, i := range slices.Backward(n.order) {
		wants := demand[i]
		if !empty(n.parts[i]) {
			wants = n.parts[i].starts()
		}
		for _, j := range n.after[i] {
			for p := range wants {
				if wants[p] > 0 {
					demand[j][p]++
				}
			}
		}
	}
	return demand
}

// sorted orders the nodes so that each comes after those that it waits for. If that leaves a
// choice, it keeps their order. If there is no such order, it returns a cycle: each node before one
// that waits for it, the first again at the end.
func sorted(after [][]int) (order, cycle []int) {
	var edges []dag.Edge
	for node, before := range after {
		for _, other := range before {
			//nolint:gosec // there are few
			edges = append(edges, dag.Edge{From: int32(other), To: int32(node)})
		}
	}
	sorted, circle := dag.Order(len(after), edges)
	for _, node := range circle {
		cycle = append(cycle, int(node))
	}
	for _, node := range sorted {
		order = append(order, int(node))
	}
	return order, cycle
}

// A stop is how far a network has been built at one node.
type stop struct {
	ends         // of the node; none if it is empty
	gate         // the gate for the nodes that wait for this one
	before *gate // the gate that the node itself waits for
}

func (b *builder) addNetwork(n *network, before *gate) ends {
	demand := n.demand()
	stops := make([]stop, len(n.parts))
	for _, i := range n.order {
		here := &stops[i]
		if empty(n.parts[i]) {
			here.gate = *b.meet(n.after[i], stops, milestone(demand[i]))
			continue
		}
		here.before = before
		if n.follows[i] {
			here.before = b.meet(n.after[i], stops, n.parts[i].starts())
		}
		from := len(b.tasks)
		here.ends = b.add(n.parts[i], here.before)
		if b.depth == 1 {
			b.nodes = append(b.nodes, nodeRange{n.names[i], from, len(b.tasks)})
		}
		here.gate = *b.follow(here.ends, demand[i])
	}
	return b.networkEnds(n, demand, stops)
}

// milestone makes an empty node gather the tasks that it waits for in one join, even if a single
// node waits for it. Otherwise the lists in a row of empty nodes would grow from one to the next.
func milestone(demand byPolicy) byPolicy {
	for p := range demand {
		demand[p] *= 2
	}
	return demand
}

// meet makes the gate of a node from those of the nodes that it waits for.
func (b *builder) meet(after []int, stops []stop, wants byPolicy) *gate {
	g := &gate{}
	for p, n := range wants {
		if n == 0 {
			continue
		}
		var ids []stint.TaskID
		for _, j := range after {
			ids = append(ids, stops[j].after[p]...)
		}
		ids = unique(ids) // several empty nodes may pass on the same task
		for _, j := range after {
			if p == abortToo && len(stops[j].after[p]) > 0 {
				g.lone = len(ids) == 1 && stops[j].lone
			}
		}
		g.after[p] = b.gather(ids, p, n)
	}
	return g
}

func (b *builder) networkEnds(n *network, demand []byPolicy, stops []stop) ends {
	for _, i := range slices.Backward(n.order) {
		covers := stops[i].covers // an empty node ends nothing itself
		if !empty(n.parts[i]) {
			covers = stops[i].before.covers
		}
		for _, j := range n.after[i] {
			stops[j].covers = max(stops[j].covers, covers)
		}
	}
	var all ends
	for _, i := range n.order {
		here := stops[i]
		if demand[i] == (byPolicy{}) {
			all.last = b.concat(all.last, here.last)
			all.left = b.concat(all.left, here.left)
		} else {
			all.left = b.concat(all.left, b.remains(here.ends, here.covers))
		}
	}
	return all
}
