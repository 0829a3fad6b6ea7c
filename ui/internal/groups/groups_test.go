package groups

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-tasks/stint/internal/layout"
)

// A network under construction.
type network struct {
	labels []string
	edges  []layout.Edge
}

// add adds a node behind others.
func (n *network) add(label string, after ...int) int {
	n.labels = append(n.labels, label)
	for _, node := range after {
		n.edges = append(n.edges, layout.Edge{From: node, To: len(n.labels) - 1})
	}
	return len(n.labels) - 1
}

// row adds nodes one after the other, behind a node unless that is negative.
func (n *network) row(after, nodes int, labels ...string) int {
	for i := range nodes {
		if after < 0 {
			after = n.add(labels[i%len(labels)])
		} else {
			after = n.add(labels[i%len(labels)], after)
		}
	}
	return after
}

var bounds = Bounds{Apart: 24, Groups: 60, Columns: 12}

// groups are those of the network, of which all is checked that is true of any.
func (n *network) groups(t *testing.T, bounds Bounds) *Groups {
	t.Helper()
	found := Of(n.labels, n.edges, bounds)
	wantGroups(t, found, n, bounds)
	return found
}

// wantGroups checks that each node is in one group, that edges lead from group to group without a
// cycle, and that there are not too many.
func wantGroups(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, g *Groups, n *network, bounds Bounds,
) {
	t.Helper()
	sum := 0
	for group, nodes := range g.Nodes {
		sum += len(nodes)
		for _, node := range nodes {
			if g.Of[node] != group {
				t.Fatalf("node %d is in groups %d and %d", node, group, g.Of[node])
			}
		}
	}
	if sum != len(n.labels) || len(g.Nodes) != g.Count {
		t.Fatalf("%d groups of %d nodes, want %d of %d", len(g.Nodes), sum, g.Count, len(n.labels))
	}
	known := map[layout.Edge]bool{}
	for _, e := range n.edges {
		if joined := (layout.Edge{From: g.Of[e.From], To: g.Of[e.To]}); joined.From != joined.To {
			known[joined] = true
		}
	}
	for _, e := range g.Edges {
		if !known[e] {
			t.Fatalf("%v stands for no edge, or for the same as another", e)
		}
		delete(known, e)
	}
	if len(known) > 0 {
		t.Fatalf("no edge stands for %v", known)
	}
	before, _ := neighbours(g.Count, g.Edges)
	placed := depths(before, g.Edges)
	for _, e := range g.Edges {
		if placed[e.From] >= placed[e.To] {
			t.Fatalf("%v is on a cycle", e)
		}
	}
	if g.Count > bounds.Groups || g.Count > 0 && slices.Max(placed) >= bounds.Columns ||
		len(g.Edges) > edgesPerGroup*bounds.Groups {
		t.Fatalf("%d groups with %d edges, which do not fit into %+v",
			g.Count, len(g.Edges), bounds)
	}
}

// sizes are how many nodes the groups have.
func sizes(g *Groups) (all []int) {
	for _, nodes := range g.Nodes {
		all = append(all, len(nodes))
	}
	return all
}

func wantSizes(t *testing.T, g *Groups, want ...int) {
	t.Helper()
	if got := sizes(g); !slices.Equal(got, want) {
		t.Errorf("the groups have %v nodes, want %v", got, want)
	}
}

func TestOf_PutsAFanTogether(t *testing.T) {
	t.Parallel()
	n := &network{}
	root := n.add("order")
	var mails []int
	for range 10_000 {
		mails = append(mails, n.add("mail", root))
	}
	n.add("report", mails...)
	g := n.groups(t, bounds)
	wantSizes(t, g, 1, 10_000, 1)
	if want := []layout.Edge{{From: 0, To: 1}, {From: 1, To: 2}}; !slices.Equal(g.Edges, want) {
		t.Errorf("the edges are %v", g.Edges)
	}
}

func TestOf_PutsAChainTogether(t *testing.T) {
	t.Parallel()
	n := &network{}
	first := n.add("load")
	last := n.row(first, 10_000, "step")
	other := n.row(first, 7, "check")
	n.add("save", last, other)
	wantSizes(t, n.groups(t, bounds), 1, 10_000, 7, 1)
}

// A short chain of one label has room, box by box.
func TestOf_ShowsAShortChainWhole(t *testing.T) {
	t.Parallel()
	n := &network{}
	n.row(-1, bounds.Columns, "step")
	if g := n.groups(t, bounds); g.Count != bounds.Columns {
		t.Errorf("%d groups", g.Count)
	}
}

// Chains that begin alike and differ in length are alike as chains, if they lead to the same.
func TestOf_PutsChainsOfDifferentLengthsTogether(t *testing.T) {
	t.Parallel()
	n := &network{}
	root := n.add("order")
	tasks := map[string]int{}
	for i := range 50 {
		end := []string{"save", "send"}[i%2]
		n.add(end, n.row(root, 20+i, "step"))
		tasks[end] += 20 + i
	}
	wantSizes(t, n.groups(t, bounds), 1, tasks["save"], 25, tasks["send"], 25)
}

// Where chains meet, another one begins.
func TestOf_EndsChainsWhereTheyMeet(t *testing.T) {
	t.Parallel()
	n := &network{}
	root := n.add("order")
	join := n.add("step", n.row(root, 20, "step"), n.row(root, 20, "step"))
	n.row(join, 19, "step")
	wantSizes(t, n.groups(t, bounds), 1, 40, 20)
}

// What is too deep is cut into parts, in which labels that follow each other by turns are one.
func TestOf_CutsTurnsIntoParts(t *testing.T) {
	t.Parallel()
	n := &network{}
	n.row(-1, 6000, "train", "judge")
	wantSizes(t, n.groups(t, bounds), 1000, 1000, 1000, 1000, 1000, 1000)
}

// Very many labels do not need very many boxes.
func TestOf_FitsAnyNumberOfLabels(t *testing.T) {
	t.Parallel()
	n := &network{}
	for i := range 300 {
		n.add(fmt.Sprint("from-", i))
	}
	for to := range 300 {
		at := n.add(fmt.Sprint("to-", to))
		for from := range 300 {
			n.edges = append(n.edges, layout.Edge{From: from, To: at})
		}
	}
	wantSizes(t, n.groups(t, bounds), 300, 300)
}

// A long row of labels would be as long a row of groups.
func TestOf_BoundsTheColumns(t *testing.T) {
	t.Parallel()
	n := &network{}
	last := -1
	for i := range 48 {
		last = n.row(last, 1, fmt.Sprint("label-", i))
	}
	wantSizes(t, n.groups(t, bounds), 8, 8, 8, 8, 8, 8)
}

func TestOf_BoundsTheEdges(t *testing.T) {
	t.Parallel()
	n := &network{}
	for i := range 30 {
		n.add(fmt.Sprint("from-", i))
	}
	for to := range 30 {
		n.add(fmt.Sprint("to-", to))
		for from := range 30 {
			n.edges = append(n.edges, layout.Edge{From: from, To: 30 + to})
		}
	}
	wantSizes(t, n.groups(t, bounds), 30, 30)
}

// A part of many labels is one group rather than all of the network, which its labels would join.
func TestOf_PutsTheSamePartTogetherRatherThanAll(t *testing.T) {
	t.Parallel()
	n := &network{}
	var first []int
	for i := range 70 {
		first = append(first, n.add(fmt.Sprint("check-", i)))
	}
	join := n.add("join", first...)
	for i := range 70 {
		n.add(fmt.Sprint("check-", i), join)
	}
	wantSizes(t, n.groups(t, bounds), 70, 1, 70)
}

// Labels side by side may be too many even where what is deep is one group.
func TestOf_BoundsTheGroups(t *testing.T) {
	t.Parallel()
	n := &network{}
	root := n.row(-1, 200, "train", "judge")
	for i := range 100 {
		n.add(fmt.Sprint("check-", i), root)
	}
	if g := n.groups(t, bounds); g.Count < 2 {
		t.Errorf("%d group", g.Count)
	}
}

// layered is a network of layers, in which each node follows some of the layer before.
func layered(layers, width, before int, labels ...string) *network {
	n := &network{}
	for layer := range layers {
		for i := range width {
			node := n.add(labels[(layer*7+i*13)%len(labels)])
			for k := range min(before, layer*width) {
				from := (layer-1)*width + (i*31+k*17+layer)%width
				n.edges = append(n.edges, layout.Edge{From: from, To: node})
			}
		}
	}
	return n
}

func TestOf_FitsAnyNetwork(t *testing.T) {
	t.Parallel()
	n := layered(100, 100, 3, "a", "b", "c", "d")
	g := n.groups(t, bounds)
	if g.Count < 4 {
		t.Errorf("%d groups say little", g.Count)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := drawn(t)
		bounds := Bounds{
			Apart:   rapid.IntRange(1, 30).Draw(t, "apart"),
			Groups:  rapid.IntRange(8, 30).Draw(t, "groups"),
			Columns: rapid.IntRange(4, 8).Draw(t, "columns"),
		}
		g := Of(n.labels, n.edges, bounds)
		wantGroups(t, g, n, bounds)
		if !reflect.DeepEqual(g, Of(n.labels, n.edges, bounds)) {
			t.Fatalf("the same network is grouped differently")
		}
		split := Split(n.labels, n.edges, bounds)
		wantGroups(t, split, n, bounds)
		if len(n.edges) > 0 && split.Count < 2 {
			t.Fatalf("a network with edges is not split")
		}
	})
}

// drawn is any network without cycles.
func drawn(t *rapid.T) *network {
	n := &network{}
	nodes := rapid.IntRange(1, 60).Draw(t, "nodes")
	for range nodes {
		n.add(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "label"))
	}
	if nodes > 1 {
		n.edges = rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) layout.Edge {
			from := rapid.IntRange(0, nodes-2).Draw(t, "from")
			to := rapid.IntRange(from+1, min(nodes-1, from+10)).Draw(t, "to")
			return layout.Edge{From: from, To: to}
		}), 0, -1, rapid.ID[layout.Edge]).Draw(t, "edges")
	}
	return n
}

// A node of the same label in another part of a chain is looked at more closely.
func TestSplit_CutsAChain(t *testing.T) {
	t.Parallel()
	n := &network{}
	n.row(-1, 60, "step")
	wantSizes(t, n.groups(t, bounds), 60)
	wantSizes(t, Split(n.labels, n.edges, bounds), 10, 10, 10, 10, 10, 10)
}

func TestAlike_PutsBranchesTogether(t *testing.T) {
	t.Parallel()
	// A root, three branches of two and of another action at their end, and what joins them.
	n := &network{}
	root := n.add("order")
	var ends []int
	for branch := range 3 {
		scan := n.add("scan", root)
		var photos []int
		for range 4 + branch {
			photos = append(photos, n.add("develop", scan))
		}
		ends = append(ends, n.add("page", photos...))
	}
	n.add("bind", ends...)
	wantSizes(t, n.groups(t, bounds), 1, 3, 15, 3, 1)
}

func TestAlike_KeepsApartWhatLeadsElsewhere(t *testing.T) {
	t.Parallel()
	n := newNet([]string{"root", "act", "act", "mail", "file"},
		[]layout.Edge{{From: 0, To: 1}, {From: 0, To: 2}, {From: 1, To: 3}, {From: 2, To: 4}})
	if got := n.alike(100).Of; !slices.Equal(got, []int{0, 1, 2, 3, 4}) {
		t.Errorf("the groups are %v", got)
	}
	if got := n.alike(4).Of; !slices.Equal(got, []int{0, 1, 1, 2, 3}) {
		t.Errorf("the groups, four at most, are %v", got)
	}
}

func TestAlike_PutsOnlyTheSameTogether(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := drawn(t)
		found := newNet(n.labels, n.edges)
		groups := found.alike(rapid.IntRange(1, 50).Draw(t, "most"))
		first := make([]int, groups.Count)
		for node := len(n.labels) - 1; node >= 0; node-- {
			first[groups.Of[node]] = node
		}
		for node, group := range groups.Of {
			if other := first[group]; n.labels[node] != n.labels[other] ||
				found.depths[node] != found.depths[other] {
				t.Fatalf("nodes %d and %d are in a group", other, node)
			}
		}
	})
}

// Damaged tables may hold cycles, which are one group.
func FuzzOf(f *testing.F) {
	f.Add(3, []byte{0, 1, 1, 2})
	f.Add(4, []byte{0, 1, 1, 0, 1, 1, 2, 3, 3, 2, 1, 2})
	f.Fuzz(func(t *testing.T, nodes int, pairs []byte) {
		if nodes < 1 || nodes > 256 {
			return
		}
		n := &network{labels: make([]string, nodes)}
		for i := range n.labels {
			n.labels[i] = []string{"a", "b"}[i*7%3%2]
		}
		for i := 0; i+1 < len(pairs); i += 2 {
			n.edges = append(n.edges,
				layout.Edge{From: int(pairs[i]) % nodes, To: int(pairs[i+1]) % nodes})
		}
		bounds := Bounds{Apart: 5, Groups: 12, Columns: 8}
		n.groups(t, bounds)
		wantGroups(t, Split(n.labels, n.edges, bounds), n, bounds)
	})
}

// mesh is a network in which each node follows two others.
func mesh(nodes int) *network {
	n := &network{}
	for i := range nodes {
		at := n.add(fmt.Sprint("action-", i%7))
		for _, before := range []int{i - 1 - i*7%40, i - 1 - i*31%200} {
			if before >= 0 {
				n.edges = append(n.edges, layout.Edge{From: before, To: at})
			}
		}
	}
	return n
}

// films are branches, none of them quite like another.
func films(nodes int) *network {
	n := &network{}
	root := n.add("order")
	for film := 0; len(n.labels) < nodes; film++ {
		scan := n.add("scan", root)
		var photos []int
		for i := range 20 + film%30 {
			photos = append(photos, n.row(scan, 1+i%(1+film%5), "develop", "sharpen"))
		}
		n.add("page", photos...)
	}
	return n
}

func BenchmarkOf(b *testing.B) {
	const nodes = 100_000
	chain, fan := &network{}, &network{}
	chain.row(-1, nodes, "step")
	root := fan.add("order")
	var mails []int
	for range nodes - 2 {
		mails = append(mails, fan.add("mail", root))
	}
	fan.add("report", mails...)
	for _, shape := range []struct {
		name string
		*network
	}{
		{"chain", chain},
		{"fan", fan},
		{"films", films(nodes)},
		{"mesh", mesh(nodes)},
		{"layers", layered(1000, 100, 3, "a", "b", "c", "d")},
	} {
		b.Run(shape.name, func(b *testing.B) {
			for b.Loop() {
				Of(shape.labels, shape.edges, bounds)
			}
		})
	}
}
