package main

import (
	"testing"
	"time"
)

func TestSkewedKey_OneHasHalf(t *testing.T) {
	t.Parallel()
	const n = 100_000
	for name, key := range map[string]func(int) string{"key": skewedKey, "row": skewedRow} {
		counts := map[string]int{}
		for i := range n {
			counts[key(i)]++
		}
		if len(counts) != skewedKeys || counts[ownKey(0)] != n/2 || counts[ownKey(999)] < 50 {
			t.Errorf("by %s there are %d keys, the first has %d of %d tasks, the last %d", name,
				len(counts), counts[ownKey(0)], n, counts[ownKey(999)])
		}
	}
}

func TestLimitedDrain_WaitingTasksAreAsManyAsItsVariantSays(t *testing.T) {
	t.Parallel()
	for share, want := range map[float64]int{0: 0, 0.01: 1001, 1: 100_001} {
		d := limitedDrain{waiting: share}
		if got := d.waitingTasks(&run{job: job{Tasks: 100_000}}); got != want {
			t.Errorf("a share of %g are %d tasks, want %d with the one that is owned", share, got,
				want)
		}
	}
}

func TestPace_LeavesOutTheFirstFetch(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := pace{all: []fetch{ // as goroutines note them, in no order
		{begun.Add(2 * time.Second), 1000}, {begun, 700}, {begun.Add(4 * time.Second), 2960},
	}}
	r := &run{}
	if err := r.tellPace(&p); err != nil {
		t.Fatal(err)
	}
	if rate, off := r.report.Figures[figurePace], r.report.Figures[figureOff]; rate != 990 ||
		off != 1 {
		t.Errorf("it is %g a second, off by %g %%, want 990 and 1 %%", rate, off)
	}
	if got := p.tasks(); got != 4660 {
		t.Errorf("%d tasks were fetched, want 4660", got)
	}
	single := pace{all: p.all[:1]}
	if _, err := single.perSecond(); err == nil {
		t.Error("the rate of one fetch = nil, want an error")
	}
}
