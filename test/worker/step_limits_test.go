package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

// performs has one try of a task made, and returns how it ended.
func performs(
	t *testing.T, store *stint.Store, handle func(context.Context, *worker.Task) error,
) worker.Performed {
	t.Helper()
	maintain(t, store)
	return next(t, newWorker(t, store, worker.Options{}, worker.Handle("a",
		func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			return worker.Result{}, handle(ctx, task)
		})))
}

// takeIn takes a step in a transaction that is committed, or else undone.
func takeIn(
	ctx context.Context, pool *pgxpool.Pool, task *worker.Task, name string, commits bool,
	call func() (int, error),
) (value int, err error) {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	value, err = worker.StepIn(ctx, task, tx, name, func(context.Context) (int, error) {
		return call()
	})
	if err == nil && commits {
		err = tx.Commit(ctx)
	}
	return value, err
}

// ways are the ways to take a step: in a transaction, which only a store has, and not.
func ways() []bool {
	if isRemote() {
		return []bool{false}
	}
	return []bool{false, true}
}

// keepSteps records steps of a task, each of so many bytes.
func keepSteps(t *testing.T, pool *pgxpool.Pool, n, bytes int) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `INSERT INTO stint.steps (key, name, result)
		SELECT tasks.key, 'kept ' || n, convert_to(rpad('1', $2, ' '), 'UTF8')
		FROM stint.tasks, generate_series(1, $1) AS n`, n, bytes)
	wantErr(t, "INSERT", err, nil)
}

// What is known to be refused is refused before the call: it would be made on every try.
// Proves G187.
func TestStep_RefusesBeforeTheCallWhatItCannotRecord(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for what, try := range map[string]struct {
		names       []string
		kept, bytes int
	}{
		"names": {names: []string{"", strings.Repeat("x", 256), "a\x00b", "\xff"}},
		"steps": {names: []string{"one too many"}, kept: 1000, bytes: 1},
		"bytes": {names: []string{"too large"}, kept: 16, bytes: 1 << 20},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t)
			insert(t, store, stint.Task{ID: "a", Action: "a"})
			keepSteps(t, pool, try.kept, try.bytes)
			called := 0
			call := func() (int, error) { called++; return 1, nil }
			got := performs(t, store, func(ctx context.Context, task *worker.Task) error {
				for _, name := range try.names {
					_, err := worker.Step(ctx, task, name,
						func(context.Context) (int, error) { return call() })
					wantArgumentErr(t, "Step", err)
					if !isRemote() {
						_, err = takeIn(ctx, pool, task, name, true, call)
						wantArgumentErr(t, "StepIn", err)
					}
					wantArgumentErr(t, "Sleep", worker.Sleep(ctx, task, name, time.Hour))
				}
				if try.kept > 0 { // what is recorded is still there
					_, err := worker.Step(ctx, task, "kept 1",
						func(context.Context) (int, error) { return call() })
					return err
				}
				return nil
			})
			if got.Err != nil || called > 0 {
				t.Errorf("PerformNext = %+v after %d calls", got, called)
			}
		})
	}
}

// The steps of this try count, those under way and those of transactions among them.
// Proves G187.
func TestStep_CountsTheStepsOfThisTry(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	keepSteps(t, pool, 997, 1)
	one := func() (int, error) { return 1, nil }
	inStep := func(context.Context) (int, error) { return 1, nil }
	got := performs(t, store, func(ctx context.Context, task *worker.Task) error {
		_, err := takeIn(ctx, pool, task, "undone", false, one)
		wantErr(t, "StepIn", err, nil)
		_, err = takeIn(ctx, pool, task, "998", true, one)
		wantErr(t, "StepIn", err, nil)
		_, err = worker.Step(ctx, task, "999", func(ctx context.Context) (int, error) {
			_, err := worker.Step(ctx, task, "1000", inStep)
			wantErr(t, "Step", err, nil)
			_, err = worker.Step(ctx, task, "1001", inStep)
			wantErr(t, "Step", err, stint.ErrTooLarge)
			return 1, nil
		})
		return err
	})
	if got.Err != nil {
		t.Errorf("PerformNext = %+v", got)
	}
}

// What is known only behind the call is said, and not tried again: the task is aborted.
// Proves G188.
func TestStep_AbortsWhatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	large := strings.Repeat("x", 1<<20)
	for what, try := range map[string]struct {
		value any
		kept  int
		says  string
	}{
		"too large":  {value: large, says: "1048576"},
		"too much":   {value: large[:1<<19], kept: 16, says: "16777216 bytes together"},
		"no JSON":    {value: make(chan int), says: "json: unsupported type"},
		"not a node": {value: map[string]any{"f": func() {}}, says: "json: unsupported type"},
	} {
		for _, in := range ways() {
			t.Run(fmt.Sprint(what, " in a transaction: ", in), func(t *testing.T) {
				t.Parallel()
				store, pool := newStoreAndPool(t)
				insert(t, store, stint.Task{ID: "a", Action: "a"})
				keepSteps(t, pool, try.kept, 1<<20-1)
				calls := 0
				do := func(context.Context) (any, error) { calls++; return try.value, nil }
				got := performs(t, store, func(ctx context.Context, task *worker.Task) error {
					if in {
						return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
							_, err := worker.StepIn(ctx, task, tx, "step", do)
							return err
						})
					}
					_, err := worker.Step(ctx, task, "step", do)
					return err
				})
				if got.Outcome != worker.OutcomeAborted || calls != 1 {
					t.Errorf("PerformNext = %+v after %d calls", got, calls)
				}
				const want = `step "step": the value cannot be recorded: `
				status := info(t, store, "a").Status
				if !strings.Contains(status, want) || !strings.Contains(status, try.says) {
					t.Errorf("the status is %q, want %q and %q", status, want, try.says)
				}
			})
		}
	}
}

// A name serves one step in a try, whatever takes it, in this try or when it is recorded already.
// One that was undone, or failed, may be taken again.
// Proves G187.
func TestStep_RefusesANameThatWasTakenInThisTry(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	failure := errors.New("failed")
	store, pool := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	for range 3 { // it is recorded on the second and third
		got := performs(t, store, func(ctx context.Context, task *worker.Task) error {
			values := map[string]int{}
			call := func(name string) func() (int, error) {
				return func() (int, error) { values[name]++; return 7, nil }
			}
			step := func(name string, do func() (int, error)) error {
				_, err := worker.Step(ctx, task, name,
					func(context.Context) (int, error) { return do() })
				return err
			}
			in := func(name string, commits bool) error {
				value, err := takeIn(ctx, pool, task, name, commits, call(name))
				if err == nil && value != 7 {
					t.Errorf("StepIn = %d", value)
				}
				return err
			}
			wantErr(t, "StepIn, undone", in("in", false), nil)
			wantErr(t, "StepIn, undone again", in("in", false), nil)
			wantErr(t, "StepIn", in("in", true), nil)
			wantArgumentErr(t, "StepIn again", in("in", true))
			wantArgumentErr(t, "StepIn again, undone", in("in", false))
			wantArgumentErr(t, "Step of it", step("in", call("in")))
			wantArgumentErr(t, "Sleep of it", worker.Sleep(ctx, task, "in", time.Hour))

			if task.Try == 1 {
				wantErr(t, "Step that fails", step("step",
					func() (int, error) { return 0, failure }), failure)
			}
			wantErr(t, "Step", step("step", call("step")), nil)
			wantArgumentErr(t, "Step again", step("step", call("step")))
			wantArgumentErr(t, "StepIn of it", in("step", true))
			wantArgumentErr(t, "Sleep of it", worker.Sleep(ctx, task, "step", time.Hour))

			twice := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				for range 2 {
					_, err := worker.StepIn(ctx, task, tx, "twice",
						func(context.Context) (int, error) { return call("twice")() })
					if err != nil {
						return err
					}
				}
				return nil
			})
			wantArgumentErr(t, "StepIn twice in a transaction", twice)
			if task.Try > 1 && len(values) > 0 && values["twice"] != values["in"]+1 {
				t.Errorf("on try %d there were calls: %v", task.Try, values)
			}
			return worker.RetryAfter(0)
		})
		if got.Outcome != worker.OutcomeRetried {
			t.Fatalf("PerformNext = %+v", got)
		}
	}
}

// Of two goroutines that take a step with one name, one is refused.
// Proves G187.
func TestStep_OfTwoGoroutinesWithOneNameOneIsRefused(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	got := performs(t, store, func(ctx context.Context, task *worker.Task) error {
		for _, in := range ways() {
			var mutex sync.Mutex
			var errs []error
			var group sync.WaitGroup
			calls := 0
			do := func() (int, error) {
				mutex.Lock()
				defer mutex.Unlock()
				calls++
				return calls, nil
			}
			for range 2 {
				group.Go(func() {
					var err error
					if in {
						_, err = takeIn(ctx, pool, task, "in", true, do)
					} else {
						_, err = worker.Step(ctx, task, "step",
							func(context.Context) (int, error) { return do() })
					}
					mutex.Lock()
					defer mutex.Unlock()
					errs = append(errs, err)
				})
			}
			group.Wait()
			refused := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
			if len(refused) != 1 || calls != 1 {
				t.Errorf("in a transaction: %v: %d calls, refused %v", in, calls, refused)
				continue
			}
			wantArgumentErr(t, "the other", refused[0])
		}
		return nil
	})
	if got.Err != nil {
		t.Errorf("PerformNext = %+v", got)
	}
}

// A transaction waits for an earlier one of the try that has taken the step and has not ended. Only
// if that is undone, the step is called again.
// Proves G187.
func TestStepIn_WaitsForTheTransactionThatTookTheStep(t *testing.T) {
	t.Parallel()
	if isRemote() {
		return // it has no transactions
	}
	store, pool := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	performs(t, store, func(ctx context.Context, task *worker.Task) error {
		for name, end := range map[string]func(pgx.Tx, context.Context) error{
			"undone": pgx.Tx.Rollback, "committed": pgx.Tx.Commit,
		} {
			calls := 0
			take := func(tx pgx.Tx) error {
				_, err := worker.StepIn(ctx, task, tx, name,
					func(context.Context) (int, error) { calls++; return calls, nil })
				return err
			}
			first, second := must(pool.Begin(ctx)), must(pool.Begin(ctx))
			wantErr(t, "StepIn", take(first), nil)
			answer := make(chan error, 1)
			go func() { answer <- take(second) }()
			for waiting := 0; waiting+len(answer) == 0; {
				wantErr(t, "SELECT", pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
					WHERE datname = current_database() AND wait_event_type = 'Lock'`,
				).Scan(&waiting), nil)
			}
			wantErr(t, "the end of the first", end(first, ctx), nil)
			err := <-answer
			switch name {
			case "undone":
				wantErr(t, "StepIn behind one that was undone", err, nil)
			default:
				wantArgumentErr(t, "StepIn behind one that was committed", err)
				if calls != 1 {
					t.Errorf("the step was called %d times", calls)
				}
			}
			wantErr(t, "Rollback", second.Rollback(ctx), nil)
		}
		return nil
	})
}

// When code changes, a step and a sleep with one name are not taken for each other.
// Proves G189.
func TestStep_IsNotTakenForASleep(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	seven := func(context.Context) (any, error) { return 7, nil }
	got := performs(t, store, func(ctx context.Context, task *worker.Task) error {
		_, err := worker.Step(ctx, task, "step", seven)
		wantErr(t, "Step", err, nil)
		if err := worker.Sleep(ctx, task, "sleep", time.Hour); err == nil {
			t.Error("Sleep returned at once")
		}
		return worker.RetryAfter(0)
	})
	if got.Outcome != worker.OutcomeRetried {
		t.Fatalf("PerformNext = %+v", got)
	}
	got = performs(t, store, func(ctx context.Context, task *worker.Task) error {
		err := worker.Sleep(ctx, task, "step", time.Hour)
		wantArgumentErr(t, "Sleep of a step", err)
		if !strings.Contains(err.Error(), `sleep "step"`) {
			t.Errorf("Sleep = %v, want the name", err)
		}
		_, err = worker.Step(ctx, task, "sleep", seven)
		wantArgumentErr(t, "Step of a sleep", err)
		if !isRemote() {
			_, err = takeIn(ctx, pool, task, "sleep", true, func() (int, error) { return 7, nil })
			wantArgumentErr(t, "StepIn of a sleep", err)
		}
		return nil
	})
	if got.Err != nil {
		t.Errorf("PerformNext = %+v", got)
	}
}

// An owner that has lost its task without knowing calls a step once that the next owner has
// recorded. It records nothing, and the value of the next owner stays.
// Proves G186.
func TestStep_OfALateOwnerIsCalledOnceAndNotRecorded(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a", PostResult: true})
	calls := map[string]int{}
	take := func(ctx context.Context, task *worker.Task, by string) (string, error) {
		return worker.Step(ctx, task, "step", func(context.Context) (string, error) {
			calls[by]++
			return by, nil
		})
	}
	late := newWorker(t, store, worker.Options{}, worker.Handle("a",
		func(ctx context.Context, task *worker.Task) (worker.Result, error) {
			_, err := worker.Step(ctx, task, "asks", func(context.Context) (int, error) {
				return 1, nil
			})
			wantErr(t, "Step", err, nil)
			_, err = pool.Exec(ctx, "UPDATE stint.leases SET deadline = statement_timestamp()")
			wantErr(t, "expire", err, nil)
			performs(t, store, func(ctx context.Context, task *worker.Task) error {
				value, err := take(ctx, task, "next")
				if value != "next" || err != nil {
					t.Errorf("the next owner gets %q, %v", value, err)
				}
				return worker.RetryAfter(0)
			})
			for range 2 {
				_, err = take(context.WithoutCancel(ctx), task, "late")
				wantErr(t, "the step of the late owner", err, stint.ErrInvalidToken)
			}
			return worker.Result{}, err
		}))
	if _, _, err := late.PerformNext(t.Context()); err != nil {
		t.Logf("the late owner: %v", err)
	}
	got := performs(t, store, func(ctx context.Context, task *worker.Task) error {
		if value, err := take(ctx, task, "last"); value != "next" || err != nil {
			t.Errorf("the last owner gets %q, %v", value, err)
		}
		return nil
	})
	if got.Err != nil || calls["next"] != 1 || calls["last"] != 0 {
		t.Errorf("PerformNext = %+v after the calls %v", got, calls)
	}
}
