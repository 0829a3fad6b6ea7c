package top

import (
	"strconv"
	"time"
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
	first := m.past[0]
	seconds := snapshot.Now.Sub(first.Now).Seconds()
	m.rates = map[string]pace{}
	now := map[string][2]int64{}
	for _, a := range snapshot.Stats.Actions {
		now[a.Action] = [2]int64{a.Tries, a.Retries}
	}
	for _, a := range first.Stats.Actions {
		// The counts of an action begin anew when nobody has asked for it for long.
		m.rates[a.Action] = pace{
			tries:   max(float64(now[a.Action][0]-a.Tries), 0) / seconds,
			retries: max(float64(now[a.Action][1]-a.Retries), 0) / seconds,
		}
	}
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
