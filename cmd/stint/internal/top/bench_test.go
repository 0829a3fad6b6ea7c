package top

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// BenchmarkRead makes all looks of a refresh, with a filter and an opened task, at a million tasks
// in all states, each in a row of its own.
func BenchmarkRead(b *testing.B) {
	store, pool := newMillion(b)
	for range 2000 { // as many leases
		own(b, store, 1)
	}
	own(b, store, 50_000)
	owned := own(b, store, 300_000)
	returns := make([]stint.Return, len(owned))
	codes := []stint.StatusCode{stint.StatusCompleted, stint.StatusAborted, stint.StatusPending}
	for i, task := range owned {
		returns[i] = stint.Return{
			ID: task.ID, Token: task.Token, Status: fmt.Sprint(i), Code: codes[i%len(codes)],
		}
	}
	if _, err := store.ReturnTasks(b.Context(), returns); err != nil {
		b.Fatal(err)
	}
	if _, err := pool.Exec(b.Context(), "VACUUM ANALYZE"); err != nil {
		b.Fatal(err)
	}
	source := Store{Verbs: store, Clock: func(ctx context.Context) (now time.Time, err error) {
		err = pool.QueryRow(ctx, "SELECT statement_timestamp()").Scan(&now)
		return now, err
	}}
	var details *Details
	for b.Loop() {
		look, err := source.Read(b.Context(), "s-00")
		if err != nil {
			b.Fatal(err)
		}
		details, err = source.Open(b.Context(), look.Problems.Slow[0].ID, details)
		if err != nil {
			b.Fatal(err)
		}
	}
}

// newMillion returns a store with a million tasks of ten actions that are ready.
func newMillion(b *testing.B) (*stint.Store, *pgxpool.Pool) {
	b.Helper()
	pool := testdb.New(b)
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close(context.WithoutCancel(b.Context())) })
	tasks := make([]stint.Task, 1_000_000)
	for i := range tasks {
		id := fmt.Sprintf("s-%016x", uint64(i+1)*0x9e3779b97f4a7c15) // in no order
		tasks[i] = stint.Task{
			ID:     stint.TaskID(id),
			Action: fmt.Sprintf("action %d", i%10), Body: make([]byte, 100),
			Deadline: time.Now().Add(24 * time.Hour),
		}
	}
	if err := store.InsertTasks(b.Context(), tasks); err != nil {
		b.Fatal(err)
	}
	return store, pool
}

// own owns n tasks, at most 10,000 in a call.
func own(b *testing.B, store *stint.Store, n int) []stint.OwnedTask {
	b.Helper()
	var all []stint.OwnedTask
	for len(all) < n {
		action := fmt.Sprintf("action %d", len(all)/10_000%10)
		owned, err := store.OwnTasks(b.Context(), "actor", min(n-len(all), 10_000),
			[]string{action}, time.Hour)
		if err != nil || len(owned) == 0 {
			b.Fatalf("OwnTasks = %d tasks, %v", len(owned), err)
		}
		all = append(all, owned...)
	}
	return all
}
