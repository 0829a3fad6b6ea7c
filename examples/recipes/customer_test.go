package recipes

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testrun"
	"github.com/stint-tasks/stint/stinttest"
	"github.com/stint-tasks/stint/worker"
)

// serveInTurn has tasks of a customer, who is their key, performed one after the other.
func serveInTurn(ctx context.Context, store *stint.Store) error {
	return store.SetLimits(ctx, "serve", stint.Limits{ConcurrencyPerKey: 1})
}

// A customer's next task is handed out once the one before has ended, and others need not wait.
func TestServeInTurn_ServesACustomerInTurn(t *testing.T) {
	t.Parallel()
	store := stinttest.New(t, stint.Options{})
	if err := serveInTurn(t.Context(), store.Store); err != nil {
		t.Fatalf("serveInTurn = %v", err)
	}
	for _, id := range []stint.TaskID{"a1", "a2", "b1", "a3"} {
		insert(t, store, stint.Task{ID: id, Action: "serve", Key: string(id[:1])})
	}
	for _, want := range [][]stint.TaskID{{"a1", "b1"}, {"a2"}, {"a3"}} {
		owned, err := store.OwnTasks(t.Context(), "worker", 10, []string{"serve"}, time.Minute)
		if err != nil {
			t.Fatalf("OwnTasks = %v", err)
		}
		var got []stint.TaskID
		for _, task := range owned {
			got = append(got, task.ID)
			err := store.ReturnTask(t.Context(), task.ID, task.Token, "", stint.StatusCompleted)
			if err != nil {
				t.Fatalf("ReturnTask = %v", err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v were handed out, want %v", got, want)
		}
	}
}

// oneAtATime performs no two tasks of a customer, who is the body, at a time: a task that comes
// while the customer is served is put off.
func oneAtATime(
	pool *pgxpool.Pool, pause time.Duration,
	serve func(ctx context.Context, tx pgx.Tx, customer string) error,
) worker.Handler {
	return func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		customer := string(task.Body)
		return worker.Result{}, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			var free bool
			err := tx.QueryRow(ctx, // the lock ends with the transaction
				"SELECT pg_try_advisory_xact_lock(hashtextextended('customer/' || $1, 0))",
				customer).Scan(&free)
			if err != nil {
				return err
			}
			if !free {
				return worker.Snooze(pause) // uses up no try
			}
			if err := serve(ctx, tx, customer); err != nil {
				return err
			}
			return task.ReturnIn(ctx, tx, worker.Result{})
		})
	}
}

// Tasks of a customer never overlap, those of several do, and waiting costs no tries.
func TestOneAtATime_ServesACustomerInTurn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const customers, each, work, pause = 2, 20, 10 * time.Millisecond, 100 * time.Millisecond
	store := stinttest.New(t, stint.Options{Maintenance: stint.MaintainAlways})
	var tasks []stint.Task
	var waited []stint.TaskID
	for i := range customers * each {
		id := stint.TaskID(fmt.Sprint(i))
		tasks = append(tasks, stint.Task{
			ID: id, Action: "serve", Body: fmt.Append(nil, i%customers), PostResult: true,
			MaxTries: 1,
		})
		waited = append(waited, id)
	}
	if err := store.InsertTasks(t.Context(), tasks); err != nil {
		t.Fatalf("InsertTasks = %v", err)
	}
	var inside [customers]atomic.Int32
	handler := oneAtATime(store.Pool, pause,
		func(_ context.Context, _ pgx.Tx, customer string) error {
			mine := &inside[customer[0]-'0']
			if mine.Add(1) > 1 {
				t.Errorf("customer %s is served twice at a time", customer)
			}
			time.Sleep(work)
			mine.Add(-1)
			return nil
		})
	var handOuts atomic.Int32
	counted := func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		handOuts.Add(1)
		return handler(ctx, task)
	}
	w, err := worker.New(store.Store, worker.Options{Concurrency: 8},
		worker.Handle("serve", counted))
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	begun := time.Now()
	go func() { ended <- w.Run(ctx) }()
	infos, err := store.WaitForTasks(t.Context(), waited)
	took := time.Since(begun)
	stop()
	if err != nil {
		t.Fatalf("WaitForTasks = %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	for _, info := range infos {
		if info.StatusCode != stint.StatusCompleted || info.Tries != 1 {
			t.Errorf("task %s is %s after %d tries", info.ID, info.StatusCode, info.Tries)
		}
	}
	t.Logf("%d tasks of %d customers, %v each: %v, %.1f hand-outs a task; with no pauses %v",
		customers*each, customers, work, took.Round(time.Millisecond),
		float64(handOuts.Load())/(customers*each), each*work)
}

// Dependencies do not keep tasks apart when one of them is retried, as the page warns.
func TestDependencies_DoNotExclude(t *testing.T) {
	t.Parallel()
	store := stinttest.New(t, stint.Options{})
	insert(t, store, stint.Task{ID: "1", Action: "serve"},
		stint.Task{ID: "2", Action: "serve", After: []stint.TaskID{"1"}})
	own := func(want stint.TaskID) stint.OwnedTask {
		t.Helper()
		owned, err := store.OwnTasks(t.Context(), "worker", 1, []string{"serve"}, time.Minute)
		if err != nil || len(owned) != 1 || owned[0].ID != want {
			t.Fatalf("OwnTasks = %v, %v, want %s", owned, err, want)
		}
		return owned[0]
	}
	first := own("1")
	err := store.ReturnTask(t.Context(), first.ID, first.Token, "", stint.StatusCompleted)
	if err != nil {
		t.Fatalf("ReturnTask = %v", err)
	}
	own("2")
	if _, err := store.RetryTasks(t.Context(), []stint.TaskID{"1"}); err != nil {
		t.Fatalf("RetryTasks = %v", err)
	}
	own("1") // while 2 is in progress
}
