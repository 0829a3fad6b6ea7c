package stint_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

// BenchmarkMaintain_DueAtOnce sees to what comes due at the same moment: -benchtime 100000x is how
// many.
func BenchmarkMaintain_DueAtOnce(b *testing.B) {
	for _, burst := range bursts {
		b.Run(burst.name, func(b *testing.B) {
			m := newBurst(b)
			burst.prepare(b, m.store, m.pool, b.N)
			m.measure(b, 1, func(int) error { return m.store.Maintain(b.Context()) })
		})
	}
}

// BenchmarkExtend_ManyRows extends a lease whose tasks have a row each but for three that were
// returned, as a heartbeat does: -benchtime 20000x is how many.
func BenchmarkExtend_ManyRows(b *testing.B) {
	m := newBurst(b)
	insert(b, m.store, withDeadlines(b.N+3)...)
	owned := own(b, m.store, b.N+3)
	_, err := m.store.ReturnTasks(b.Context(), completed(owned[:3]))
	wantErr(b, "ReturnTasks", err, nil)
	var kept []bool
	m.measure(b, 1, func(int) error {
		kept, err = m.store.ExtendTasksOwnership(b.Context(), "actor", owned[3:], time.Hour)
		return err
	})
	if slices.Contains(kept, false) {
		b.Error("a task was not extended")
	}
}

// BenchmarkRetryTasks_Fan retries a completed task and with it those behind it: -benchtime 100000x
// is how many.
func BenchmarkRetryTasks_Fan(b *testing.B) {
	m := newBurst(b)
	tasks := []stint.Task{after("root")}
	for i := range b.N {
		tasks = append(tasks, after(stint.TaskID(fmt.Sprintf("leaf-%d", i)), "root"))
	}
	insert(b, m.store, tasks...)
	completeFirst(b, m.store, "root")
	m.measure(b, 1, func(int) error {
		return errOf(m.store.RetryTasks(b.Context(), []stint.TaskID{"root"}))
	})
}

// BenchmarkReplaceTasks replaces ready tasks in one call: -benchtime 50000x is how many.
func BenchmarkReplaceTasks(b *testing.B) {
	m := newBurst(b)
	tasks := benchTasks("task", b.N)
	insert(b, m.store, tasks...)
	m.measure(b, 1, func(int) error { return m.store.ReplaceTasks(b.Context(), tasks) })
}

// newBurst is a store that nothing else maintains.
func newBurst(b *testing.B) *bench {
	b.Helper()
	m := newBench(b, stint.Retention{})
	m.store = openStore(b, m.pool, stint.Options{Maintenance: stint.MaintainNever})
	return m
}
