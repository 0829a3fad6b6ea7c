package stint_test

import (
	"context"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

// BenchmarkDryRun returns tasks, one after the other, while dry runs of their abort go on. It tells
// how long the slowest return took, the slowest pause, and a dry run.
func BenchmarkDryRun(b *testing.B) {
	const tasks = 10_000
	store, _ := newStoreAndPool(b, stint.Options{})
	inserted := numbered("task/", tasks)
	insert(b, store, inserted...)
	ids := make([]stint.TaskID, tasks)
	for i := range inserted {
		ids[i] = inserted[i].ID
	}
	owned, err := store.OwnTasks(b.Context(), "actor", 1000, []string{"act"}, time.Hour)
	wantErr(b, "OwnTasks", err, nil)
	ctx, cancel := context.WithCancel(b.Context())
	runs := 0
	ended := make(chan time.Duration)
	go func() {
		begun := time.Now()
		for ctx.Err() == nil {
			if _, err := store.DryRun().AbortTasks(ctx, ids, ""); err == nil {
				runs++
			}
		}
		ended <- time.Since(begun)
	}()
	var slowestReturn, slowestPause time.Duration
	for i := 0; b.Loop() && i < len(owned); i++ {
		begun := time.Now()
		err := store.ReturnTask(
			b.Context(), owned[i].ID, owned[i].Token, "", stint.StatusCompleted)
		wantErr(b, "ReturnTask", err, nil)
		slowestReturn = max(slowestReturn, time.Since(begun))
		begun = time.Now()
		wantErr(b, "Pause", store.Pause(b.Context(), "act"), nil)
		slowestPause = max(slowestPause, time.Since(begun))
		wantErr(b, "Resume", store.Resume(b.Context(), "act"), nil)
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	took := <-ended
	b.ReportMetric(float64(slowestReturn.Milliseconds()), "ms/slowest-return")
	b.ReportMetric(float64(slowestPause.Milliseconds()), "ms/slowest-pause")
	b.ReportMetric(float64(took.Milliseconds())/float64(max(runs, 1)), "ms/dry-run")
}
