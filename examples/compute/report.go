package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// table sums up a run.
func (e evidence) table() string {
	l := newLedger(e)
	var joins, late, pauses int
	var longest time.Duration
	for _, e := range l.entries {
		switch e.Kind {
		case answered:
			if e.Insertion == joined {
				joins++
			}
			longest = max(longest, e.Waited)
		case refused, lost:
			late++
		case pausing:
			pauses++
		default:
		}
	}
	tasks := 0
	for range l.eachTask() {
		tasks++
	}
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(columns, "requests\tjoined\tcomputed\thanded on\tlate owners\t"+
		"kills\tstops\tcrashes\tlongest wait\t")
	fmt.Fprintf(columns, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f s\t\n",
		len(l.requests), joins, len(l.results), len(l.owners)-tasks, late,
		len(l.killed), pauses, len(l.crashes), longest.Seconds())
	_ = columns.Flush() // It cannot fail.
	return text.String()
}
