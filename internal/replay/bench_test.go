//go:build unix

package replay_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

// A task is inserted, owned and returned with a status of its own; the log of many such tasks is
// replayed.
func BenchmarkHistory_Read(b *testing.B) {
	_, pool, h := follow(b)
	store := newStore(b, pool)
	ok := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	const batch = 1000
	for n := 0; n < b.N; n += batch {
		tasks := make([]stint.Task, min(batch, b.N-n))
		for i := range tasks {
			id := stint.TaskID(fmt.Sprintf("task %d", n+i))
			tasks[i] = stint.Task{ID: id, Action: "act", Body: make([]byte, 100)}
		}
		ok(store.InsertTasks(b.Context(), tasks))
		owned, err := store.OwnTasks(b.Context(), "actor", len(tasks), []string{"act"}, time.Hour)
		ok(err)
		returns := make([]stint.Return, len(owned))
		for i, task := range owned {
			returns[i] = stint.Return{
				ID: task.ID, Token: task.Token, Code: stint.StatusCompleted, Status: "done",
			}
		}
		_, err = store.ReturnTasks(b.Context(), returns)
		ok(err)
	}
	before := heap()
	b.ResetTimer()
	ok(h.Read(b.Context()))
	b.StopTimer()
	b.ReportMetric(float64(heap()-before)/float64(b.N), "B/task")
	runtime.KeepAlive(h)
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
