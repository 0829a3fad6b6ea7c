package stint_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
)

// BenchmarkLatency inserts a task every 20 ms through one store, has it owned through a second and
// waits for it through a third, and tells how long it takes from the call of InsertTasks until
// WaitToOwnTasks returns, and from the call of ReturnTask until WaitForTask returns. What a machine
// can do at best tells the first part: a row that is inserted with its notification, and deleted by
// who hears it.
func BenchmarkLatency(b *testing.B) {
	b.Run("raw", benchmarkRawLatency)
	b.Run("notified", func(b *testing.B) { benchmarkLatency(b, stint.Options{}) })
	b.Run("poll-only", func(b *testing.B) {
		benchmarkLatency(b, stint.Options{PollOnly: true, PollInterval: 100 * time.Millisecond})
	})
}

func benchmarkLatency(b *testing.B, opts stint.Options) {
	b.Helper()
	bench := newBench(b, stint.Retention{})
	ctx := b.Context()
	second, third := bench.another(b, opts), bench.another(b, opts)
	type event struct {
		id stint.TaskID
		at time.Time
	}
	owned, returned, woken := make(chan event), make(chan event), make(chan event)
	waits := make(chan struct{})
	go func() {
		for {
			tasks, err := second.WaitToOwnTasks(ctx, "actor", 10, []string{"bench"}, time.Minute)
			if err != nil {
				return
			}
			for _, task := range tasks {
				owned <- event{task.ID, time.Now()}
				<-waits
				begun := time.Now()
				err := second.ReturnTask(ctx, task.ID, task.Token, "", stint.StatusCompleted)
				if err != nil {
					b.Error(err)
				}
				returned <- event{task.ID, begun}
			}
		}
	}()
	var toOwner, toWaiter []time.Duration
	for i := range b.N + 10 { // the first ones make connections and plans
		<-time.After(20 * time.Millisecond)
		id := stint.TaskID(fmt.Sprintf("latency-%d", i))
		begun := time.Now()
		err := bench.store.InsertTasks(ctx, []stint.Task{{
			ID: id, Action: "bench", PostResult: true,
		}})
		if err != nil {
			b.Fatal(err)
		}
		own := <-owned
		go func() {
			if _, err := third.WaitForTask(ctx, id); err != nil {
				b.Error(err)
			}
			woken <- event{id, time.Now()}
		}()
		<-time.After(10 * time.Millisecond) // so that it waits, and the returned one is as cold
		waits <- struct{}{}
		back, wake := <-returned, <-woken
		if i >= 10 {
			toOwner = append(toOwner, own.at.Sub(begun))
			toWaiter = append(toWaiter, wake.at.Sub(back.at))
		}
	}
	reportLatency(b, "own", toOwner)
	reportLatency(b, "wait", toWaiter)
}

func benchmarkRawLatency(b *testing.B) {
	ctx := b.Context()
	pool := newBench(b, stint.Retention{}).pool
	second := poolOf(b, pool, func(*pgxpool.Config) {})
	exec(b, pool, "CREATE TABLE raw (id bigserial PRIMARY KEY, body bytea)")
	conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "LISTEN raw"); err != nil {
		b.Fatal(err)
	}
	var toOwner []time.Duration
	for i := range b.N + 10 {
		owned := make(chan time.Time)
		go func() {
			_, err := conn.WaitForNotification(ctx)
			exec(b, second, "DELETE FROM raw WHERE id IN "+
				"(SELECT id FROM raw ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING body")
			if err != nil {
				b.Error(err)
			}
			owned <- time.Now()
		}()
		<-time.After(20 * time.Millisecond)
		begun := time.Now()
		batch := &pgx.Batch{}
		batch.Queue("INSERT INTO raw (body) VALUES ($1)", make([]byte, 100))
		batch.Queue("SELECT pg_notify('raw', 'x')")
		if err := pool.SendBatch(ctx, batch).Close(); err != nil {
			b.Fatal(err)
		}
		if at := <-owned; i >= 10 {
			toOwner = append(toOwner, at.Sub(begun))
		}
	}
	reportLatency(b, "own", toOwner)
}

// another returns another store on the same database, with a pool of its own.
func (m *bench) another(b *testing.B, opts stint.Options) *stint.Store {
	b.Helper()
	return openStore(b, poolOf(b, m.pool, func(*pgxpool.Config) {}), opts)
}

func reportLatency(b *testing.B, name string, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	at := func(share float64) float64 {
		place := min(int(share*float64(len(took))), len(took)-1)
		return float64(took[place]) / float64(time.Millisecond)
	}
	for _, percent := range []float64{50, 90, 99, 100} {
		b.ReportMetric(at(percent/100), fmt.Sprintf("%s-p%g-ms", name, percent))
	}
}
