// Package dag puts the nodes of a directed graph in order, or finds a cycle that makes an order
// impossible. The store, shards and structures check dependencies by it, and the command draws
// networks in that order. It also writes networks in the languages of programs that draw.
package dag

// An Edge leads from one node to another. Nodes are numbered from 0 on.
type Edge struct{ From, To int32 }

const (
	unseen = iota
	onPath
	placed
)

// A search goes from nodes to the nodes with edges to them, depth first.
type search struct {
	first []int32 // where the sources of each node begin in sources
	// sources are the nodes with edges to a node, in the order of the edges.
	sources []int32
	state   []byte
	path    []step
	order   []int32
	cycle   []int32
}

// A step is a node on the path, and the place of the next of its sources.
type step struct{ node, next int32 }

// Order returns all nodes, each behind the nodes with edges to it, and in the order of their
// numbers where that leaves a choice. If the edges form cycles, it also returns one cycle, along
// the edges, with the first node again at the end; the order then ignores one edge of each cycle.
func Order(nodes int, edges []Edge) (order, cycle []int32) {
	s := &search{
		first: make([]int32, nodes+1), sources: make([]int32, len(edges)),
		state: make([]byte, nodes), order: make([]int32, 0, nodes),
	}
	for _, edge := range edges {
		s.first[edge.To+1]++
	}
	for node := range nodes {
		s.first[node+1] += s.first[node]
	}
	place := append([]int32(nil), s.first[:nodes]...)
	for _, edge := range edges {
		s.sources[place[edge.To]] = edge.From
		place[edge.To]++
	}
	for node := range nodes {
		if s.state[node] == unseen {
			s.from(int32(node))
		}
	}
	return s.order, s.cycle
}

// from places a node behind all nodes that lead to it.
func (s *search) from(start int32) {
	s.push(start)
	for len(s.path) > 0 {
		top := &s.path[len(s.path)-1]
		if top.next == s.first[top.node+1] {
			s.order, s.state[top.node] = append(s.order, top.node), placed
			s.path = s.path[:len(s.path)-1]
			continue
		}
		source := s.sources[top.next]
		top.next++
		switch s.state[source] {
		case unseen:
			s.push(source)
		case onPath:
			s.note(source)
		}
	}
}

func (s *search) push(node int32) {
	s.path = append(s.path, step{node, s.first[node]})
	s.state[node] = onPath
}

// note notes the cycle that a node on the path closes, unless it has noted one before.
func (s *search) note(node int32) {
	if s.cycle != nil {
		return
	}
	s.cycle = append(s.cycle, node)
	for i := len(s.path) - 1; s.path[i].node != node; i-- {
		s.cycle = append(s.cycle, s.path[i].node)
	}
	s.cycle = append(s.cycle, node)
}

// A KeyGraph is edges between keys, as a graph of numbered nodes.
type KeyGraph struct {
	nodes map[int64]int32
	keys  []int64
	edges []Edge
}

// NewKeyGraph returns a graph without edges.
func NewKeyGraph() *KeyGraph { return &KeyGraph{nodes: map[int64]int32{}} }

// Add adds an edge.
func (g *KeyGraph) Add(from, to int64) {
	g.edges = append(g.edges, Edge{From: g.node(from), To: g.node(to)})
}

func (g *KeyGraph) node(key int64) int32 {
	node, ok := g.nodes[key]
	if !ok {
		node = int32(len(g.keys)) //nolint:gosec // more would not fit into memory
		g.nodes[key] = node
		g.keys = append(g.keys, key)
	}
	return node
}

// Cycle returns the keys along a cycle, the first one again at the end, or nil if there is none.
func (g *KeyGraph) Cycle() []int64 {
	_, cycle := Order(len(g.keys), g.edges)
	var keys []int64
	for _, node := range cycle {
		keys = append(keys, g.keys[node])
	}
	return keys
}
