package stint_test

import (
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
)

// What it costs to follow what ends: for a minute in which nothing does, and for each end of a
// store that has many.
//
//	go test -run '^$' -bench Ends -benchtime 100000x ./test
func BenchmarkEnds(b *testing.B) {
	b.Run("idle", func(b *testing.B) {
		traffic := testdb.NewTraffic(b)
		store, next := toFollow(b, traffic)
		const parts = 6
		var roundTrips, walBytes int64
		for i := range parts {
			since := traffic.Measure(b)
			page, err := store.Ends(b.Context(), nil, next, time.Minute/parts)
			wantErr(b, "Ends", err, nil)
			next = page.Next
			trips, wal := since()
			roundTrips += trips
			// The server writes for itself at times, such as statistics of all databases.
			if i == 0 || wal < walBytes {
				walBytes = wal
			}
		}
		b.ReportMetric(float64(roundTrips), "round-trips/min")
		b.ReportMetric(float64(walBytes*parts), "WAL-B/min")
		b.ReportMetric(0, "ns/op")
	})
	b.Run("busy", func(b *testing.B) {
		traffic := testdb.NewTraffic(b)
		store, next := toFollow(b, traffic)
		const piece = 10_000
		for tasks := benchTasks("task", b.N); len(tasks) > 0; {
			some := tasks[:min(piece, len(tasks))]
			tasks = tasks[len(some):]
			insert(b, store, some...)
			_, err := store.AbortTasks(b.Context(), named(some), "off")
			wantErr(b, "AbortTasks", err, nil)
		}
		exec(b, traffic.Pool, "ANALYZE")
		since := traffic.Measure(b)
		b.ResetTimer()
		for told := 0; told < b.N; {
			page, err := store.Ends(b.Context(), nil, next, time.Minute)
			wantErr(b, "Ends", err, nil)
			told, next = told+len(page.Tasks), page.Next
		}
		b.StopTimer()
		roundTrips, walBytes := since()
		n := float64(b.N)
		b.ReportMetric(n/b.Elapsed().Seconds(), "ends/s")
		b.ReportMetric(float64(roundTrips)/n, "round-trips/end")
		b.ReportMetric(float64(walBytes)/n, "WAL-B/end")
	})
}

// toFollow is a store that maintains nothing, from the present on.
func toFollow(b *testing.B, traffic *testdb.Traffic) (*stint.Store, stint.Cursor) {
	b.Helper()
	store := openStore(b, traffic.Pool, stint.Options{Maintenance: stint.MaintainNever})
	page, err := store.Ends(b.Context(), nil, stint.EndsNow, 0)
	wantErr(b, "Ends", err, nil)
	return store, page.Next
}
