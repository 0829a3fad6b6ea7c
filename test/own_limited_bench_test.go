package stint_test

import (
	"cmp"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stint-tasks/stint"
)

// BenchmarkDrain_UnderLimits owns and returns tasks by four workers, up to a thousand at a time:
// compare the variants with the first one of the same run, with -benchtime 100000x.
func BenchmarkDrain_UnderLimits(b *testing.B) {
	each := func(tasks []stint.Task) {
		for i := range tasks {
			tasks[i].Key = string(tasks[i].ID)
		}
	}
	runs := func(tasks []stint.Task) { // 1,000 keys
		for i := range tasks {
			tasks[i].Key = fmt.Sprint(i / 100)
		}
	}
	mixed := func(tasks []stint.Task) { // 1,000 keys by turns
		for i := range tasks {
			tasks[i].Key = fmt.Sprint(i % 1000)
		}
	}
	second := stint.Rate{Tasks: 1_000_000, Per: time.Second}
	for _, variant := range []struct {
		name    string
		limits  stint.Limits
		keys    func([]stint.Task)
		blocked int // tasks of a key at its limit, ahead of the others
		batch   int // if not 1,000
	}{
		{name: "no limits"},
		{name: "keys without limits", keys: each},
		{name: "concurrency 10,000", limits: stint.Limits{Concurrency: 10_000}},
		{name: "concurrency 1,000", limits: stint.Limits{Concurrency: 1000}},
		{name: "rate", limits: stint.Limits{Rate: second}},
		{name: "budget", limits: stint.Limits{Rate: second, ByCost: true}},
		{name: "budget-key", limits: stint.Limits{RatePerKey: second, ByCost: true}, keys: mixed},
		{name: "a key each", limits: stint.Limits{ConcurrencyPerKey: 1}, keys: each},
		{
			name: "a key each, 100,000 of another ahead", keys: each, blocked: 100_000,
			limits: stint.Limits{ConcurrencyPerKey: 1},
		},
		{name: "no limits, 125 a call", batch: 125},
		{
			name: "concurrency 1,000, 125 a call", batch: 125,
			limits: stint.Limits{Concurrency: 1000},
		},
		{name: "a key each, in order", limits: stint.Limits{Ordered: true}, keys: each},
		{
			name: "1,000 keys, 1 of each", limits: stint.Limits{ConcurrencyPerKey: 1},
			keys: mixed,
		},
		{name: "1,000 keys, in order", limits: stint.Limits{Ordered: true}, keys: mixed},
		{name: "1,000 keys", limits: stint.Limits{ConcurrencyPerKey: 1000}, keys: runs},
		{name: "1,000 keys, fair", limits: stint.Limits{Fair: true}, keys: runs},
	} {
		b.Run(variant.name, func(b *testing.B) {
			store, pool := newUncheckedStore(b, stint.Options{Maintenance: stint.MaintainNever})
			err := store.SetLimits(b.Context(), "bench", variant.limits)
			wantErr(b, "SetLimits", err, nil)
			if variant.blocked > 0 {
				insert(b, store, keyed(benchTasks("blocked", variant.blocked), "blocked")...)
				_, err := store.OwnTasks(b.Context(), "owner", 1, []string{"bench"}, time.Hour)
				wantErr(b, "OwnTasks", err, nil)
			}
			tasks := benchTasks("t", b.N)
			if variant.keys != nil {
				variant.keys(tasks)
			}
			insert(b, store, tasks...)
			exec(b, pool, "VACUUM ANALYZE")
			exec(b, pool, "CHECKPOINT")
			b.ResetTimer()
			drainBy(b, store, cmp.Or(variant.batch, 1000), int64(b.N))
		})
	}
}

// drainBy owns and returns n tasks by eight workers, or four if they take more than 125 at once.
func drainBy(b *testing.B, store *stint.Store, batch int, n int64) {
	b.Helper()
	var workers errgroup.Group
	var left atomic.Int64
	left.Store(n)
	goroutines := 4
	if batch <= 125 {
		goroutines = 8
	}
	for w := range goroutines {
		workers.Go(func() error { return drain(b.Context(), store, w, batch, &left) })
	}
	wantErr(b, "drain", workers.Wait(), nil)
}
