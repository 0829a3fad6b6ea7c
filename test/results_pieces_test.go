package stint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// beforeSecondPiece returns a store through which do is called when the second piece of a return is
// on its way.
func beforeSecondPiece(t *testing.T, near *pgcut.Proxy, do func()) *stint.Store {
	t.Helper()
	pieces := 0
	near.Cut(pgcut.AtRequest, func(r pgcut.Request) bool {
		if pgcut.Executes("return_tasks")(r) {
			if pieces++; pieces == 2 {
				do()
			}
		}
		return false
	})
	t.Cleanup(func() {
		if pieces < 2 {
			t.Errorf("it is returned in %d pieces, want 2", pieces)
		}
	})
	return openStore(t, near.Pool(t, 4), stint.Options{Maintenance: stint.MaintainNever})
}

// Answers are kept byte for byte in all sizes, and are dependents' inputs.
// Proves G3.
func TestAnswerTasks_KeepsResultsOfAllSizes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	returns := make([]stint.Return, len(resultSizes()))
	tasks := numbered("t", len(returns))
	for i, size := range resultSizes() {
		tasks[i].Action = stint.External
		returns[i] = stint.Return{
			ID: tasks[i].ID, Code: stint.StatusCompleted, Result: resultOf(size),
		}
	}
	insert(t, store, append(tasks, stint.Task{ID: "join", Action: "join", After: named(tasks)})...)
	verdicts, err := store.AnswerTasks(t.Context(), "actor", answersOf(returns))
	wantErr(t, "AnswerTasks", err, nil)
	wantResults(t, store, returns, verdicts)
	wantInputs(t, store, returns)
	again, err := store.AnswerTasks(t.Context(), "actor", answersOf(returns))
	wantErr(t, "AnswerTasks again", err, nil)
	for i, verdict := range again {
		wantErr(t, fmt.Sprint("answer ", i, " again"), verdict, stint.ErrTaskFinished)
	}
}

// Large results of tasks that are not kept go nowhere.
func TestReturnTasks_KeepsNoLargeResultsIfNoneAreKept(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{
		Retention: stint.Retention{Completed: stint.KeepNone},
	})
	returns := ownForResults(t, store, numbered("t", len(resultSizes())))
	verdicts, err := store.ReturnTasks(t.Context(), returns)
	wantErr(t, "ReturnTasks", errors.Join(append(verdicts, err)...), nil)
	if n := yields[int](t, pool, `SELECT (SELECT count(*) FROM stint.tasks) +
			(SELECT count(*) FROM stint.finished)`); n > 0 {
		t.Errorf("%d rows are left", n)
	}
}

// While large results are on their way, others return tasks that the same dependents wait for.
// Proves G209.
func TestReturnTasks_HoldsNobodyUpWithLargeResults(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	near, pool := newStoreAndPool(t, stint.Options{})
	tasks := numbered("t", len(resultSizes()))
	insert(t, near, stint.Task{ID: "other", Action: "other"})
	tasks = append(tasks, stint.Task{
		ID: "join", Action: "join", After: append(named(tasks), "other"),
	})
	returns := ownForResults(t, near, tasks)
	others, err := near.OwnTasks(t.Context(), "actor", 1, []string{"other"}, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
	far := beforeSecondPiece(t, pgcut.New(t, pool), func() {
		_, _, err := near.ReturnAndOwnTasks(t.Context(), completed(others), stint.Want{})
		if err != nil {
			t.Error(err)
		}
	})
	verdicts, err := far.ReturnTasks(t.Context(), returns)
	wantErr(t, "ReturnTasks", err, nil)
	wantResults(t, near, returns, verdicts)
	wantState(t, near, stint.StateCompleted, "other")
	wantState(t, near, stint.StateReady, "join")
}

// Nor do they hold up fetches below the same limits, which wait for what returns lock.
// Proves G209, L4.
func TestReturnTasks_HoldsUpNoFetchWithLargeResults(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, limits := range map[string]stint.Limits{
		"fair":         {Fair: true},
		"rate per key": {RatePerKey: stint.Rate{Tasks: 9, Per: time.Second, Burst: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near, pool := newLimitedStore(t, limits)
			n := len(resultSizes())
			tasks := numbered("t", 3*n)
			for i := range tasks {
				tasks[i].Key = fmt.Sprint("key-", i%n)
			}
			returns := ownForResults(t, near, tasks[:n])
			insert(t, near, stint.Task{ID: "urgent", Action: "act", Priority: 1})
			insert(t, near, tasks[n:]...)
			wantFetch(t, near, 1, "urgent") // which parks the others
			far := beforeSecondPiece(t, pgcut.New(t, pool), func() {
				insert(t, near, withKey("key-0", "next")...)
				insert(t, near, withKey("other", "other")...)
				missing := map[stint.TaskID]bool{"next": true, "other": true}
				eventually(t, soon, fmt.Sprintf("%v are fetched", missing), func() bool {
					for _, task := range own(t, near, 3*n) {
						delete(missing, task.ID)
					}
					return len(missing) == 0
				})
			})
			verdicts, err := far.ReturnTasks(t.Context(), returns)
			wantErr(t, "ReturnTasks", err, nil)
			wantResults(t, near, returns, verdicts)
		})
	}
}

// If the context ends between two pieces, no task is returned, and the call may be repeated.
// Proves G209.
func TestReturnTasks_CanceledBetweenPiecesReturnsNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, call := range map[string]func(
		context.Context, *stint.Store, []stint.Return,
	) ([]error, error){
		"ReturnTasks": func(
			ctx context.Context, store *stint.Store, returns []stint.Return,
		) ([]error, error) {
			return store.ReturnTasks(ctx, returns)
		},
		"ReturnAndOwnTasks": func(
			ctx context.Context, store *stint.Store, returns []stint.Return,
		) ([]error, error) {
			verdicts, _, err := store.ReturnAndOwnTasks(ctx, returns, stint.Want{
				Actor: "actor", MaxTasks: 9, Actions: []string{"act"}, Lease: time.Hour,
			})
			return verdicts, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{})
			returns := ownForResults(t, store, numbered("t", len(resultSizes())))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			far := beforeSecondPiece(t, pgcut.New(t, pool), cancel)
			_, err := call(ctx, far, returns)
			wantErr(t, name, err, context.Canceled)
			for _, r := range returns {
				wantState(t, store, stint.StateInProgress, r.ID)
			}
			verdicts, err := call(t.Context(), store, returns)
			wantErr(t, name, err, nil)
			wantResults(t, store, returns, verdicts)
		})
	}
}

// In a transaction, large results are kept if it is committed.
func TestReturnTasks_TakesLargeResultsInATransaction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	tasks := numbered("t", len(resultSizes()))
	returns := ownForResults(t, store, append(tasks, after("join", named(tasks)...)))
	var verdicts []error
	undone := errors.New("undone")
	for _, end := range []error{undone, nil} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
			if verdicts, err = store.WithTx(tx).ReturnTasks(t.Context(), returns); err != nil {
				return err
			}
			return end
		})
		wantErr(t, "the transaction", err, end)
		want := stint.StateInProgress
		if end == nil {
			want = stint.StateCompleted
		}
		wantState(t, store, want, named(tasks)...)
	}
	wantResults(t, store, returns, verdicts)
	wantState(t, store, stint.StateReady, "join")
}

// If somebody holds one of the tasks, none of the results are kept by a call that does not wait.
func TestReturnAndOwnTasks_GivesUpLargeResultsThatAreHeldUp(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	returns := ownForResults(t, store, numbered("t", len(resultSizes())+1))
	last := returns[len(returns)-1]
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		err := store.WithTx(tx).ReturnTask(t.Context(), last.ID, last.Token, "",
			stint.StatusCompleted)
		if err != nil {
			return err
		}
		verdicts, owned, err := store.ReturnAndOwnTasks(t.Context(), returns, stint.Want{
			Actor: "actor", MaxTasks: 9, Actions: []string{"act"}, Lease: time.Hour,
		})
		if len(owned) != 1 {
			t.Errorf("it fetches %d tasks, want 1", len(owned))
		}
		for i, verdict := range verdicts {
			wantErr(t, fmt.Sprint("return ", i), verdict, stint.ErrBusy)
		}
		return err
	})
	wantErr(t, "the transaction", err, nil)
	for _, r := range returns[:len(returns)-1] {
		wantState(t, store, stint.StateInProgress, r.ID)
	}
}

// A copyCounter counts COPYs, too, by their tables.
type copyCounter struct{ spy }

func (c *copyCounter) TraceCopyFromStart(
	ctx context.Context, _ *pgx.Conn, data pgx.TraceCopyFromStartData,
) context.Context {
	c.note(strings.Join(data.TableName, "."))
	return ctx
}

func (*copyCounter) TraceCopyFromEnd(context.Context, *pgx.Conn, pgx.TraceCopyFromEndData) {}

// The server keeps a thousand rows of a COPY before it writes them, however large they are. So
// large bodies go in several, and others in one.
// Proves G209.
func TestInsertTasks_LetsTheServerKeepFewBodies(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, test := range []struct{ tasks, bytes, copies int }{
		{9000, 1 << 10, 1}, {2999, 9 << 10, 4}, {13, 3 << 20, 5}, {3, 9 << 20, 3},
	} {
		t.Run(fmt.Sprintf("%d of %d bytes", test.tasks, test.bytes), func(t *testing.T) {
			t.Parallel()
			near, pool := newStoreAndPool(t, stint.Options{})
			counter := &copyCounter{}
			counter.counts = map[string]int{}
			store := openStore(t, poolOf(t, pool, func(config *pgxpool.Config) {
				config.ConnConfig.Tracer = counter
			}), stint.Options{Maintenance: stint.MaintainNever})
			tasks := numbered("t", test.tasks)
			for i := range tasks {
				tasks[i].Body = bytes.Repeat([]byte{byte(i)}, test.bytes)
			}
			insert(t, store, tasks...)
			if got := counter.count("stint.tasks"); got != test.copies {
				t.Errorf("there were %d COPYs, want %d", got, test.copies)
			}
			for _, i := range []int{0, 1, test.tasks / 2, test.tasks - 1} {
				if got := info(t, near, tasks[i].ID); !bytes.Equal(got.Body, tasks[i].Body) {
					t.Errorf("%s has another body", got.ID)
				}
			}
		})
	}
}
