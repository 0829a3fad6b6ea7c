package worker_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/worker"
)

// BenchmarkWorker_PerformsTasks performs tasks that need no time.
func BenchmarkWorker_PerformsTasks(b *testing.B) {
	for _, concurrency := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint("concurrency=", concurrency), func(b *testing.B) {
			store, err := stint.New(testdb.New(b), stint.Options{})
			if err != nil {
				b.Fatal(err)
			}
			tasks := make([]stint.Task, b.N)
			for i := range tasks {
				tasks[i] = stint.Task{ID: stint.TaskID(fmt.Sprint(i)), Action: "a"}
			}
			if err := store.InsertTasks(b.Context(), tasks); err != nil {
				b.Fatal(err)
			}
			w, err := worker.New(store, worker.Options{Concurrency: concurrency})
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(b.Context())
			defer stop()
			var left atomic.Int64
			left.Store(int64(b.N))
			err = w.Handle("a", func(context.Context, *worker.Task) (worker.Result, error) {
				if left.Add(-1) == 0 {
					stop()
				}
				return worker.Result{}, nil
			})
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			if err := w.Run(ctx); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			if err := store.Close(context.WithoutCancel(ctx)); err != nil {
				b.Fatal(err)
			}
		})
	}
}
