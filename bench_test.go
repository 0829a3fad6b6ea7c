package stint_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
)

// benchTasks are tasks with bodies of 100 bytes.
func benchTasks(prefix string, n int) []stint.Task {
	tasks := make([]stint.Task, n)
	for i := range tasks {
		tasks[i] = stint.Task{
			ID:     stint.TaskID(fmt.Sprintf("%s-%015x", prefix, uint64(i)*0x9e3779b97f4a7c15>>4)),
			Action: "bench", Body: make([]byte, 100),
		}
	}
	return tasks
}

// walBytes is how much WAL the server has written.
func walBytes(tb testing.TB, pool *pgxpool.Pool) int64 {
	tb.Helper()
	var bytes int64
	err := pool.QueryRow(tb.Context(),
		"SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").Scan(&bytes)
	if err != nil {
		tb.Fatal(err)
	}
	return bytes
}

// measure runs work and reports its speed per task and its WAL.
func measure(b *testing.B, pool *pgxpool.Pool, tasks int, work func()) {
	b.Helper()
	before := walBytes(b, pool)
	b.ResetTimer()
	work()
	b.StopTimer()
	b.ReportMetric(float64(tasks)/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(float64(walBytes(b, pool)-before)/float64(tasks), "WAL-B/task")
}

func benchStore(b *testing.B, keep stint.Retention) (*stint.Store, *pgxpool.Pool) {
	b.Helper()
	pool := testdb.New(b)
	store, err := stint.New(pool, stint.Options{Retention: keep})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close(context.Background()) })
	return store, pool
}

func BenchmarkInsertTasks_Many(b *testing.B) {
	store, pool := benchStore(b, stint.Retention{})
	batches := make([][]stint.Task, 0, b.N/10000+1)
	for n := b.N; n > 0; n -= 10000 {
		batches = append(batches, benchTasks(fmt.Sprint(n), min(n, 10000)))
	}
	measure(b, pool, b.N, func() {
		parallel(b, 4, batches, func(ts []stint.Task) error { return store.InsertTasks(b.Context(), ts) })
	})
}

func parallel[T any](b *testing.B, workers int, items []T, do func(T) error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(items) {
					return
				}
				if err := do(items[i]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func drain(b *testing.B, store *stint.Store, workers, batch int, left *atomic.Int64) {
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for left.Load() > 0 {
				owned, err := store.OwnTasks(b.Context(), stint.ActorID(fmt.Sprint("w", w)), batch, []string{"bench"}, time.Minute)
				if err != nil {
					b.Error(err)
					return
				}
				if len(owned) == 0 {
					continue
				}
				rs := make([]stint.Return, len(owned))
				for i := range owned {
					rs[i] = stint.Return{ID: owned[i].ID, Token: owned[i].Token, Code: stint.StatusCompleted}
				}
				v, err := store.ReturnTasks(b.Context(), rs)
				if err != nil {
					b.Error(err)
					return
				}
				for _, e := range v {
					if e != nil {
						b.Error(e)
					}
				}
				left.Add(int64(-len(owned)))
			}
		})
	}
	wg.Wait()
}

func BenchmarkDrain(b *testing.B) {
	for _, keep := range []struct {
		name string
		r    stint.Retention
	}{{"kept", stint.Retention{}}, {"KeepNone", stint.Retention{Completed: stint.KeepNone}}} {
		for _, batch := range []int{1, 10, 100, 1000} {
			b.Run(fmt.Sprintf("%s/batch=%d", keep.name, batch), func(b *testing.B) {
				store, pool := benchStore(b, keep.r)
				if err := store.InsertTasks(b.Context(), benchTasks("d", b.N)); err != nil {
					b.Fatal(err)
				}
				var left atomic.Int64
				left.Store(int64(b.N))
				workers := 8
				if batch < 100 {
					workers = 16
				}
				measure(b, pool, b.N, func() { drain(b, store, workers, batch, &left) })
			})
		}
	}
}
