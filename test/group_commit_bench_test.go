package stint_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

// BenchmarkGroupCommit loops over owning one task and returning it, through one store, whose calls
// share statements, and through a store for each goroutine, whose calls do not.
func BenchmarkGroupCommit(b *testing.B) {
	for _, goroutines := range []int{16, 200} {
		for _, together := range []bool{false, true} {
			name := fmt.Sprintf("goroutines=%d/together=%v", goroutines, together)
			b.Run(name, func(b *testing.B) { benchmarkGroupCommit(b, goroutines, together) })
		}
	}
}

func benchmarkGroupCommit(b *testing.B, goroutines int, together bool) {
	b.Helper()
	bench := newBench(b, stint.Retention{})
	if err := bench.store.InsertTasks(b.Context(), benchTasks("g", b.N)); err != nil {
		b.Fatal(err)
	}
	stores := make([]*stint.Store, goroutines)
	for i := range stores {
		stores[i] = bench.store
		if !together {
			var err error
			stores[i], err = stint.New(bench.pool, stint.Options{Maintenance: stint.MaintainNever})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = stores[i].Close(context.WithoutCancel(b.Context())) })
		}
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	bench.measure(b, goroutines, func(goroutine int) error {
		store := stores[goroutine]
		for left.Load() > 0 {
			owned, err := store.OwnTasks(b.Context(), "actor", 1, []string{"bench"}, time.Minute)
			if err != nil {
				return err
			}
			for _, task := range owned {
				err := store.ReturnTask(b.Context(), task.ID, task.Token, "", stint.StatusCompleted)
				if err != nil {
					return err
				}
			}
			left.Add(-int64(len(owned)))
		}
		return nil
	})
}
