// Package charts turns counts of tasks into small pictures: curves of how many were fetched, and
// bars of their states.
package charts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
)

// Rates are how many tasks were fetched, as seen by those who looked in the last minutes.
type Rates struct {
	mutex sync.Mutex
	ring  []sample // the newest last
}

// A sample is what the counts of fetches were at a time.
type sample struct {
	at    time.Time
	tries map[string]tries // by action
}

// tries are fetches, and those among them that were not the first of their task.
type tries struct{ all, again int64 }

const (
	// The samples of the last ten minutes are kept, but no more than there are seconds in them, and
	// no more counts of actions than that.
	ratesOver  = 10 * time.Minute
	samplesMax = 600
	countsMax  = 100_000

	// Stores add their fetches to the counts once a second, so samples nearer to each other than
	// this say little.
	rateOver = 5 * time.Second
	// sparkOver is less, so that a curve is there soon.
	sparkOver = 3 * time.Second
)

// Note adds a sample.
func (r *Rates) Note(stats stint.Stats, now time.Time) {
	taken := sample{at: now, tries: make(map[string]tries, len(stats.Actions))}
	for i := range stats.Actions {
		a := &stats.Actions[i]
		taken.tries[a.Action] = tries{a.Tries, a.Retries}
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if n := len(r.ring); n > 0 && !now.After(r.ring[n-1].at) {
		r.ring = nil // the database's clock was set back
	}
	r.ring = append(r.ring, taken)
	most := min(samplesMax, max(2, countsMax/max(len(taken.tries), 1)))
	for len(r.ring) > most || now.Sub(r.ring[0].at) > ratesOver {
		r.ring = r.ring[1:]
	}
}

// A Pace is how many tasks are fetched per second, and how many of these not for their first
// try. Known says that there are samples to tell from.
type Pace struct {
	All, Again float64
	Known      bool
}

// over is the pace over some samples of some actions, or of all if none is named. That of an action
// counts from the first sample that has it on: before, its past is unknown.
func over(samples []sample, actions ...string) Pace {
	last := samples[len(samples)-1]
	if last.at.Sub(samples[0].at) <= 0 {
		return Pace{}
	}
	p := Pace{Known: true}
	if len(actions) == 0 {
		actions = slices.Collect(maps.Keys(last.tries))
	}
	for _, action := range actions {
		i := slices.IndexFunc(samples, func(s sample) bool {
			_, ok := s.tries[action]
			return ok
		})
		if i < 0 || i == len(samples)-1 {
			continue
		}
		was, is := samples[i].tries[action], last.tries[action]
		seconds := last.at.Sub(samples[i].at).Seconds()
		// The counts of an action begin anew when nobody has asked for it for long.
		p.All += float64(max(is.all-was.all, 0)) / seconds
		p.Again += float64(max(is.again-was.again, 0)) / seconds
	}
	return p
}

// Now is the pace of the last seconds.
func (r *Rates) Now(actions ...string) Pace {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if len(r.ring) < 2 {
		return Pace{}
	}
	last := r.ring[len(r.ring)-1]
	first := len(r.ring) - 2
	for first > 0 && last.at.Sub(r.ring[first].at) < rateOver {
		first--
	}
	return over(r.ring[first:], actions...)
}

// A Spark is a small curve without axes.
type Spark struct {
	Line string // the path of an SVG picture of sparkWidth x sparkHeight
	Area string // what is below the line
	Most float64
	Last Pace
	Span time.Duration
}

// The size of a spark, in units of its own: its style decides how large it is.
const (
	sparkWidth  = 240
	sparkHeight = 32
	sparkPoints = 60
	pointsMin   = 4 // fewer make no curve
)

// Spark draws how the pace was since the first sample. There is no line while there are too few.
func (r *Rates) Spark(actions ...string) Spark {
	last := r.Now(actions...)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	s := Spark{Last: last}
	if len(r.ring) < pointsMin {
		return s
	}
	begin, end := r.ring[0].at, r.ring[len(r.ring)-1].at
	s.Span = end.Sub(begin)
	// Counts grow once a second at each store, by leaps: a point is the mean of some seconds.
	wide := max(sparkOver, s.Span/sparkPoints)
	var points []float64
	var times []time.Time
	for from := 0; from < len(r.ring)-1; {
		to := from + 1
		for to < len(r.ring)-1 && r.ring[to].at.Sub(r.ring[from].at) < wide {
			to++
		}
		points = append(points, over(r.ring[from:to+1], actions...).All)
		times = append(times, r.ring[to].at)
		s.Most = max(s.Most, points[len(points)-1])
		from = to
	}
	if len(points) < pointsMin {
		return s
	}
	var line strings.Builder
	for i, point := range points {
		x := sparkWidth * float64(times[i].Sub(times[0])) / float64(end.Sub(times[0]))
		y := sparkHeight - 1 - (sparkHeight-2)*point/cmp.Or(s.Most, 1)
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&line, "%s%.1f %.1f", command, x, y)
	}
	s.Line = line.String()
	s.Area = fmt.Sprintf("%sV%dH0Z", s.Line, sparkHeight)
	return s
}
