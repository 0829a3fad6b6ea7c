package layout

import (
	"cmp"
	"slices"

	"github.com/stint-tasks/stint/internal/dag"
)

// A place is where a node is, or where an edge passes a layer on its way to a later one.
type place struct {
	layer         int
	bend          bool    // of an edge
	before, after []int   // the places in the layers beside it that edges join it to
	index         int     // within its layer
	average       float64 // of the indexes of its neighbours in the layer before
	y             float64 // of its centre
}

// The layers are the places of a network, in columns from left to right: each edge leads to the
// right, from one layer to the next. The method is Sugiyama's: nodes get their layers, long edges
// get bends, layers are ordered so that few edges cross, and then places get heights. Nothing
// depends on chance, so the same network is always laid out the same.
type layers struct {
	places  []place // first the nodes
	paths   [][]int // the places that each edge goes through
	order   [][]int // the places of each layer, from the top
	roomBox float64 // the room that a node needs above and below its centre
}

// The limits keep the time and the size of large networks in bounds.
const (
	bendsMax  = 20_000 // edges beyond go straight to their end, the longest ones first
	sweepsMax = 24     // over all layers, to find an order
	idleMax   = 4      // how many sweeps in a row may bring nothing
)

func layOut(nodes int, edges []Edge, roomBox float64) *layers {
	l := &layers{
		places: make([]place, nodes), paths: make([][]int, len(edges)), roomBox: roomBox,
	}
	l.assign(edges)
	l.bend(edges)
	l.arrange(nodes)
	l.spread()
	return l
}

// assign puts each node behind the last of its predecessors, and then, where that makes edges
// shorter on the whole, right before the first of its dependents.
func (l *layers) assign(edges []Edge) {
	before, after := make([][]int, len(l.places)), make([][]int, len(l.places))
	links := make([]dag.Edge, len(edges))
	for i, e := range edges {
		before[e.To] = append(before[e.To], e.From)
		after[e.From] = append(after[e.From], e.To)
		links[i] = dag.Edge{From: int32(e.From), To: int32(e.To)} //nolint:gosec // few
	}
	sorted, _ := dag.Order(len(l.places), links)
	for _, node := range sorted {
		for _, next := range after[node] {
			l.places[next].layer = max(l.places[next].layer, l.places[node].layer+1)
		}
	}
	for _, node := range slices.Backward(sorted) {
		if len(after[node]) <= len(before[node]) {
			continue
		}
		first := l.places[after[node][0]].layer
		for _, next := range after[node] {
			first = min(first, l.places[next].layer)
		}
		l.places[node].layer = first - 1
	}
}

// bend gives each edge its path, with a bend in every layer between its ends.
func (l *layers) bend(edges []Edge) {
	length := func(i int) int { return l.places[edges[i].To].layer - l.places[edges[i].From].layer }
	shortest := make([]int, len(edges))
	for i := range edges {
		shortest[i] = i
	}
	slices.SortStableFunc(shortest, func(a, b int) int { return cmp.Compare(length(a), length(b)) })
	bends := 0
	for _, i := range shortest {
		from, to := edges[i].From, edges[i].To
		if length(i) < 1 { // on a cycle, which only damaged tables can hold
			l.paths[i] = []int{from, to}
			continue
		}
		if bends += length(i) - 1; bends > bendsMax {
			l.paths[i] = []int{from, to}
			continue
		}
		path := []int{from}
		for layer := l.places[from].layer + 1; layer < l.places[to].layer; layer++ {
			path = append(path, len(l.places))
			l.places = append(l.places, place{layer: layer, bend: true})
		}
		path = append(path, to)
		for k := range path[1:] {
			left, right := path[k], path[k+1]
			l.places[left].after = append(l.places[left].after, right)
			l.places[right].before = append(l.places[right].before, left)
		}
		l.paths[i] = path
	}
}

// arrange orders the layers. It starts with an order in which neighbours are near each other, and
// then sorts each layer by the average of each place's neighbours, to and fro, until the number of
// edges that cross no longer falls.
func (l *layers) arrange(nodes int) {
	l.begin(nodes)
	fewest, best := l.crossings(), l.copyOrder()
	for sweep, idle := 0, 0; fewest > 0 && idle < idleMax && sweep < sweepsMax; sweep++ {
		l.sweep(sweep%2 == 0, func(layer []int, neighbours func(int) []int) {
			l.sort(layer, neighbours)
		})
		idle++
		if crossings := l.crossings(); crossings < fewest {
			fewest, best, idle = crossings, l.copyOrder(), 0
		}
	}
	l.order = best
	for _, layer := range l.order {
		l.number(layer)
	}
}

// begin orders the layers by a walk along the edges, depth first.
func (l *layers) begin(nodes int) {
	seen := make([]bool, len(l.places))
	for node := range nodes {
		if len(l.places[node].before) > 0 {
			continue
		}
		for stack := []int{node}; len(stack) > 0; {
			at := stack[len(stack)-1]
			if stack = stack[:len(stack)-1]; seen[at] {
				continue
			}
			seen[at] = true
			l.put(at)
			for _, next := range slices.Backward(l.places[at].after) {
				stack = append(stack, next)
			}
		}
	}
}

func (l *layers) put(at int) {
	layer := l.places[at].layer
	for len(l.order) <= layer {
		l.order = append(l.order, nil)
	}
	l.places[at].index = len(l.order[layer])
	l.order[layer] = append(l.order[layer], at)
}

// sweep calls visit with each layer, from left to right or from right to left, and with a function
// that returns the neighbours of a place in the layer visited before.
func (l *layers) sweep(right bool, visit func(layer []int, neighbours func(int) []int)) {
	if right {
		for _, layer := range l.order {
			visit(layer, func(at int) []int { return l.places[at].before })
		}
		return
	}
	for _, layer := range slices.Backward(l.order) {
		visit(layer, func(at int) []int { return l.places[at].after })
	}
}

// sort orders a layer by the average of each place's neighbours. Places without neighbours stay
// about where they are.
func (l *layers) sort(layer []int, neighbours func(int) []int) {
	for _, at := range layer {
		average := float64(l.places[at].index)
		if near := neighbours(at); len(near) > 0 {
			sum := 0
			for _, other := range near {
				sum += l.places[other].index
			}
			average = float64(sum) / float64(len(near))
		}
		l.places[at].average = average
	}
	slices.SortStableFunc(layer, func(a, b int) int {
		return cmp.Compare(l.places[a].average, l.places[b].average)
	})
	l.number(layer)
}

func (l *layers) number(layer []int) {
	for i, at := range layer {
		l.places[at].index = i
	}
}

func (l *layers) copyOrder() [][]int {
	order := make([][]int, len(l.order))
	for i, layer := range l.order {
		order[i] = slices.Clone(layer)
	}
	return order
}

// crossings counts the pairs of edges that cross: those that start in one order and end in the
// other. A tree of sums (Fenwick's) tells how many edges so far end further down.
func (l *layers) crossings() int {
	crossings := 0
	var ends []int
	for i := range len(l.order) - 1 {
		sums := make([]int, len(l.order[i+1])+1)
		count := 0
		for _, from := range l.order[i] {
			ends = ends[:0]
			for _, to := range l.places[from].after {
				ends = append(ends, l.places[to].index)
			}
			for _, end := range ends {
				crossings += count
				for k := end + 1; k > 0; k &= k - 1 {
					crossings -= sums[k]
				}
			}
			for _, end := range ends {
				for k := end + 1; k < len(sums); k += k & -k {
					sums[k]++
				}
			}
			count += len(ends)
		}
	}
	return crossings
}
