package charts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
)

// A Day is a day by the minute, as curves and as a table.
type Day struct {
	Since  time.Time // the left edge of the curves
	Curves []Curve
	Hours  []Hour // the newest first
	Marks  []Mark // the oldest first
}

// A Curve is one of its numbers in the course of the day: a path of an SVG picture of dayWidth x
// sparkHeight, where the right edge is now.
type Curve struct {
	Name string
	Line string
	Most float64 // of one minute
	Unit Unit
}

// A Unit says what a curve counts: tasks a minute, tasks, or seconds.
type Unit string

// The units.
const (
	PerMinute Unit = "a minute"
	Tasks     Unit = "tasks"
	Seconds   Unit = "seconds"
)

// An Hour is the sum of its minutes, and the worst of what was at their ends. Tries and Retries
// miss the minutes in which they are not known.
type Hour struct {
	At                                time.Time
	Tries, Retries, Completed, Failed int64
	Ready                             int64
	Oldest, Median, P95               time.Duration
	WaitP95, RunP95                   time.Duration
	Estimated                         bool
	AtLeast                           bool // Tries and Retries miss a minute
	SoFar                             bool // it is not over
}

// A Mark is something that was changed.
type Mark struct {
	At   time.Time
	X    float64
	Text string
}

const (
	dayLong  = 24 * time.Hour
	dayLeast = time.Hour // what curves show of less
	dayWidth = 288       // one unit is a point of a curve: five minutes of a day
)

// NewDay draws the last day. The minutes are those of an action or of all together, the oldest
// first; marks need no X.
func NewDay(minutes []stint.Minute, marks []Mark, now time.Time) Day {
	var day Day
	if len(minutes) == 0 {
		return day
	}
	axis := axisOf(minutes, marks, now)
	day.Since = axis.begin
	perMinute := func(tasks int64, m *stint.Minute) float64 {
		return float64(tasks) / max(m.Until.Sub(m.Since).Minutes(), 1.0/60)
	}
	for _, curve := range []struct {
		name string
		unit Unit
		of   func(*stint.Minute) (value float64, known bool)
	}{
		{"Fetched", PerMinute, func(m *stint.Minute) (float64, bool) {
			return perMinute(m.Tries, m), m.Tries >= 0
		}},
		{"Fetched again", PerMinute, func(m *stint.Minute) (float64, bool) {
			return perMinute(m.Retries, m), m.Retries >= 0
		}},
		{"Completed", PerMinute, func(m *stint.Minute) (float64, bool) {
			return perMinute(m.Completed, m), true
		}},
		{"Failed for good", PerMinute, func(m *stint.Minute) (float64, bool) {
			return perMinute(m.Failed, m), true
		}},
		{"Ready", Tasks, func(m *stint.Minute) (float64, bool) { return float64(m.Ready), true }},
		{"Oldest ready", Seconds, func(m *stint.Minute) (float64, bool) {
			return m.OldestReady.Seconds(), true
		}},
		{
			"95 % took", Seconds, // from insertion to completion
			func(m *stint.Minute) (float64, bool) { return m.P95.Seconds(), m.Completed > 0 },
		},
		{
			"95 % waited", Seconds, // from ready to fetched
			func(m *stint.Minute) (float64, bool) { return m.WaitP95.Seconds(), m.RunP95 > 0 },
		},
		{
			"95 % ran", Seconds, // from fetched to completion
			func(m *stint.Minute) (float64, bool) { return m.RunP95.Seconds(), m.RunP95 > 0 },
		},
	} {
		c := Curve{Name: curve.name, Unit: curve.unit}
		c.draw(minutes, axis, curve.of)
		day.Curves = append(day.Curves, c)
	}
	for _, mark := range marks {
		if x := axis.place(mark.At); x >= 0 {
			mark.X = x
			day.Marks = append(day.Marks, mark)
		}
	}
	day.Hours = hoursOf(minutes, now)
	return day
}

// An axis is the time that curves show.
type axis struct{ begin, end time.Time }

// axisOf is the part of the last day of which something is known.
func axisOf(minutes []stint.Minute, marks []Mark, now time.Time) axis {
	known := max(now.Sub(minutes[0].Since), dayLeast)
	for _, mark := range marks {
		if ago := now.Sub(mark.At); ago <= dayLong {
			known = max(known, ago)
		}
	}
	return axis{begin: now.Add(-min(known, dayLong)), end: now}
}

func (a axis) place(at time.Time) float64 {
	return dayWidth * float64(at.Sub(a.begin)) / float64(a.end.Sub(a.begin))
}

// draw draws a curve of the means of the minutes of a point. It has gaps where nothing is known.
func (c *Curve) draw(
	minutes []stint.Minute, a axis, of func(*stint.Minute) (float64, bool),
) {
	var sums [dayWidth + 1]float64
	var counts [dayWidth + 1]int
	for i := range minutes {
		m := &minutes[i]
		value, known := of(m)
		if !known {
			continue
		}
		from := max(int(a.place(m.Since.Add(time.Second))), 0)
		for point := from; point <= min(int(a.place(m.Until)), dayWidth); point++ {
			sums[point] += value
			counts[point]++
			c.Most = max(c.Most, value)
		}
	}
	top := 0.0
	for i := range sums {
		sums[i] /= float64(max(counts[i], 1))
		top = max(top, sums[i])
	}
	var line strings.Builder
	command := "M"
	for i, value := range sums {
		if counts[i] == 0 {
			command = "M"
			continue
		}
		y := sparkHeight - 1 - (sparkHeight-2)*value/cmp.Or(top, 1)
		fmt.Fprintf(&line, "%s%d %.1f", command, i, y)
		if command == "M" { // a single point is seen, too
			line.WriteString("h.5")
		}
		command = "L"
	}
	c.Line = line.String()
}

// hoursOf adds minutes up. The hour of a day ago is left out if it began earlier: the one that is
// not over would have the same name.
func hoursOf(minutes []stint.Minute, now time.Time) (hours []Hour) {
	for i := range minutes {
		m := &minutes[i]
		at := m.Until.UTC().Truncate(time.Hour)
		if len(hours) == 0 || !hours[len(hours)-1].At.Equal(at) {
			hours = append(hours, Hour{At: at})
		}
		h := &hours[len(hours)-1]
		h.AtLeast = h.AtLeast || m.Tries < 0
		h.Tries += max(m.Tries, 0)
		h.Retries += max(m.Retries, 0)
		h.Completed, h.Failed = h.Completed+m.Completed, h.Failed+m.Failed
		h.Ready, h.Oldest = max(h.Ready, m.Ready), max(h.Oldest, m.OldestReady)
		h.Median, h.P95 = max(h.Median, m.Median), max(h.P95, m.P95)
		h.WaitP95, h.RunP95 = max(h.WaitP95, m.WaitP95), max(h.RunP95, m.RunP95)
		h.Estimated = h.Estimated || m.Estimated
	}
	if len(hours) > int(dayLong/time.Hour) {
		hours = hours[1:]
	}
	if n := len(hours); n > 0 {
		hours[n-1].SoFar = now.Before(hours[n-1].At.Add(time.Hour))
	}
	slices.Reverse(hours)
	return hours
}
