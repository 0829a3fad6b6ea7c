// Package layout says where the boxes and arrows of a network go in a picture: in layers, from left
// to right. It knows neither tasks nor a format of pictures: the command and the web interface draw
// by it.
package layout

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// An Edge leads from a node to another one. Nodes are numbered from 0 on.
type Edge struct{ From, To int }

// Sizes are the lengths of a picture, in pixels.
type Sizes struct {
	BoxWidth, BoxHeight int
	BoxGap              int // between boxes of a layer
	GapMin, GapMax      int // between layers: wide where edges are steep
}

// A Point is a place in a picture. X grows to the right, and Y downwards.
type Point struct{ X, Y int }

// A Span is a part of an edge, from one layer to the next. The edge is level at both ends.
type Span struct{ From, To Point }

// A Route is the way of an edge: spans that are joined by level lines.
type Route []Span

// A Picture is a network with a place for everything.
type Picture struct {
	Width, Height int
	Boxes         []Point // the left top corner of each node's box
	Routes        []Route // of each edge, from the right of a box to the left of another
}

// steepness is how much further an edge may go up or down than to the right.
const steepness = 4

// Of returns a picture of a network. All edges lead to the right, unless they form a cycle. The
// same network has the same picture; neither chance nor anything but the edges has a part in it, so
// a picture stays as it is while the tasks that it shows go on.
func Of(nodes int, edges []Edge, sizes Sizes) *Picture {
	l := layOut(nodes, edges, float64(sizes.BoxHeight+sizes.BoxGap)/2)
	p := &Picture{Boxes: make([]Point, nodes), Routes: make([]Route, len(edges))}
	lefts := make([]int, 1, len(l.order)+1) // of the layers
	for i, gap := range l.gaps(sizes) {
		lefts = append(lefts, lefts[i]+sizes.BoxWidth+gap)
	}
	centre := func(at int) int { return int(l.places[at].y) - sizes.BoxGap/2 }
	for node := range nodes {
		place := &l.places[node]
		p.Boxes[node] = Point{lefts[place.layer], centre(node) - sizes.BoxHeight/2}
		p.Width = max(p.Width, lefts[place.layer]+sizes.BoxWidth)
	}
	for at := range l.places {
		lowest := int(l.places[at].y) + int(l.roomBox) - sizes.BoxGap
		p.Height = max(p.Height, lowest)
	}
	for i, path := range l.paths {
		route := make(Route, len(path)-1)
		for k := range route {
			from, to := path[k], path[k+1]
			route[k] = Span{
				From: Point{lefts[l.places[from].layer] + sizes.BoxWidth, centre(from)},
				To:   Point{lefts[l.places[to].layer], centre(to)},
			}
		}
		p.Routes[i] = route
	}
	return p
}

// gaps are the distances between the layers.
func (l *layers) gaps(sizes Sizes) []int {
	gaps := make([]int, max(len(l.order)-1, 0))
	for i := range gaps {
		gaps[i] = sizes.GapMin
	}
	for at := range l.places {
		from := &l.places[at]
		for _, to := range from.after {
			steep := int(math.Abs(l.places[to].y-from.y)) / steepness
			gaps[from.layer] = max(gaps[from.layer], min(steep, sizes.GapMax))
		}
	}
	return gaps
}

// Moved is the route, further to the right and further down.
func (r Route) Moved(x, y int) Route {
	moved := make(Route, len(r))
	for i, span := range r {
		moved[i] = Span{
			Point{span.From.X + x, span.From.Y + y}, Point{span.To.X + x, span.To.Y + y},
		}
	}
	return moved
}

// Middle is where there is room for a text on the edge: in the gap behind the box where it begins.
func (r Route) Middle() Point {
	if len(r) == 0 {
		return Point{}
	}
	from, to := r[0].From, r[0].To
	return Point{(from.X + to.X) / 2, (from.Y + to.Y) / 2}
}

// RoomFor is how wide a gap must be for the longest of some texts on its edges.
func RoomFor(texts []string) int {
	const letter, around = 6, 24
	room := 0
	for _, text := range texts {
		if text != "" {
			room = max(room, letter*utf8.RuneCountInString(text)+around)
		}
	}
	return room
}

// Path writes the route as the path of an SVG picture. It begins and ends so many pixels away from
// the boxes, which leaves room for the head of an arrow.
func (r Route) Path(awayFrom, awayTo int) string {
	var path strings.Builder
	for i, span := range r {
		from, to := span.From, span.To
		if i == 0 {
			from.X += awayFrom
			fmt.Fprintf(&path, "M%d %d", from.X, from.Y)
		} else {
			fmt.Fprintf(&path, "H%d", from.X)
		}
		if i == len(r)-1 {
			to.X -= awayTo
		}
		middle := (from.X + to.X) / 2
		fmt.Fprintf(&path, "C%d %d %d %d %d %d", middle, from.Y, middle, to.Y, to.X, to.Y)
	}
	return path.String()
}
