package stint_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

// The benchmarks run on a durable server that they start. Each tells tasks per second, bytes of WAL
// per task and round trips per task; -benchtime 500000x gives the batches something to do.

func BenchmarkInsertTasks(b *testing.B) {
	b.Run("batch=1", func(b *testing.B) { benchmarkInsert(b, 16, 1) })
	b.Run("batch=10000", func(b *testing.B) { benchmarkInsert(b, 4, 10_000) })
}

func benchmarkInsert(b *testing.B, callers, batch int) {
	b.Helper()
	bench := newBench(b, stint.Retention{})
	var batches [][]stint.Task
	for tasks := benchTasks("i", b.N); len(tasks) > 0; {
		n := min(batch, len(tasks))
		batches, tasks = append(batches, tasks[:n]), tasks[n:]
	}
	var next atomic.Int64
	bench.measure(b, callers, func(int) error {
		for i := next.Add(1) - 1; i < int64(len(batches)); i = next.Add(1) - 1 {
			if err := bench.store.InsertTasks(b.Context(), batches[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// BenchmarkEnsureTasks inserts b.N tasks in one call, some of which are there, and for comparison
// by InsertTasks: -benchtime 100000x -count 5 measures them in turn.
func BenchmarkEnsureTasks(b *testing.B) {
	b.Run("InsertTasks", func(b *testing.B) { benchmarkInsert(b, 1, b.N) })
	for _, there := range []int{0, 50, 100} {
		b.Run(fmt.Sprintf("there=%d%%", there), func(b *testing.B) {
			bench := newBench(b, stint.Retention{})
			tasks := benchTasks("e", b.N)
			var before []stint.Task
			for i := range tasks {
				if i%2 == 0 && there > 0 || there == 100 {
					before = append(before, tasks[i])
				}
			}
			if err := bench.store.InsertTasks(b.Context(), before); err != nil {
				b.Fatal(err)
			}
			bench.measure(b, 1, func(int) error {
				existing, err := bench.store.EnsureTasks(b.Context(), tasks)
				if err == nil && len(existing) != len(before) {
					err = fmt.Errorf("%d existed, want %d", len(existing), len(before))
				}
				return err
			})
		})
	}
}

func BenchmarkInsertTasksFrom(b *testing.B) {
	bench := newBench(b, stint.Retention{})
	bench.measure(b, 1, func(int) error {
		_, err := bench.store.InsertTasksFrom(b.Context(), stream(benchTasks("f", b.N), nil))
		return err
	})
}

// BenchmarkDrain owns tasks and completes them, in batches of several sizes, with finished tasks
// kept and not.
func BenchmarkDrain(b *testing.B) {
	sizes := map[int]int{1: 16, 10: 16, 100: 8, 1000: 8} // workers by batch
	for _, keep := range []struct {
		name      string
		retention stint.Retention
	}{
		{"kept", stint.Retention{}},
		{"KeepNone", stint.Retention{Completed: stint.KeepNone}},
	} {
		for batch, workers := range sizes {
			b.Run(fmt.Sprintf("%s/batch=%d", keep.name, batch), func(b *testing.B) {
				bench := newBench(b, keep.retention)
				err := bench.store.InsertTasks(b.Context(), benchTasks("d", b.N))
				if err != nil {
					b.Fatal(err)
				}
				var left atomic.Int64
				left.Store(int64(b.N))
				bench.measure(b, workers, func(worker int) error {
					return drain(b.Context(), bench.store, worker, batch, &left)
				})
			})
		}
	}
}

// BenchmarkStats counts a million tasks of ten actions that are ready, each in a row of its own.
func BenchmarkStats(b *testing.B) {
	bench := newBench(b, stint.Retention{})
	bench.insertMillion(b)
	for b.Loop() {
		if _, err := bench.store.Stats(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// insertMillion inserts a million tasks of ten actions that are ready, each in a row of its own.
func (m *bench) insertMillion(b *testing.B) {
	b.Helper()
	tasks := benchTasks("s", 1_000_000)
	for i := range tasks {
		tasks[i].Action = fmt.Sprintf("action %d", i%10)
		tasks[i].Deadline = time.Now().Add(24 * time.Hour)
	}
	if err := m.store.InsertTasks(b.Context(), tasks); err != nil {
		b.Fatal(err)
	}
}
