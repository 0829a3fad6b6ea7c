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

// A bench is a store whose cost is measured.
type bench struct {
	store   *stint.Store
	pool    *pgxpool.Pool
	traffic *testdb.Traffic
}

func newBench(b *testing.B, keep stint.Retention) *bench {
	b.Helper()
	traffic := testdb.NewTraffic(b)
	store, err := stint.New(traffic.Pool, stint.Options{Retention: keep})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close(context.WithoutCancel(b.Context())) })
	return &bench{store, traffic.Pool, traffic}
}

// measure runs work in so many callers and reports what b.N tasks took.
func (m *bench) measure(b *testing.B, callers int, work func(caller int) error) {
	b.Helper()
	since := m.traffic.Measure(b)
	var wait sync.WaitGroup
	b.ResetTimer()
	for caller := range callers {
		wait.Go(func() {
			if err := work(caller); err != nil {
				b.Error(err)
			}
		})
	}
	wait.Wait()
	b.StopTimer()
	roundTrips, walBytes := since()
	n := float64(b.N)
	b.ReportMetric(n/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(float64(roundTrips)/n, "round-trips/task")
	b.ReportMetric(float64(walBytes)/n, "WAL-B/task")
}

// benchTasks are tasks with IDs in no order and bodies of 100 bytes.
func benchTasks(prefix string, n int) []stint.Task {
	const golden = 0x9e3779b97f4a7c15
	tasks := make([]stint.Task, n)
	for i := range tasks {
		id := fmt.Sprintf("%s-%016x", prefix, uint64(i+1)*golden)
		tasks[i] = stint.Task{
			ID: stint.TaskID(id), Action: "bench", Body: make([]byte, 100),
		}
	}
	return tasks
}

func drain(
	ctx context.Context, store *stint.Store, worker, batch int, left *atomic.Int64,
) error {
	actor := stint.ActorID(fmt.Sprintf("worker-%d", worker))
	for left.Load() > 0 {
		owned, err := store.OwnTasks(ctx, actor, batch, []string{"bench"}, time.Minute)
		if err != nil {
			return err
		}
		verdicts, err := store.ReturnTasks(ctx, completed(owned))
		if err != nil {
			return err
		}
		for _, verdict := range verdicts {
			if verdict != nil {
				return verdict
			}
		}
		left.Add(-int64(len(owned)))
	}
	return nil
}

// returnAll owns n tasks at once and completes them at once.
func returnAll(tb testing.TB, store *stint.Store, n int) {
	tb.Helper()
	owned, err := store.OwnTasks(tb.Context(), "actor", n, []string{"bench"}, time.Hour)
	if err != nil || len(owned) != n {
		tb.Fatalf("OwnTasks gave %d tasks, want %d, %v", len(owned), n, err)
	}
	verdicts, err := store.ReturnTasks(tb.Context(), completed(owned))
	if err != nil {
		tb.Fatal(err)
	}
	for _, verdict := range verdicts {
		if verdict != nil {
			tb.Fatal(verdict)
		}
	}
}

func completeFirst(b *testing.B, store *stint.Store, first stint.TaskID) {
	b.Helper()
	owned := ownOne(b, store)
	err := store.ReturnTask(b.Context(), first, owned.Token, "", stint.StatusCompleted)
	wantErr(b, "ReturnTask", err, nil)
}
