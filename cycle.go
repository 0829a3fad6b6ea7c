package stint

import (
	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/dag"
)

// A keyGraph is edges between the keys of tasks, as a graph of numbered nodes.
type keyGraph struct {
	nodes map[int64]int32
	keys  []int64
	edges []dag.Edge
}

func newKeyGraph() *keyGraph { return &keyGraph{nodes: map[int64]int32{}} }

func (g *keyGraph) add(e keyEdge) {
	g.edges = append(g.edges, dag.Edge{From: g.node(e.after), To: g.node(e.run)})
}

func (g *keyGraph) node(key int64) int32 {
	node, ok := g.nodes[key]
	if !ok {
		node = int32(len(g.keys)) //nolint:gosec // more would not fit into memory
		g.nodes[key] = node
		g.keys = append(g.keys, key)
	}
	return node
}

// read adds rows of two keys each.
func (g *keyGraph) read(rows pgx.Rows) error {
	for rows.Next() {
		var e keyEdge
		if err := rows.Scan(&e.after, &e.run); err != nil {
			return err
		}
		g.add(e)
	}
	return rows.Err()
}

// cycle returns the keys along a cycle, the first one again at the end, or nil if there is none.
func (g *keyGraph) cycle() []int64 {
	_, cycle := dag.Order(len(g.keys), g.edges)
	var keys []int64
	for _, node := range cycle {
		keys = append(keys, g.keys[node])
	}
	return keys
}

// A keyEdge is a row of the table edges.
type keyEdge struct{ after, run int64 }

// ends returns edges as the parameters of a statement.
func ends(edges []keyEdge) (after, run []int64) {
	after, run = make([]int64, len(edges)), make([]int64, len(edges))
	for i, edge := range edges {
		after[i], run[i] = edge.after, edge.run
	}
	return after, run
}
