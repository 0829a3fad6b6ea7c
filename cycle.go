package stint

import (
	"slices"

	"github.com/jackc/pgx/v5"
)

// A numbering turns edges between keys into edges between nodes.
type numbering struct {
	nodes map[int64]int32
	keys  []int64
	edges []edge
}

func newNumbering() *numbering { return &numbering{nodes: map[int64]int32{}} }

func (n *numbering) add(e keyEdge) {
	n.edges = append(n.edges, edge{n.node(e.after), n.node(e.run)})
}

func (n *numbering) node(key int64) int32 {
	node, ok := n.nodes[key]
	if !ok {
		node = int32(len(n.keys)) //nolint:gosec // more would not fit into memory
		n.nodes[key] = node
		n.keys = append(n.keys, key)
	}
	return node
}

// read adds rows of two keys each.
func (n *numbering) read(rows pgx.Rows) error {
	for rows.Next() {
		var e keyEdge
		if err := rows.Scan(&e.after, &e.run); err != nil {
			return err
		}
		n.add(e)
	}
	return rows.Err()
}

// cycle returns the keys along a cycle, the first one again at the end, or nil if there is none.
func (n *numbering) cycle() []int64 {
	sortEdges(n.edges)
	cycle := findCycle(len(n.keys), n.edges)
	var keys []int64
	for _, node := range cycle {
		keys = append(keys, n.keys[node])
	}
	return keys
}

// findCycle returns the nodes of a cycle, the first one again at the end, or nil if there is none.
func findCycle(size int, edges []edge) []int32 {
	before := make([]int32, size) // how many edges lead into a node from nodes that are left
	for _, edge := range edges {
		before[edge.run]++
	}
	first := firstEdges(size, edges)
	free := make([]int32, 0, size)
	for node := range before {
		if before[node] == 0 {
			free = append(free, int32(node))
		}
	}
	for next := 0; next < len(free); next++ {
		node := free[next]
		for _, edge := range edges[first[node]:first[node+1]] {
			if before[edge.run]--; before[edge.run] == 0 {
				free = append(free, edge.run)
			}
		}
	}
	if len(free) == size {
		return nil
	}
	return walkBack(before, edges)
}

// firstEdges is where the edges that leave each node begin; edges are sorted.
func firstEdges(size int, edges []edge) []int32 {
	first := make([]int32, size+1)
	for _, edge := range edges {
		first[edge.after+1]++
	}
	for node := range size {
		first[node+1] += first[node]
	}
	return first
}

// walkBack goes from a node that was left to one before it that was left, until it meets itself.
func walkBack(left []int32, edges []edge) []int32 {
	behind := map[int32]int32{}
	var node int32
	for _, edge := range edges {
		if left[edge.after] > 0 && left[edge.run] > 0 {
			behind[edge.run] = edge.after
			node = edge.run
		}
	}
	var path []int32
	at := map[int32]int{}
	for {
		if start, ok := at[node]; ok {
			path = append(path[start:], node)
			slices.Reverse(path)
			return path
		}
		at[node] = len(path)
		path = append(path, node)
		node = behind[node]
	}
}
