package top

import (
	"strconv"
	"time"

	"github.com/stint-tasks/stint"
)

// A pace is how many tasks are fetched per second, and how many of these not for their first
// try.
type pace struct{ tries, retries float64 }

// ratesOver is how far apart the snapshots are that rates are calculated from. Stores add their
// fetches to the counts once a second, so snapshots nearer to each other say little.
const ratesOver = 10 * time.Second

// remember adds a snapshot to the past ones, and calculates the rates from them.
func (m *model) remember(snapshot Snapshot) {
	if n := len(m.past); n > 0 && !snapshot.Now.After(m.past[n-1].Now) {
		m.past = nil // The database's clock was set back.
	}
	m.past = append(m.past, snapshot)
	for len(m.past) > 2 && snapshot.Now.Sub(m.past[1].Now) >= ratesOver {
		m.past = m.past[1:]
	}
	m.rates = nil
	if len(m.past) == 1 {
		return
	}
	// The rate of an action counts from the first snapshot that has it on: before, its past is
	// unknown.
	type counted struct {
		stint.ActionStats
		at time.Time
	}
	first := map[string]counted{}
	for _, past := range m.past[:len(m.past)-1] {
		for _, a := range past.Stats.Actions {
			if _, ok := first[a.Action]; !ok {
				first[a.Action] = counted{a, past.Now}
			}
		}
	}
	m.rates = map[string]pace{}
	for _, a := range snapshot.Stats.Actions {
		was, ok := first[a.Action]
		if !ok {
			continue
		}
		// The counts of an action begin anew when nobody has asked for it for long.
		seconds := snapshot.Now.Sub(was.at).Seconds()
		m.rates[a.Action] = pace{
			tries:   max(float64(a.Tries-was.Tries), 0) / seconds,
			retries: max(float64(a.Retries-was.Retries), 0) / seconds,
		}
	}
}

// rateOf is a rate of an action; nothing as long as one snapshot only has the action.
func (m *model) rateOf(action string, which func(pace) float64) string {
	p, ok := m.rates[action]
	if !ok {
		return ""
	}
	return m.rate(which(p))
}

// rate is a number of tasks per second; nothing while there is only one snapshot.
func (m *model) rate(perSecond float64) string {
	const wholeMin, thousand = 99.95, 1000
	switch {
	case m.rates == nil:
		return ""
	case perSecond == 0:
		return "0"
	case perSecond < wholeMin:
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	case perSecond < wholeMin*thousand:
		return strconv.FormatFloat(perSecond, 'f', 0, 64)
	}
	return strconv.FormatFloat(perSecond/thousand, 'f', 0, 64) + "k"
}
