package main

import (
	"slices"
	"strings"
	"time"
)

// A workload is something to do that is the same for every contender.
type workload struct {
	id    string
	title string

	// tasks is how many tasks are measured, quick with -quick. Without quick, -quick leaves the
	// workload out.
	tasks, quick int

	// backlog is how many tasks there are before the measurement, where it is more than tasks.
	backlog int

	// bodyBytes is the length of a body.
	bodyBytes int

	// callers is how many goroutines call at once, where the workload says so.
	callers int

	// perSecond is how many tasks are inserted in a second, where the workload says so.
	perSecond int

	// lasts is for how long the workload goes on, where it is not the tasks that end it.
	lasts time.Duration

	// once makes it part of the first round alone, because it takes long. If it does not change
	// what it works on, it is measured there as often as there are rounds: see again.
	once bool

	// again makes all measurements one after the other on one backlog, which is far larger than
	// what they take from it.
	again bool

	// figures are what a measurement tells. Default: tasks per second.
	figures []figure
}

// A figure is a number that a measurement gives.
type figure struct {
	name string // empty if there is only one
	unit string
}

const (
	unitRate   = "tasks/s"
	unitMilli  = "ms"
	unitSecond = "s"
)

// rate is the only figure of most workloads.
var rate = figure{unit: unitRate} //nolint:gochecknoglobals // A constant that Go has no word for.

func (w workload) figuresOrRate() []figure {
	if len(w.figures) == 0 {
		return []figure{rate}
	}
	return w.figures
}

// smallBody is the length of the bodies of most workloads.
const smallBody = 100

// Names of figures that bars look at.
const (
	figureP50   = "p50"
	figureP99   = "p99"
	figureFirst = "first tenth"
	figureLast  = "last tenth"

	figureThird  = "size at a third"
	figureEnd    = "size at the end"
	figureBehind = "pruning behind"

	figureOwn    = "own p50"
	figureReturn = "return p50"

	figureInsert    = "insert"
	figureInsertWAL = "WAL of the insert"
)

// workloads are all workloads, in the order of the table.
func workloads() []workload {
	all := []workload{
		{id: "W1", title: "insert many", tasks: 200_000, quick: 50_000},
		{id: "W2", title: "drain", tasks: 200_000, quick: 40_000},
		{
			id: "W3-insert", title: "insert one, 16 callers",
			tasks: 50_000, quick: 5_000, callers: 16,
		},
		{
			id: "W3-own-16", title: "own one, return one, 16 workers",
			tasks: 30_000, quick: 5_000, callers: 16,
		},
		{
			id: "W3-own-200", title: "own one, return one, 200 workers",
			tasks: 50_000, quick: 10_000, callers: 200,
		},
		{
			id: "W4", title: "latency at 50 tasks/s", tasks: 500, quick: 100,
			figures: []figure{{figureP50, unitMilli}, {figureP99, unitMilli}},
		},
		{id: "W5-100k", title: "drain 100k of 100k", tasks: 100_000},
		{
			id: "W5-2M", title: "drain 100k of 2M", tasks: 100_000, backlog: 2_000_000,
			once: true, again: true,
		},
		{
			id: "W5-10M", title: "drain 100k of 10M", tasks: 100_000, backlog: 10_000_000,
			once: true, again: true,
		},
		{
			id: "W6", title: "insert and drain under an old snapshot", lasts: 10 * time.Minute,
			once:    true,
			figures: []figure{{figureFirst, unitRate}, {figureLast, unitRate}},
		},
		{id: "W7", title: "fan-in to 400, to 1", tasks: 200_000, quick: 40_000},
		{id: "W8-insert", title: "insert many of 16 KiB", tasks: 10_000, bodyBytes: 16 << 10},
		{id: "W8-drain", title: "drain many of 16 KiB", tasks: 10_000, bodyBytes: 16 << 10},
		{id: "W9", title: "drain 40 actions with priorities", tasks: 200_000},
		{id: "W10", title: "insert and drain, pruning", lasts: time.Minute, once: true},
		{
			id: "W11", title: "insert and drain, pruning soon", lasts: 10 * time.Minute,
			once: true,
			figures: []figure{
				{figureFirst, unitRate},
				{figureLast, unitRate},
				{figureThird, unitMiB},
				{figureEnd, unitMiB},
				{figureBehind, unitSecond},
			},
		},
		{id: "W12-1", title: "own and return 1 a call", tasks: 20_000, callers: 16},
		{id: "W12-100", title: "own and return 100 a call", tasks: 100_000, callers: 8},
		{
			id: "W12-1000", title: "own and return 1,000 a call",
			tasks: 200_000, quick: 40_000, callers: 8,
		},
		{
			id: "W12-latency", title: "latency of one caller", tasks: 2_000, callers: 1,
			figures: []figure{{figureOwn, unitMilli}, {figureReturn, unitMilli}},
		},
	}
	all = slices.Concat(all, shardWorkloads(), scaleWorkloads(), limitWorkloads(), []workload{
		{id: stepsWorkload, title: "drain tasks with ten steps", tasks: 2_000},
		{id: historyWorkload, title: "drain with the history of tries", tasks: 100_000},
	}, slotWorkloads(), disturbedWorkloads(), pinnedWorkloads(), notifyWorkloads())
	for i := range all {
		all[i].bodyBytes = max(all[i].bodyBytes, smallBody)
		all[i].backlog = max(all[i].backlog, all[i].tasks)
	}
	return all
}

// shardWorkloads are those of W13. Half of the tasks of its pairs wait for the other half.
func shardWorkloads() []workload {
	inserted := []figure{rate, {figureInsert, unitSecond}, {figureInsertWAL, unitBytes}}
	return []workload{
		{id: "W13-chord", title: "drain a chord", tasks: 100_000, figures: inserted},
		{id: "W13-pairs", title: "drain pairs of tasks", tasks: 50_000, figures: inserted},
		{
			id: "W13-edge", title: "one edge at a time", tasks: 200,
			figures: []figure{{figureP50, unitMilli}, {figureP99, unitMilli}},
		},
		{id: splitWorkload, title: "drain independent tasks", tasks: 200_000},
	}
}

// picked says whether the list of IDs, separated by commas, names the workload: by its ID, or by
// what it has before the hyphen. An empty list names all.
func (w workload) picked(list string) bool {
	if list == "" {
		return true
	}
	for name := range strings.SplitSeq(list, ",") {
		if w.id == name || strings.HasPrefix(w.id, name+"-") {
			return true
		}
	}
	return false
}
