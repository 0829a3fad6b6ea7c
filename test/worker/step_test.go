package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

// steps takes some steps one after another. The value of each is its name and the value before.
func steps(
	ctx context.Context, task *worker.Task, n int, call func(name string) error,
) (value string, err error) {
	for i := range n {
		name, before := fmt.Sprint("step ", i), value
		value, err = worker.Step(ctx, task, name, func(context.Context) (string, error) {
			return before + string(rune('a'+i)), call(name)
		})
		if err != nil {
			return "", err
		}
	}
	return value, nil
}

// allSteps is the value of ten steps.
const allSteps = "abcdefghij"

// Each try fails at the next step, once before its call and once in it.
// Proves G185.
func TestStep_GoesOnWhereTheLastTryEnded(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	calls := map[string]int{}
	failure := errors.New("not yet")
	w := newWorker(t, store, worker.Options{},
		worker.Handle("a", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			value, err := steps(ctx, task, len(allSteps), func(name string) error {
				if calls[name]++; calls[name] == 1 {
					return failure
				}
				return nil
			})
			return worker.Result{Bytes: []byte(value)}, err
		}))
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	for range allSteps {
		if got := next(t, w); !errors.Is(got.Err, failure) {
			t.Fatalf("PerformNext = %+v, want the error of a step", got)
		}
		maintain(t, store)
	}
	if got := next(t, w); got.Outcome != worker.OutcomeCompleted {
		t.Fatalf("PerformNext = %+v", got)
	}
	if got := info(t, store, "a"); string(got.Result) != allSteps || got.Tries != len(allSteps)+1 {
		t.Errorf("the result is %q after %d tries, want %q", got.Result, got.Tries, allSteps)
	}
	for name, n := range calls {
		if n != 2 {
			t.Errorf("%s was called %d times, want 2: it failed once", name, n)
		}
	}
}

func maintain(t *testing.T, store *stint.Store) {
	t.Helper()
	if err := store.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A worker dies at each statement of a handler with ten steps, before the server has seen it and
// after it has answered. No step that is recorded is called again, by whoever is given the task.
// Proves G185.
func TestStep_CallsNoRecordedStepAgain(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t)
	var cuts []string
	for _, at := range []pgcut.Instant{pgcut.AtRequest, pgcut.AtReply} {
		for n := 1; diesAt(t, store, pool, at, n); n++ {
			cuts = append(cuts, fmt.Sprint(at, " ", n))
		}
	}
	// To be given the task, to ask for its steps, ten steps, and to return it.
	if least := 2 * (len(allSteps) + 3); len(cuts) < least {
		t.Errorf("the worker died at %v, want %d moments or more", cuts, least)
	}
}

// diesAt lets a worker die at the nth request of a performance, and another one finish. It reports
// whether there was such a request.
func diesAt(
	t *testing.T, store *stint.Store, pool *pgxpool.Pool, at pgcut.Instant, n int,
) bool {
	t.Helper()
	proxy := pgcut.New(t, pool)
	var requests atomic.Int64
	trap := proxy.Hold(at, func(r pgcut.Request) bool {
		return len(r.Statements) > 0 && requests.Add(1) == int64(n)
	})
	quiet := stint.Options{Maintenance: stint.MaintainNever}
	dying, err := stint.New(proxy.Pool(t, 1), quiet)
	wantErr(t, "New", err, nil)
	id := stint.TaskID(fmt.Sprint(at, " ", n))
	insert(t, store, stint.Task{ID: id, Action: "a"})

	handler := func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		value, err := steps(ctx, task, len(allSteps), func(name string) error {
			kept, err := pgx.CollectExactlyOneRow(must(pool.Query(t.Context(),
				`SELECT count(*) FROM stint.steps JOIN stint.tasks USING (key)
				 WHERE tasks.id = $1 AND steps.name = $2`, id, name)), pgx.RowTo[int])
			if kept != 0 || err != nil {
				t.Errorf("%s: %q is recorded, and called again, %v", id, name, err)
			}
			return nil
		})
		return worker.Result{Bytes: []byte(value)}, err
	}
	ctx, die := context.WithCancel(t.Context())
	defer die()
	died := make(chan struct{})
	go func() {
		defer close(died)
		w := newWorker(t, dying, worker.Options{}, worker.Handle("a", handler))
		_, _, _ = w.PerformNext(ctx)
	}()
	sprung := false
	select {
	case <-trap.Reached():
		sprung = true
		proxy.Refuse(true)
		die()
		trap.Cut()
	case <-died:
	}
	<-died
	_ = dying.Close(ctx) // fails, as its database is away
	if !sprung {
		return false
	}
	_, err = pool.Exec(t.Context(), "UPDATE stint.leases SET deadline = statement_timestamp()")
	wantErr(t, "expire", err, nil)
	maintain(t, store)
	for info(t, store, id).FinishedAt.IsZero() {
		next(t, newWorker(t, store, worker.Options{}, worker.Handle("a", handler)))
	}
	if got := info(t, store, id); string(got.Result) != allSteps {
		t.Errorf("%s: the result is %q, want %q", id, got.Result, allSteps)
	}
	return true
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// While the database is away, the step that was taken waits to be recorded.
// Proves G193.
func TestStep_IsRecordedWhenTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	_, pool := newStoreAndPool(t)
	through, down := fallible(t, pool)
	store := newStore(t, through)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	calls := 0
	w := newWorker(t, store, worker.Options{Lease: time.Hour},
		worker.Handle("a", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			value, err := worker.Step(ctx, task, "step", func(context.Context) (int, error) {
				calls++
				down.Store(true)
				time.AfterFunc(time.Millisecond, func() { down.Store(false) })
				return calls, nil
			})
			return worker.Result{Status: fmt.Sprint(value)}, err
		}))
	if got := next(t, w); got.Outcome != worker.OutcomeCompleted || calls != 1 {
		t.Errorf("PerformNext = %+v after %d calls, want one", got, calls)
	}
}

// A step that was taken when the worker is told to stop is recorded all the same.
// Proves G193.
func TestStep_IsRecordedWhenTheWorkerStops(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	calls := 0
	handle := func(ctx context.Context, task *worker.Task) (worker.Result, error) {
		_, err := worker.Step(ctx, task, "step", func(ctx context.Context) (int, error) {
			calls++
			stop()
			<-ctx.Done()
			return calls, nil
		})
		wantErr(t, "Step", err, nil)
		return worker.Result{}, ctx.Err()
	}
	ended := make(chan error, 1)
	w := newWorker(t, store, worker.Options{}, worker.Handle("a", handle))
	go func() { ended <- w.Run(ctx) }()
	wantErr(t, "Run", <-ended, nil)
	why, err := store.Explain(t.Context(), "a")
	if err != nil || len(why.Steps) != 1 || calls != 1 {
		t.Errorf("after %d calls the steps are %v, %v, want one", calls, why.Steps, err)
	}
}

func TestStep_RefusesANameTwiceInOneTry(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	one := func(context.Context) (int, error) { return 1, nil }
	w := newWorker(t, store, worker.Options{},
		worker.Handle("a", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			_, err := worker.Step(ctx, task, "step", one)
			wantErr(t, "Step", err, nil)
			_, err = worker.Step(ctx, task, "step", one)
			wantArgumentErr(t, "Step", err)
			_, err = worker.Step(ctx, task, "", one)
			wantArgumentErr(t, "Step without a name", err)
			_, err = worker.Step(ctx, task, "large", func(context.Context) (string, error) {
				return strings.Repeat("x", 1<<20), nil
			})
			wantErr(t, "Step with too much", err, stint.ErrTooLarge)
			_, err = worker.Step(ctx, task, "channel", func(context.Context) (chan int, error) {
				return nil, nil
			})
			if err == nil || !strings.Contains(err.Error(), "json") {
				t.Errorf("Step with a channel = %v, want that of JSON", err)
			}
			return worker.Result{}, nil
		}))
	next(t, w)
}

// Code may change between two tries: steps go by name.
func TestStep_GoesByNameWhenCodeChanges(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, _ := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	var called []string
	perform := func(names ...string) worker.Performed {
		return next(t, newWorker(t, store, worker.Options{}, worker.Handle("a",
			func(ctx context.Context, task *worker.Task) (worker.Result, error) {
				for _, name := range names {
					_, err := worker.Step(ctx, task, name, func(context.Context) (string, error) {
						called = append(called, name)
						return name, nil
					})
					if err != nil {
						return worker.Result{}, err
					}
				}
				return worker.Result{}, worker.Snooze(0)
			})))
	}
	perform("a", "b", "c")
	maintain(t, store)
	perform("new", "c", "a")
	if want := []string{"a", "b", "c", "new"}; !slices.Equal(called, want) {
		t.Errorf("called %v, want %v", called, want)
	}
	maintain(t, store)
	got := next(t, newWorker(t, store, worker.Options{}, worker.Handle("a",
		func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			_, err := worker.Step(ctx, task, "a", func(context.Context) (int, error) {
				return 1, nil
			})
			return worker.Result{}, err
		})))
	want := `step "a": the recorded value does not fit int`
	if got.Err == nil || !strings.Contains(got.Err.Error(), want) {
		t.Errorf("a step of another type = %v, want an error that says so", got.Err)
	}
}

// A step in a transaction takes effect if and only if that is committed.
// Proves G192.
func TestStepIn_TakesEffectOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t)
	kept := keepsRows(t, pool)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	calls := 0
	w := newWorker(t, store, worker.Options{},
		worker.Handle("a", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			inTx := func() (value int, err error) {
				err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					value, err = worker.StepIn(ctx, task, tx, "write",
						func(ctx context.Context) (int, error) {
							calls++
							_, err := tx.Exec(ctx, "INSERT INTO kept VALUES ($1)", task.Try)
							return calls, err
						})
					if err == nil && calls == 1 {
						return errRolledBack
					}
					return err
				})
				return value, err
			}
			if task.Try == 1 {
				_, err := inTx()
				wantErr(t, "first try", err, errRolledBack)
			}
			value, err := inTx() // the same name, since the first was undone
			if value != 2 || err != nil {
				t.Errorf("StepIn = %d, %v, want the value of the second call", value, err)
			}
			if task.Try == 1 {
				return worker.Result{}, worker.RetryAfter(0)
			}
			return worker.Result{}, nil
		}))
	next(t, w)
	maintain(t, store)
	if got := next(t, w); got.Outcome != worker.OutcomeCompleted {
		t.Errorf("PerformNext = %+v", got)
	}
	if n := kept(); n != 1 || calls != 2 {
		t.Errorf("%d rows after %d calls, want one row, and a call that was undone", n, calls)
	}
}

// Sleep puts the task off until its time has passed since the first call, and costs no try.
// Proves G195.
func TestSleep_PutsTheTaskOff(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a", MaxTries: 1})
	w := newWorker(t, store, worker.Options{},
		worker.Handle("a", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			wantArgumentErr(t, "Sleep", worker.Sleep(ctx, task, "none", 0))
			return worker.Result{}, worker.Sleep(ctx, task, "night", 8*time.Hour)
		}))
	early := func(when string, from time.Duration) {
		t.Helper()
		if got := next(t, w); got.Outcome != worker.OutcomeSnoozed {
			t.Fatalf("%s: PerformNext = %+v", when, got)
		}
		got := info(t, store, "a")
		why, err := store.Explain(t.Context(), "a")
		wantErr(t, "Explain", err, nil)
		left := got.NotBefore.Sub(why.Now)
		if got.State != stint.StateScheduled || left > from || left < from-patience {
			t.Errorf("%s: the task is %s for %v, want %v", when, got.State, left, from)
		}
	}
	pass := func(hours string) {
		t.Helper()
		for _, statement := range []string{
			"UPDATE stint.scheduled SET not_before = statement_timestamp()",
			"UPDATE stint.steps SET recorded_at = recorded_at - interval '" + hours + " hours'",
		} {
			_, err := pool.Exec(t.Context(), statement)
			wantErr(t, "age", err, nil)
		}
		maintain(t, store)
	}
	early("at first", 8*time.Hour)
	pass("5") // as if somebody had made it ready too early
	early("after five hours", 3*time.Hour)
	pass("3")
	if got := next(t, w); got.Outcome != worker.OutcomeCompleted {
		t.Errorf("after eight hours: PerformNext = %+v", got)
	}
}

// A step in a transaction that panics, or ends the goroutine, records nothing, gives the connection
// back with the transaction, and the next try takes the step.
// Proves G6.
func TestStepIn_RecordsNothingOfAStepThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a", PostResult: true})
	leaves := []func(){func() { panic("the step's") }, runtime.Goexit, func() {}}
	w := newWorker(t, store, worker.Options{Retry: soon},
		worker.Handle("a", func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := worker.StepIn(ctx, task, tx, "step", func(context.Context) (int, error) {
					leaves[task.Try-1]()
					return task.Try, nil
				})
				return err
			})
			return worker.Result{}, err
		}))
	stop := run(t, w)
	got := finished(t, store, "a")[0]
	wantErr(t, "Run", stop(), nil)
	if got.State != stint.StateCompleted || got.Tries != len(leaves) {
		t.Errorf("the task is %s after %d tries, want %d", got.State, got.Tries, len(leaves))
	}
	left, err := pgx.CollectExactlyOneRow(must(pool.Query(t.Context(), `SELECT count(*)
		FROM pg_stat_activity
		WHERE datname = current_database() AND state LIKE 'idle in transaction%'`)),
		pgx.RowTo[int])
	if err != nil || left > 0 {
		t.Errorf("%d transactions are left open, %v", left, err)
	}
}
