package layout

import (
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// roomBox is half the height of a box and of the gap to the next one.
const roomBox = 43

func TestLayOut_LeavesRoomAndLeadsToTheRight(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tasks := rapid.IntRange(1, 40).Draw(t, "tasks")
		pairs := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Edge {
			from := rapid.IntRange(0, tasks-1).Draw(t, "from")
			return Edge{from, rapid.IntRange(from, tasks-1).Draw(t, "to")}
		}), 0, -1, rapid.ID[Edge]).Draw(t, "edges")
		var edges []Edge
		for _, e := range pairs {
			if e.From != e.To {
				edges = append(edges, e)
			}
		}
		l := layOut(tasks, edges, roomBox)
		if !reflect.DeepEqual(l, layOut(tasks, edges, roomBox)) {
			t.Fatal("the same network is laid out differently")
		}
		wantRoom(t, l)
		for i, path := range l.paths {
			if path[0] != edges[i].From || path[len(path)-1] != edges[i].To {
				t.Fatalf("the path of %v is %v", edges[i], path)
			}
			for k := range path[1:] {
				if l.places[path[k]].layer+1 != l.places[path[k+1]].layer {
					t.Fatalf("the path of %v does not lead from layer to layer", edges[i])
				}
			}
		}
		if got, want := l.crossings(), crossingsOneByOne(l); got != want {
			t.Fatalf("crossings = %d, want %d", got, want)
		}
	})
}

// wantRoom checks that every place is in its layer once, below the one above it.
func wantRoom(t interface{ Fatalf(string, ...any) }, l *layers) {
	count := 0
	for i, layer := range l.order {
		for k, at := range layer {
			count++
			if l.places[at].layer != i || l.places[at].index != k {
				t.Fatalf("%d is not where it is said to be", at)
			}
			if k == 0 {
				continue
			}
			above := layer[k-1]
			distance := l.places[at].y - l.places[above].y
			if distance < l.room(above)+l.room(at)-1 { // they are rounded
				t.Fatalf("%d and %d are %v apart", above, at, distance)
			}
		}
	}
	if count != len(l.places) {
		t.Fatalf("%d of %d places are in layers", count, len(l.places))
	}
}

func crossingsOneByOne(l *layers) int {
	crossings := 0
	for a := range l.places {
		for b := range l.places {
			if l.places[a].layer != l.places[b].layer || l.places[a].index >= l.places[b].index {
				continue
			}
			for _, c := range l.places[a].after {
				for _, d := range l.places[b].after {
					if l.places[c].index > l.places[d].index {
						crossings++
					}
				}
			}
		}
	}
	return crossings
}

func TestLayOut_PutsATaskInTheMiddleOfItsPredecessors(t *testing.T) {
	t.Parallel()
	var edges []Edge
	for task := range 20 {
		edges = append(edges, Edge{task, 20})
	}
	l := layOut(21, edges, roomBox)
	for task := range 20 {
		if got, want := l.places[task].y, roomBox*float64(2*task+1); got != want {
			t.Errorf("task %d is at %v, want %v", task, got, want)
		}
	}
	if got, want := l.places[20].y, (l.places[0].y+l.places[19].y)/2; math.Abs(got-want) > 1 {
		t.Errorf("the last task is at %v, want %v", got, want)
	}
}

func TestLayOut_UntanglesATree(t *testing.T) {
	t.Parallel()
	var edges []Edge
	for task := 1; task < 127; task++ {
		edges = append(edges, Edge{(task - 1) / 2, task})
	}
	if got := layOut(127, edges, roomBox).crossings(); got != 0 {
		t.Errorf("crossings = %d, want 0", got)
	}
	for i, e := range edges {
		edges[i] = Edge{e.To, e.From}
	}
	if got := layOut(127, edges, roomBox).crossings(); got != 0 {
		t.Errorf("crossings = %d, want 0 the other way", got)
	}
}

// A chain whose end waits for all of it has more bends than a picture can hold.
func TestLayOut_LimitsTheBends(t *testing.T) {
	t.Parallel()
	var edges []Edge
	for task := range 1998 {
		edges = append(edges, Edge{task, task + 1}, Edge{task, 1999})
	}
	l := layOut(2000, edges, roomBox)
	wantRoom(t, l)
	if bends := len(l.places) - 2000; bends > bendsMax || bends < bendsMax/2 {
		t.Errorf("%d bends, want at most %d", bends, bendsMax)
	}
}

// Only damaged tables can hold a cycle; even so there is a picture.
func TestLayOut_BearsACycle(t *testing.T) {
	t.Parallel()
	wantRoom(t, layOut(4, []Edge{{0, 1}, {1, 2}, {2, 1}, {2, 3}, {3, 3}}, roomBox))
}
