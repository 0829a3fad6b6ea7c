package layout

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var sizes = Sizes{BoxWidth: 200, BoxHeight: 66, BoxGap: 20, GapMin: 64, GapMax: 280}

// network draws the edges of a network without cycles.
func network(t *rapid.T) (nodes int, edges []Edge) {
	nodes = rapid.IntRange(1, 40).Draw(t, "nodes")
	if nodes == 1 {
		return nodes, nil
	}
	edges = rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Edge {
		from := rapid.IntRange(0, nodes-2).Draw(t, "from")
		return Edge{from, rapid.IntRange(from+1, nodes-1).Draw(t, "to")}
	}), 0, -1, rapid.ID[Edge]).Draw(t, "edges")
	return nodes, edges
}

func TestOf_BoxesDoNotOverlapAndEdgesLeadToTheRight(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes, edges := network(t)
		p := Of(nodes, edges, sizes)
		wantPicture(t, p, edges)
		for i, e := range edges {
			if p.Boxes[e.From].X+sizes.BoxWidth >= p.Boxes[e.To].X {
				t.Fatalf("edge %d leads from %v to %v", i, p.Boxes[e.From], p.Boxes[e.To])
			}
		}
	})
}

// wantPicture checks that no boxes overlap, that all are within the picture, and that every route
// begins and ends at the boxes of its edge.
func wantPicture(t interface{ Fatalf(string, ...any) }, p *Picture, edges []Edge) {
	byPlace := make([]int, len(p.Boxes))
	for i := range byPlace {
		byPlace[i] = i
	}
	slices.SortFunc(byPlace, func(a, b int) int {
		if d := p.Boxes[a].X - p.Boxes[b].X; d != 0 {
			return d
		}
		return p.Boxes[a].Y - p.Boxes[b].Y
	})
	for i, at := range byPlace {
		box := p.Boxes[at]
		if box.X < 0 || box.Y < 0 || box.X+sizes.BoxWidth > p.Width ||
			box.Y+sizes.BoxHeight > p.Height {
			t.Fatalf("box %v is not in the picture of %d x %d", box, p.Width, p.Height)
		}
		if i == 0 {
			continue
		}
		other := p.Boxes[byPlace[i-1]]
		if other.X+sizes.BoxWidth > box.X && other.Y+sizes.BoxHeight > box.Y {
			t.Fatalf("boxes at %v and %v overlap", other, box)
		}
	}
	for i, e := range edges {
		route, middle := p.Routes[i], sizes.BoxHeight/2
		from, to := p.Boxes[e.From], p.Boxes[e.To]
		first := Point{from.X + sizes.BoxWidth, from.Y + middle}
		if len(route) == 0 || route[0].From != first ||
			route[len(route)-1].To != (Point{to.X, to.Y + middle}) {
			t.Fatalf("the route from %v to %v is %v", from, to, route)
		}
	}
}

// Whoever looks at a network that grows finds each task above the same ones as before.
func TestOf_ALeafMoreLeavesTheOthersInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(2, 60).Draw(t, "nodes")
		var edges []Edge // a tree
		for node := 1; node < nodes; node++ {
			edges = append(edges, Edge{rapid.IntRange(0, node-1).Draw(t, "parent"), node})
		}
		before, after := Of(nodes-1, edges[:nodes-2], sizes), Of(nodes, edges, sizes)
		for a := range nodes - 1 {
			for b := range nodes - 1 {
				was, is := before.Boxes, after.Boxes
				if was[a].X == was[b].X && was[a].Y < was[b].Y && is[a].Y >= is[b].Y {
					t.Fatalf("%d was above %d, and is below", a, b)
				}
			}
		}
	})
}

func TestRoute_PathLeavesRoomAtItsEnds(t *testing.T) {
	t.Parallel()
	route := Route{{Point{0, 10}, Point{100, 20}}, {Point{300, 20}, Point{400, 10}}}
	const want = "M5 10C52 10 52 20 100 20H300C345 20 345 10 390 10"
	if got := route.Path(5, 10); got != want {
		t.Errorf("Path = %s, want %s", got, want)
	}
	const moved = "M7 13C54 13 54 23 102 23H302C347 23 347 13 392 13"
	if got := route.Moved(2, 3).Path(5, 10); got != moved {
		t.Errorf("Path = %s, want %s", got, moved)
	}
}

// FuzzOf takes pairs of bytes for edges, of any network.
func FuzzOf(f *testing.F) {
	f.Add(3, []byte{0, 1, 1, 2})
	f.Add(2, []byte{0, 1, 1, 0, 1, 1})
	f.Fuzz(func(t *testing.T, nodes int, pairs []byte) {
		if nodes < 1 || nodes > 256 {
			return
		}
		var edges []Edge
		for i := 0; i+1 < len(pairs); i += 2 {
			edges = append(edges, Edge{int(pairs[i]) % nodes, int(pairs[i+1]) % nodes})
		}
		wantPicture(t, Of(nodes, edges, sizes), edges)
	})
}

// mesh is a network in which each node follows two others.
func mesh(nodes int) (edges []Edge) {
	for i := range nodes {
		for _, before := range []int{i - 1 - i*7%40, i - 1 - i*31%200} {
			if before >= 0 {
				edges = append(edges, Edge{before, i})
			}
		}
	}
	return edges
}

// fan is chords: a hundred nodes each, and one that follows them all and leads to the next.
func fan(nodes int) (edges []Edge) {
	const chord = 100
	for i := range nodes {
		if first := i / chord * chord; i != first {
			edges = append(edges, Edge{first, i})
			if first+chord < nodes {
				edges = append(edges, Edge{i, first + chord})
			}
		}
	}
	return edges
}

func BenchmarkOf(b *testing.B) {
	for _, shape := range []struct {
		name  string
		edges func(nodes int) []Edge
	}{{"mesh", mesh}, {"fan", fan}} {
		for _, nodes := range []int{100, 1000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", shape.name, nodes), func(b *testing.B) {
				edges := shape.edges(nodes)
				for b.Loop() {
					Of(nodes, edges, sizes)
				}
			})
		}
	}
}
