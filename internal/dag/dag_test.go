package dag_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-tasks/stint/internal/dag"
)

// The path goes from a node to those with edges to it, so the cycle is noted against the path,
// which is along the edges.
func TestOrder_FindsACycleOrNone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(0, 12).Draw(t, "nodes")
		var edges []dag.Edge
		if nodes > 0 {
			node := rapid.Int32Range(0, int32(nodes-1))
			edges = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) dag.Edge {
				return dag.Edge{From: node.Draw(t, "from"), To: node.Draw(t, "to")}
			}), 0, 30).Draw(t, "edges")
		}
		order, cycle := dag.Order(nodes, edges)
		if sorted := slices.Sorted(slices.Values(order)); len(sorted) != nodes ||
			len(slices.Compact(sorted)) != nodes {
			t.Fatalf("Order = %v, want all of %d nodes once", order, nodes)
		}
		violated := 0
		for _, edge := range edges {
			if slices.Index(order, edge.From) >= slices.Index(order, edge.To) {
				violated++
			}
		}
		if cycle == nil {
			if violated > 0 {
				t.Fatalf("Order = %v without a cycle, against %d of %v", order, violated, edges)
			}
			return
		}
		if len(cycle) < 2 || cycle[0] != cycle[len(cycle)-1] {
			t.Fatalf("cycle = %v, want one that comes back", cycle)
		}
		for i := range cycle[1:] {
			if !slices.Contains(edges, dag.Edge{From: cycle[i], To: cycle[i+1]}) {
				t.Fatalf("cycle = %v, but no edge leads from %d to %d", cycle, cycle[i], cycle[i+1])
			}
		}
	})
}

func TestOrder_LeavesNodesAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		edges []dag.Edge
		want  []int32
	}{
		{nil, []int32{0, 1, 2, 3}},
		{[]dag.Edge{{From: 0, To: 1}, {From: 2, To: 3}}, []int32{0, 1, 2, 3}},
		{[]dag.Edge{{From: 3, To: 0}}, []int32{3, 0, 1, 2}},
		{[]dag.Edge{{From: 3, To: 1}, {From: 2, To: 3}}, []int32{0, 2, 3, 1}},
	} {
		if got, cycle := dag.Order(4, test.edges); !slices.Equal(got, test.want) || cycle != nil {
			t.Errorf("Order(4, %v) = %v, %v, want %v", test.edges, got, cycle, test.want)
		}
	}
}
