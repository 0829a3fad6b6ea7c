package worker_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/worker"
)

// BenchmarkWorker_PerformsTasks performs tasks that need no time, and keeps them. It runs on a
// durable server that it starts, and tells tasks per second, bytes of WAL per task and round trips
// per task. -benchtime 300000x gives a thousand slots something to do.
func BenchmarkWorker_PerformsTasks(b *testing.B) {
	for _, concurrency := range []int{1, 10, 100, 1000, 2000} {
		b.Run(fmt.Sprint("concurrency=", concurrency), func(b *testing.B) {
			benchmarkWorker(b, concurrency, one)
		})
	}
}

// BenchmarkWorker_PerformsBatches is the same with a handler that performs 100 tasks in a call.
func BenchmarkWorker_PerformsBatches(b *testing.B) {
	benchmarkWorker(b, 1000, func(done func()) worker.Registration {
		handler := func(_ context.Context, tasks []*worker.BatchTask) error {
			for range tasks {
				done()
			}
			return nil
		}
		return worker.HandleBatch("a", worker.Batch{Wait: 10 * time.Millisecond}, handler)
	})
}

func one(done func()) worker.Registration {
	return worker.Handle("a", func(context.Context, *worker.Task) (worker.Result, error) {
		done()
		return worker.Result{}, nil
	})
}

func benchmarkWorker(
	b *testing.B, concurrency int, handle func(done func()) worker.Registration,
) {
	b.Helper()
	traffic := testdb.NewTraffic(b)
	store, err := stint.New(traffic.Pool, stint.Options{})
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
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var left atomic.Int64
	left.Store(int64(b.N))
	count := func() {
		if left.Add(-1) == 0 {
			stop()
		}
	}
	w, err := worker.New(store, worker.Options{Concurrency: concurrency}, handle(count))
	if err != nil {
		b.Fatal(err)
	}
	since := traffic.Measure(b)
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.Run(ctx); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	roundTrips, walBytes := since()
	n := float64(b.N)
	b.ReportMetric(n/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(float64(roundTrips)/n, "round-trips/task")
	b.ReportMetric(float64(walBytes)/n, "WAL-B/task")
	if err := store.Close(context.WithoutCancel(ctx)); err != nil {
		b.Fatal(err)
	}
}
