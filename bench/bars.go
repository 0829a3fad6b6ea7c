package main

import (
	"fmt"
	"strings"
)

// A bar is what Stint wants to reach.
type bar struct {
	what    string
	atMost  bool // the limit is an upper one
	limit   float64
	unit    string // of the value and the limit, such as "x"
	measure func(rows results) (value float64, ok bool)
}

// A verdict is a bar held against the results.
type verdict struct {
	Bar   string   `json:"bar"`
	Want  string   `json:"want"`
	Value *float64 `json:"value,omitempty"` // nil if not measured
	Unit  string   `json:"unit,omitempty"`
	Holds bool     `json:"holds"`
}

// verdicts holds all bars against the results.
func verdicts(rows results) []verdict {
	var all []verdict
	for _, b := range bars() {
		v := verdict{Bar: b.what, Unit: b.unit, Want: ">= " + quantity(b.limit, b.unit)}
		if b.atMost {
			v.Want = "<= " + quantity(b.limit, b.unit)
		}
		if value, ok := b.measure(rows); ok {
			v.Value = known(value)
			v.Holds = value >= b.limit
			if b.atMost {
				v.Holds = value <= b.limit
			}
		}
		all = append(all, v)
	}
	return all
}

const (
	unitTimes = "x"
	unitBytes = "bytes"
	unitMiB   = "MiB"
)

// bars are all bars.
func bars() []bar {
	all := []bar{
		over("W1 insert many", 2.5, ours("W1", ""), best("river", "W1")),
		over("W1 insert many", 0.5, ours("W1", ""), best("raw", "W1")),
		over("W2 verbs, kept", 3.5, ours("W2", verbsKept), best("river", "W2")),
		over("W2 verbs, KeepNone", 6, ours("W2", verbsDropped), best("river", "W2")),
		over("W2 worker, kept", 3, ours("W2", loopKept), best("river", "W2")),
		over("W3 insert one", 2.5, ours("W3-insert", ""), best("river", "W3-insert")),
		over("W2 worker over verbs, kept", 0.7, ours("W2", loopKept), ours("W2", verbsKept)),
		over("W3 own one, 16 workers", 1.5,
			ours("W3-own-16", ""), best("river", "W3-own-16")),
		over("W3 own one, 16 workers", 0.85, ours("W3-own-16", ""), best("raw", "W3-own-16")),
		over("W3 own one, 200 workers", 3,
			ours("W3-own-200", ""), best("river", "W3-own-200")),
		{
			what: "W3 own one, 200 workers", limit: 100_000, unit: unitRate,
			measure: medianOf("W3-own-200", "", ""),
		},
		{
			what: "W4 worker p50", atMost: true, limit: 0.6, unit: unitMilli,
			measure: medianOf("W4", "worker", figureP50),
		},
		{
			what: "W4 worker p99", atMost: true, limit: 2.5, unit: unitMilli,
			measure: medianOf("W4", "worker", figureP99),
		},
		over("W5 backlog of 2M", 0.85, ours("W5-2M", ""), ours("W5-100k", "")),
		over("W5 backlog of 10M", 0.85, ours("W5-10M", ""), ours("W5-100k", "")),
		{
			what: "W6 last tenth over first", limit: 0.9, unit: unitTimes,
			measure: quotient(
				pick("stint", "W6", "", figureLast), pick("stint", "W6", "", figureFirst)),
		},
		{
			what: "W6 last tenth over river's", limit: 5, unit: unitTimes,
			measure: quotient(
				pick("stint", "W6", "", figureLast), pick("river", "W6", "", figureLast)),
		},
		{
			what: "W7 fan-in", limit: 100_000, unit: unitRate,
			measure: medianOf("W7", "", ""),
		},
		over("W7 fan-in over W2 kept", 0.6, ours("W7", ""), ours("W2", verbsKept)),
		wholeLife("WAL of a life, kept", 900, verbsKept),
		wholeLife("WAL of a life, KeepNone", 600, verbsDropped),
		{
			what: "client memory in W2 and W5", atMost: true, limit: 150, unit: unitMiB,
			measure: mostMemory,
		},
	}
	all = append(append(append(all, remote()...), sharded()...), limited()...)
	all = append(append(all, occupied()...), unoccupied()...)
	for _, load := range mixedLoads() {
		all = append(all, steady(load.variant)...)
	}
	return all
}

// steady are the bars of a variant of W11: it goes on as it began. They mean little unless it lasts
// for some minutes, since nothing is pruned in the first half of one.
func steady(variant string) []bar {
	w11 := func(figure string) picker { return pick("stint", "W11", variant, figure) }
	return []bar{
		{
			what: "W11 " + variant + ", last tenth over first", limit: 0.7, unit: unitTimes,
			measure: quotient(w11(figureLast), w11(figureFirst)),
		},
		{
			what: "W11 " + variant + ", size at the end over that at a third", atMost: true,
			limit: 1.3, unit: unitTimes, measure: quotient(w11(figureEnd), w11(figureThird)),
		},
		{
			what: "W11 " + variant + ", pruning behind", atMost: true, limit: 60, unit: unitSecond,
			measure: medianOf("W11", variant, figureBehind),
		},
	}
}

// remote are the bars of W12: what a service between a worker and the database costs.
func remote() []bar {
	all := []bar{over("W12 service over library, 1,000 a call", 0.5,
		ours("W12-1000", byService), ours("W12-1000", byLibrary))}
	for _, figure := range []string{figureOwn, figureReturn} {
		all = append(all, bar{
			what: "W12 " + figure + ", added by the service", atMost: true, limit: 0.5,
			unit: unitMilli,
			measure: difference(
				pick("stint", "W12-latency", byService, figure),
				pick("stint", "W12-latency", byLibrary, figure)),
		})
	}
	return all
}

// sharded are the bars of W13: what is lost where tasks wait for those of another shard, and that
// shards share nothing if they do not.
func sharded() []bar {
	across := func(what, workload, variant string, limit float64) bar {
		return over("W13 "+what+", "+variant+" over one", limit,
			ours(workload, variant), ours(workload, onOneShard))
	}
	return []bar{
		across("chord", "W13-chord", onTwoShards, 0.8),
		across("pairs", "W13-pairs", onTwoShards, 0.25),
		across("independent tasks", splitWorkload, onTwoShards, 0.85),
		across("independent tasks", splitWorkload, onTwoServers, 0.85),
	}
}

// limited are the bars of W15: what limits cost where they hold up nobody, and how exact a rate is.
func limited() []bar {
	of := func(what string, limit float64, workload, variant, base string) bar {
		return over("W15 "+what, limit, ours(workload, variant), ours(workload, base))
	}
	return []bar{
		of("verbs, 1,000 at once over no limits", 0.8,
			actionLimitWorkload, verbsLimited, verbsUnlimited),
		of("worker, 1,000 at once over no limits", 0.8,
			actionLimitWorkload, loopLimited, loopUnlimited),
		of("keys over no keys", 0.95, keyLimitWorkload, keysUnlimited, noKeys),
		of("1 per key over no limits", 0.5, keyLimitWorkload, onePerKey, keysUnlimited),
		of("1 per key, 100,000 wait over none", 0.9, keyLimitWorkload, onePerKeyMany, onePerKey),
		of("keys one by one, fair over no limits", 0.3, fairWorkload, mixedFair, mixedUnlimited),
		of("keys in rows, fair over no limits", 0.6, fairWorkload, inRowsFair, inRowsUnlimited),
		{
			what: "W15 rate, off by", atMost: true, limit: 1, unit: unitPercent,
			measure: medianOf(paceWorkload, "", figureOff),
		},
	}
}

// occupied are the bars of W18 about workers that have something to do.
func occupied() []bar {
	var all []bar
	atMost := func(id, figure string, limit float64) {
		all = append(all, bar{
			what: id + " " + figure + " over river's", atMost: true, limit: limit, unit: unitTimes,
			measure: quotient(
				pick("stint", id, "", figure), pick("river", id, riverPolling1, figure)),
		})
	}
	for _, slots := range slotCounts() {
		id := fmt.Sprintf("W18-slots-%d", slots)
		times := 1.5
		if slots > 64 {
			times = 2
		}
		all = append(all, over(id, times, ours(id, ""), best("river", id)))
		atMost(id, figureCPU, 0.7)
	}
	atMost("W18-paced-800", figureCPU, 0.7)
	atMost("W18-paced-50", figureP50, 0.8)
	atMost("W18-paced-50", figureP99, 1)
	const perSecond, most = 50, 0.0011 // seconds a task
	return append(all, bar{
		what: "W18-paced-50 " + figureCores, atMost: true, limit: perSecond * most, unit: unitCores,
		measure: medianOf("W18-paced-50", "", figureCores),
	})
}

// unoccupied are those about workers that have not.
func unoccupied() []bar {
	var all []bar
	for _, b := range []struct {
		id, figure string
		limit      float64
		unit       string
	}{
		{"W18-idle-1", figureIdle, 2, unitCommits},
		{"W18-idle-60", figureIdle, 60, unitCommits},
		{"W18-idle-60", figureCores, 0.02, unitCores},
		{"W18-idle-60", figureConnections, 120, unitConnections},
	} {
		all = append(all, bar{
			what: b.id + " " + b.figure, atMost: true, limit: b.limit, unit: b.unit,
			measure: medianOf(b.id, "", b.figure),
		})
	}
	return all
}

// A picker finds a row.
type picker struct {
	name string // of the contender
	find func(rows results) (result, bool)
}

func pick(contender, workload, variant, figure string) picker {
	return picker{contender, func(rows results) (result, bool) {
		return rows.of(contender, workload, variant, figure)
	}}
}

// ours picks the rate of an entry of Stint.
func ours(workload, variant string) picker { return pick("stint", workload, variant, "") }

// best picks the best rate of a contender.
func best(contender, workload string) picker {
	return picker{contender, func(rows results) (result, bool) {
		return rows.bestOf(contender, workload, "")
	}}
}

// over is the bar that a rate be at least so many times another.
func over(what string, limit float64, numerator, denominator picker) bar {
	if denominator.name != numerator.name {
		what += " over " + denominator.name
	}
	return bar{
		what: what, limit: limit, unit: unitTimes, measure: quotient(numerator, denominator),
	}
}

func quotient(numerator, denominator picker) func(rows results) (float64, bool) {
	return func(rows results) (float64, bool) {
		above, ok := numerator.find(rows)
		below, okBelow := denominator.find(rows)
		return above.Median / below.Median, ok && okBelow
	}
}

func difference(minuend, subtrahend picker) func(rows results) (float64, bool) {
	return func(rows results) (float64, bool) {
		above, ok := minuend.find(rows)
		below, okBelow := subtrahend.find(rows)
		return above.Median - below.Median, ok && okBelow
	}
}

// medianOf is that of a figure of Stint.
func medianOf(workload, variant, figure string) func(rows results) (float64, bool) {
	return func(rows results) (float64, bool) {
		row, ok := rows.of("stint", workload, variant, figure)
		return row.Median, ok
	}
}

// wholeLife is the bar for the WAL of a task from its insertion to its end.
func wholeLife(what string, limit float64, variant string) bar {
	return bar{
		what: what, atMost: true, limit: limit, unit: unitBytes,
		measure: func(rows results) (float64, bool) {
			insert, ok := rows.of("stint", "W1", "", "")
			drain, okDrain := rows.of("stint", "W2", variant, "")
			if !ok || !okDrain || insert.WAL == nil || drain.WAL == nil {
				return 0, false
			}
			return *insert.WAL + *drain.WAL, true
		},
	}
}

// mostMemory is the most that Stint needed in W2 or W5.
func mostMemory(rows results) (float64, bool) {
	var most float64
	for _, row := range rows {
		drains := row.Workload == "W2" || strings.HasPrefix(row.Workload, "W5-")
		if row.Contender == "stint" && drains && row.PeakMiB != nil {
			most = max(most, *row.PeakMiB)
		}
	}
	return most, most > 0
}
