package layout

import "math"

// roomBend is the room that a bend needs above and below: half the distance between two of them.
const roomBend = 7

// spreads and straightenings are how often these passes over the layers are made to find heights.
const (
	spreads        = 24
	straightenings = 2
)

// spread gives the places heights: near to the average of their neighbours, in the order of their
// layer, and not too close to one another. It begins with the neighbours to one side alone.
func (l *layers) spread() {
	for _, layer := range l.order {
		y := 0.0
		for _, at := range layer {
			y += l.room(at)
			l.places[at].y = y
			y += l.room(at)
		}
	}
	for i := range spreads {
		l.sweep(i%2 == 1, func(layer []int, neighbours func(int) []int) {
			l.settle(layer, func(at int) (y, weight float64) {
				if i < spreads/2 {
					return l.average(at, neighbours(at))
				}
				return l.balance(at)
			})
		})
	}
	for range straightenings {
		for _, path := range l.paths {
			l.straighten(path)
		}
	}
	top := math.Inf(1)
	for at := range l.places {
		top = min(top, l.places[at].y-l.room(at))
	}
	for at := range l.places {
		l.places[at].y = math.Round(l.places[at].y - top)
	}
}

func (l *layers) room(at int) float64 {
	if l.places[at].bend {
		return roomBend
	}
	return l.roomBox
}

// average returns the average height of some neighbours of a place, and how much they count.
func (l *layers) average(at int, neighbours []int) (y, weight float64) {
	if len(neighbours) == 0 {
		return l.places[at].y, 0.01
	}
	for _, other := range neighbours {
		strength := 1.0
		if l.places[at].bend && l.places[other].bend {
			strength = 8 // it is more important that long edges are straight
		}
		weight += strength
		y += float64(strength * l.places[other].y)
	}
	return y / weight, weight
}

// balance is the average of all neighbours of a place. The side with fewer neighbours counts less,
// so that a node is about in the middle of the many nodes that it leads to, or that lead to it.
func (l *layers) balance(at int) (y, weight float64) {
	const less = 0.1
	before, after := l.places[at].before, l.places[at].after
	y, weight = l.average(at, before)
	otherY, otherWeight := l.average(at, after)
	if len(before) < len(after) {
		weight *= less
	} else if len(before) > len(after) {
		otherWeight *= less
	}
	return mean(y, weight, otherY, otherWeight)
}

// mean returns the mean of two weighted numbers, and the sum of their weights. The conversions keep
// processors from multiplying and adding in one step, since some would then round differently.
func mean(a, weightA, b, weightB float64) (value, weight float64) {
	weight = weightA + weightB
	return (float64(a*weightA) + float64(b*weightB)) / weight, weight
}

// A block is a run of places that stand as close as they may.
type block struct {
	places    int
	y, weight float64 // of the first place, on average
}

// settle moves the places of a layer as near as possible to the heights that they wish for, by
// least squares: places that would be too close to each other become one block, which stands at the
// average of their wishes (isotonic regression).
func (l *layers) settle(layer []int, wish func(at int) (y, weight float64)) {
	var blocks []block
	offsets := make([]float64, len(layer)) // from the first place
	for i, at := range layer {
		if i > 0 {
			offsets[i] = offsets[i-1] + l.room(layer[i-1]) + l.room(at)
		}
		y, weight := wish(at)
		last := block{1, y - offsets[i], weight}
		for len(blocks) > 0 && blocks[len(blocks)-1].y >= last.y {
			above := blocks[len(blocks)-1]
			blocks = blocks[:len(blocks)-1]
			y, weight := mean(above.y, above.weight, last.y, last.weight)
			last = block{above.places + last.places, y, weight}
		}
		blocks = append(blocks, last)
	}
	i := 0
	for _, b := range blocks {
		for range b.places {
			l.places[layer[i]].y = b.y + offsets[i]
			i++
		}
	}
}

// straighten makes the bends of a path level with the place before them, or the place behind them,
// or at least with one another, as far as other places leave room.
func (l *layers) straighten(path []int) {
	for i := 1; i < len(path)-1; {
		top, bottom := l.freedom(path[i])
		end := i + 1
		for ; end < len(path)-1; end++ {
			above, below := l.freedom(path[end])
			if max(top, above) > min(bottom, below) {
				break
			}
			top, bottom = max(top, above), min(bottom, below)
		}
		y := l.places[path[i-1]].y
		if last := l.places[path[end]].y; (y < top || y > bottom) && top <= last && last <= bottom {
			y = last
		}
		for ; i < end; i++ {
			l.places[path[i]].y = min(max(y, top), bottom)
		}
	}
}

// freedom is how high and how low a place can be, by what is above and below it.
func (l *layers) freedom(at int) (top, bottom float64) {
	place := &l.places[at]
	layer := l.order[place.layer]
	top, bottom = math.Inf(-1), math.Inf(1)
	if i := place.index; i > 0 {
		top = l.places[layer[i-1]].y + l.room(layer[i-1]) + l.room(at)
	}
	if i := place.index; i < len(layer)-1 {
		bottom = l.places[layer[i+1]].y - l.room(layer[i+1]) - l.room(at)
	}
	return top, bottom
}
