package stint_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
)

// What it costs that a change of 10,000 tasks is noted.
func BenchmarkChanges(b *testing.B) {
	const n = 10_000
	author := stint.WithAuthor(context.Background(), stint.Author{
		Name: "ann@example.com", Reason: "the customer has cancelled all of it",
	})
	for name, ctx := range map[string]context.Context{
		"nobody": context.Background(), "author": author,
	} {
		for verb, change := range map[string]func(*stint.Store, []stint.TaskID) error{
			"abort": func(store *stint.Store, ids []stint.TaskID) error {
				_, err := store.AbortTasks(ctx, ids, "why")
				return err
			},
			"delete": func(store *stint.Store, ids []stint.TaskID) error {
				_, err := store.DeleteTasks(ctx, ids)
				return err
			},
		} {
			b.Run(verb+"/"+name, func(b *testing.B) {
				store, pool := newStoreAndPool(b, stint.Options{})
				var bytes int64
				best := time.Hour // others may use the machine, too
				for round := 0; b.Loop(); round++ {
					b.StopTimer()
					tasks := numbered(fmt.Sprintf("customer/%04d/order/", round), n)
					insert(b, store, tasks...)
					before := testdb.WALBytes(b, pool)
					b.StartTimer()
					began := time.Now()
					wantErr(b, verb, change(store, named(tasks)), nil)
					best = min(best, time.Since(began))
					bytes += testdb.WALBytes(b, pool) - before
				}
				b.ReportMetric(float64(best.Milliseconds()), "best-ms")
				b.ReportMetric(float64(bytes)/float64(b.N)/n, "WAL-B/task")
			})
		}
	}
}
