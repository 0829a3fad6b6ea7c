package charts

import (
	"cmp"
	"iter"

	"github.com/stint-tasks/stint"
)

// A Segment is a part of a bar: the tasks in a state.
type Segment struct {
	State    stint.State
	X, Width float64
}

// Shares are the parts of a bar of a hundred, of which each can be seen that is not empty. The
// counts are tasks by state, of all.
func Shares(counts iter.Seq2[stint.State, int64], all int64) []Segment {
	const width, least = 100, 1.5
	var parts []Segment
	left := float64(width)
	for state, tasks := range counts {
		if tasks > 0 {
			part := max(Fitting(tasks, all, width), least)
			parts = append(parts, Segment{State: state, Width: part})
			left -= part
		}
	}
	// The largest one gives up the width that the small ones have in excess of their counts.
	largest := 0
	for i := range parts {
		if parts[i].Width > parts[largest].Width {
			largest = i
		}
	}
	x := 0.0
	for i := range parts {
		if i == largest {
			parts[i].Width += left
		}
		parts[i].X = x
		x += parts[i].Width
	}
	return parts
}

// Fitting is the share of a part, as a width.
func Fitting(part, all int64, width int) float64 {
	return float64(part) / float64(cmp.Or(all, 1)) * float64(width)
}
