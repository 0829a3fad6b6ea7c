package stinttest_test

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

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/stinttest"
	"github.com/stint-tasks/stint/worker"
)

// A bank is the world outside of the database: it counts charges.
type bank struct {
	mutex   sync.Mutex
	charges map[stint.TaskID]int
	keyed   bool // it takes the ID of the task for a key of idempotency
}

func (b *bank) charge(p *stinttest.Process, id stint.TaskID) error {
	return p.Call("charge", func() error {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		if b.charges == nil {
			b.charges = map[stint.TaskID]int{}
		}
		if !b.keyed || b.charges[id] == 0 {
			b.charges[id]++
		}
		return nil
	})
}

// A crashCase is a test of a handler of tasks "act".
type crashCase struct {
	store *stinttest.Store
	bank  bank
	// charges and records are how many there are to be of a task.
	charges, records int
}

func newCrashCase(t *testing.T, options stint.Options) *crashCase {
	t.Helper()
	c := &crashCase{store: newStore(t, options), records: 1}
	_, err := c.store.Pool.Exec(t.Context(), "CREATE TABLE records (task text)")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	insertRecord = "INSERT INTO records VALUES ($1)"
	countRecords = "SELECT count(*) FROM records WHERE task = $1"
)

func (c *crashCase) check(ctx context.Context, task stint.TaskInfo) error {
	if task.State != stint.StateCompleted {
		return fmt.Errorf("the task is %s: %s", task.State, task.Status)
	}
	c.bank.mutex.Lock()
	defer c.bank.mutex.Unlock()
	if n := c.bank.charges[task.ID]; n != c.charges {
		return fmt.Errorf("%d charges", n)
	}
	records := 0
	err := c.store.Pool.QueryRow(ctx, countRecords, task.ID).Scan(&records)
	if err == nil && records != c.records {
		err = fmt.Errorf("%d records", records)
	}
	return err
}

type processHandler func(
	ctx context.Context, p *stinttest.Process, task *worker.Task,
) (worker.Result, error)

func (c *crashCase) try(tb testing.TB, handler processHandler) []string {
	tb.Helper()
	return stinttest.TryEveryCrash(tb, c.store, stint.Task{Action: "act"},
		func(p *stinttest.Process) worker.Registration {
			return worker.Handle("act",
				func(ctx context.Context, task *worker.Task) (worker.Result, error) {
					return handler(ctx, p, task)
				})
		}, c.check)
}

func wantCrashes(t *testing.T, crashes []string, of ...string) {
	t.Helper()
	var want []string
	for _, what := range of {
		want = append(want, "before "+what, "after "+what)
	}
	if !slices.Equal(crashes, want) {
		t.Errorf("TryEveryCrash tried\n%s\nwant\n%s", strings.Join(crashes, "\n"),
			strings.Join(want, "\n"))
	}
}

const (
	theCall     = `the call "charge"`
	theInsert   = `the statement "INSERT INTO records VALUES ($1)"`
	theReturn   = `the statement "return_tasks" with 4 more`
	theCount    = `the statement "SELECT count(*) FROM records WHERE task = $1"`
	theReturnIn = `the statement "return_tasks" with 5 more`
	theCommit   = `the statement "commit"`
	theBegin    = `the statement "begin"`
)

// Proves G328.
func TestTryEveryCrash_NamesTheCallOfAHandlerThatChargesBeforeItRecords(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCrashCase(t, stint.Options{})
	c.charges = 1
	handler := func(
		ctx context.Context, p *stinttest.Process, task *worker.Task,
	) (worker.Result, error) {
		var n int
		err := p.Pool.QueryRow(ctx, countRecords, task.ID).Scan(&n)
		if err != nil || n > 0 {
			return worker.Result{}, err
		}
		if err := c.bank.charge(p, task.ID); err != nil {
			return worker.Result{}, err
		}
		_, err = p.Pool.Exec(ctx, insertRecord, task.ID)
		return worker.Result{}, err
	}
	wantFailure(t, `TryEveryCrash: the handler does not survive 2 of 8 crashes:
	4: after the call "charge": 2 charges
	5: before the statement "INSERT INTO records VALUES ($1)": 2 charges`, func(tb testing.TB) {
		tb.Helper()
		c.try(tb, handler)
	})
	c.bank.keyed = true
	wantCrashes(t, c.try(t, handler), theCount, theCall, theInsert, theReturn)
}

// A handler in one transaction is undone as a whole, and so is the return with it; one that returns
// the task afterwards is not.
// Proves G328.
func TestTryEveryCrash_PassesATransactionThatReturnsTheTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCrashCase(t, stint.Options{})
	inTx := func(end func(context.Context, *worker.Task, pgx.Tx) error) processHandler {
		return func(
			ctx context.Context, p *stinttest.Process, task *worker.Task,
		) (worker.Result, error) {
			return worker.Result{}, pgx.BeginFunc(ctx, p.Pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, insertRecord, task.ID); err != nil {
					return err
				}
				return end(ctx, task, tx)
			})
		}
	}
	wantCrashes(t, c.try(t, inTx(func(ctx context.Context, task *worker.Task, tx pgx.Tx) error {
		return task.ReturnIn(ctx, tx, worker.Result{})
	})), theBegin, theInsert, theReturnIn, theCommit)
	wantFailure(t, `TryEveryCrash: the handler does not survive 2 of 8 crashes:
	6: after the statement "commit": 2 records
	7: before the statement "return_tasks" with 4 more: 2 records`, func(tb testing.TB) {
		tb.Helper()
		c.try(tb, inTx(func(context.Context, *worker.Task, pgx.Tx) error { return nil }))
	})
}

// Proves G328.
func TestTryEveryCrash_TriesSteps(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCrashCase(t, stint.Options{})
	c.charges = 1
	handler := func(
		ctx context.Context, p *stinttest.Process, task *worker.Task,
	) (worker.Result, error) {
		_, err := worker.Step(ctx, task, "charge", func(context.Context) (bool, error) {
			return true, c.bank.charge(p, task.ID)
		})
		if err != nil {
			return worker.Result{}, err
		}
		if err := worker.Sleep(ctx, task, "cool down", 24*time.Hour); err != nil {
			return worker.Result{}, err
		}
		return worker.Result{}, pgx.BeginFunc(ctx, p.Pool, func(tx pgx.Tx) error {
			_, err := worker.StepIn(ctx, task, tx, "record",
				func(ctx context.Context) (bool, error) {
					_, err := tx.Exec(ctx, insertRecord, task.ID)
					return true, err
				})
			return err
		})
	}
	message := failure(t, func(tb testing.TB) {
		tb.Helper()
		c.try(tb, handler)
	})
	for _, want := range []string{
		"the handler does not survive 2 of ", `after the call "charge": 2 charges`,
		`before the statement "record_step" with 3 more: 2 charges`,
	} {
		if !strings.Contains(message, want) {
			t.Errorf("the test fails with\n%s\nwant %q in it", message, want)
		}
	}
	c.bank.keyed = true
	crashes := c.try(t, handler)
	for _, want := range []string{"after " + theCommit, "after " + theCall} {
		if !slices.Contains(crashes, want) {
			t.Errorf("TryEveryCrash tried\n%s\nwant %q", strings.Join(crashes, "\n"), want)
		}
	}
}

// A dead process sends nothing: what its handler does then, also without its context and without
// looking at errors, has no effect, and a transaction that it leaves open ends.
func TestTryEveryCrash_NothingThatADeadProcessDoesHasAnEffect(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCrashCase(t, stint.Options{})
	c.charges = 1
	var late int
	c.try(t, func(
		_ context.Context, p *stinttest.Process, task *worker.Task,
	) (worker.Result, error) {
		ctx := context.Background() // careless
		tx, err := p.Pool.Begin(ctx)
		if err != nil {
			late++
			return worker.Result{}, errors.Join(err, p.Call("late", func() error {
				t.Error("a dead process made a call")
				return nil
			}))
		}
		c.bank.keyed = true
		_ = c.bank.charge(p, task.ID)
		_, _ = tx.Exec(ctx, insertRecord, task.ID)
		_ = p.Store.InsertTasks(ctx, []stint.Task{{Action: "other"}})
		if err := task.ReturnIn(ctx, tx, worker.Result{}); err != nil {
			return worker.Result{}, err // and the transaction is left
		}
		return worker.Result{}, tx.Commit(ctx)
	})
	if late == 0 {
		t.Error("no process has died at its first statement")
	}
}

// A statement of a batch, the rows of a COPY, and tasks that the handler inserts.
func TestTryEveryCrash_TriesBatchesAndCopies(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCrashCase(t, stint.Options{})
	c.records = 4
	crashes := c.try(t, func(
		ctx context.Context, p *stinttest.Process, task *worker.Task,
	) (worker.Result, error) {
		return worker.Result{}, pgx.BeginFunc(ctx, p.Pool, func(tx pgx.Tx) error {
			var batch pgx.Batch
			batch.Queue(insertRecord, task.ID)
			batch.Queue(insertRecord, task.ID)
			if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
				return err
			}
			_, err := tx.CopyFrom(ctx, pgx.Identifier{"records"}, []string{"task"},
				pgx.CopyFromRows([][]any{{string(task.ID)}, {string(task.ID)}}))
			if err != nil {
				return err
			}
			return task.ReturnIn(ctx, tx, worker.Result{})
		})
	})
	wantCrashes(t, crashes, theBegin,
		theInsert+" with 1 more",
		`the statement "copy \"records\" ( \"task\" ) from stdin binary;"`, theReturnIn, theCommit)
}

func TestTryEveryCrash_PerformsUntilTheTaskHasEnded(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCrashCase(t, stint.Options{})
	c.records = 0
	tries := 0
	crashes := c.try(t, func(
		_ context.Context, _ *stinttest.Process, task *worker.Task,
	) (worker.Result, error) {
		if tries++; task.Try == 1 {
			return worker.Result{}, errors.New("no luck")
		}
		return worker.Result{}, nil
	})
	wantCrashes(t, crashes, theReturn, theReturn)
	if tries < 2*5 {
		t.Errorf("the handler was called %d times", tries)
	}
}

func TestTryEveryCrash_SaysWhyItCannotTry(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	fails := errors.New("this is wrong")
	for name, test := range map[string]struct {
		task  stint.Task
		check error
		want  string
	}{
		"ID": {
			task: stint.Task{ID: "id", Action: "act"},
			want: "TryEveryCrash: the task must have no ID: each performance has one of its own",
		},
		"check": {
			task: stint.Task{Action: "act"}, check: fails,
			want: "TryEveryCrash: without a crash: this is wrong",
		},
		"action": {
			task: stint.Task{Action: "other"},
			want: "TryEveryCrash: without a crash: the task is ready, and the handler is not " +
				"called for it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t, stint.Options{})
			wantFailure(t, test.want, func(tb testing.TB) {
				tb.Helper()
				stinttest.TryEveryCrash(tb, store, test.task,
					func(*stinttest.Process) worker.Registration {
						return worker.Handle("act", done)
					},
					func(context.Context, stint.TaskInfo) error { return test.check })
			})
		})
	}
}
