package taskstore_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/taskstore"
)

// measure does something b.N times by so many callers, and reports how often a second, and what it
// takes of WAL and round trips.
func measure(
	b *testing.B, traffic *testdb.Traffic, callers int, work func(caller int) error,
) {
	b.Helper()
	since := traffic.Measure(b)
	var left atomic.Int64
	left.Store(int64(b.N))
	var wait sync.WaitGroup
	b.ResetTimer()
	for caller := range callers {
		wait.Go(func() {
			for left.Add(-1) >= 0 {
				if err := work(caller); err != nil {
					b.Error(err)
					return
				}
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

// fill100 fills a table with n tasks that are available, with 100 bytes of data.
func fill100(b *testing.B, pool *pgxpool.Pool, table string, n int) {
	b.Helper()
	exec(b, pool, "INSERT INTO "+table+` (id, available, owner, group_name, data)
		SELECT k, 1, 1, 'g', decode(repeat('00', 100), 'hex') FROM generate_series(1, $1) k`, n)
	exec(b, pool, "UPDATE stint.taskstore_reserved SET upto = $1", n)
	exec(b, pool, "VACUUM ANALYZE "+table)
}

// BenchmarkPerform claims a task and then deletes it in an update that adds another, as a worker of
// a pipeline does.
func BenchmarkPerform(b *testing.B) {
	for name, durability := range map[string]stint.Durability{
		"Strict": stint.Strict, "Opportunistic": stint.Opportunistic,
	} {
		b.Run(name, func(b *testing.B) {
			const callers = 16
			traffic := testdb.NewTraffic(b)
			fill100(b, traffic.Pool, "stint.taskstore_tasks", b.N)
			store := openStore(b, traffic.Pool, taskstore.Options{Durability: durability})
			measure(b, traffic, callers, func(caller int) error {
				client := int64(caller + 1)
				task, found, err := store.Claim(b.Context(), taskstore.Claim{
					Client: client, Group: "g", Duration: time.Hour,
				})
				if err != nil || !found {
					return fmt.Errorf("Claim = %t, %w", found, err)
				}
				_, err = store.Update(b.Context(), taskstore.Request{
					Client: client, Deletes: []int64{task.ID},
					Adds: []taskstore.Add{{Group: "next", Data: task.Data}},
				})
				return err
			})
		})
	}
}

// BenchmarkRaw does the same on a plain table by two statements, in the order of time and with none
// of the rules: what PostgreSQL allows.
func BenchmarkRaw(b *testing.B) {
	for name, setting := range map[string]string{"Strict": "on", "Opportunistic": "off"} {
		b.Run(name, func(b *testing.B) {
			const callers = 16
			traffic := testdb.NewTraffic(b)
			exec(b, traffic.Pool, `
				CREATE TABLE raw (id bigint PRIMARY KEY, available bigint, owner bigint,
					group_name text, data bytea) WITH (autovacuum_vacuum_scale_factor = 0.02,
					autovacuum_vacuum_cost_delay = 0);
				CREATE INDEX ON raw (group_name, available);
				CREATE SEQUENCE raw_ids START 1000000000`)
			fill100(b, traffic.Pool, "raw", b.N)
			pool := poolOf(b, traffic.Pool, func(config *pgxpool.Config) {
				config.ConnConfig.RuntimeParams["synchronous_commit"] = setting
			})
			measure(b, traffic, callers, func(caller int) error {
				var id int64
				var data []byte
				err := pool.QueryRow(b.Context(), `
					UPDATE raw SET available = 4102444800000, owner = $1
					WHERE id = (SELECT id FROM raw WHERE group_name = 'g' AND available <= 2
						ORDER BY available LIMIT 1 FOR UPDATE SKIP LOCKED)
					RETURNING id, data`, caller).Scan(&id, &data)
				if err != nil {
					return err
				}
				_, err = pool.Exec(b.Context(), `
					WITH gone AS (DELETE FROM raw WHERE id = $1)
					INSERT INTO raw VALUES (nextval('raw_ids'), 1, $2, 'next', $3)`,
					id, caller, data)
				return err
			})
		})
	}
}

// BenchmarkClaim claims tasks of a group of a million that are owned, with as many that are not as
// it claims, and looks for one where all are owned.
func BenchmarkClaim(b *testing.B) {
	const million = 1_000_000
	traffic := testdb.NewTraffic(b)
	exec(b, traffic.Pool, `INSERT INTO stint.taskstore_tasks
			(id, available, owner, group_name, data)
		SELECT k, 4102444800000 + k, 1, 'g', '' FROM generate_series(1, $1) k`, million)
	exec(b, traffic.Pool, "UPDATE stint.taskstore_reserved SET upto = $1", million)
	exec(b, traffic.Pool, "VACUUM ANALYZE stint.taskstore_tasks")
	store := openStore(b, traffic.Pool, taskstore.Options{Durability: stint.Opportunistic})
	attempt := func(want bool) func(int) error {
		return func(int) error {
			_, found, err := store.Claim(b.Context(), taskstore.Claim{
				Client: ann, Group: "g", Duration: 24 * time.Hour,
			})
			if err != nil || found != want {
				return fmt.Errorf("Claim = %t, %w", found, err)
			}
			return nil
		}
	}
	b.Run("none", func(b *testing.B) { measure(b, traffic, 1, attempt(false)) })
	b.Run("few", func(b *testing.B) {
		for left := b.N; left > 0; left -= 10_000 {
			update(b, store, taskstore.Request{
				Client: bob,
				Adds:   slices.Repeat([]taskstore.Add{{Group: "g"}}, min(left, 10_000)),
			})
		}
		measure(b, traffic, 1, attempt(true))
	})
}
