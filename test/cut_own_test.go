package stint_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A lostFetch is a way for the answer of OwnTasks to get lost.
type lostFetch func(*testing.T, *cutStore, func() error) error

// A fetchKind is limits of an action, and the statement that fetches under them.
type fetchKind struct {
	limits    stint.Limits
	statement string
}

func fetchKinds() []fetchKind {
	return []fetchKind{
		{statement: "own_tasks"},
		{limits: stint.Limits{Concurrency: 2}, statement: "own_gated"},
		{limits: stint.Limits{ConcurrencyPerKey: 2}, statement: "own_limited"},
	}
}

// impose sets the limits, and has the store know of them.
func (k fetchKind) impose(t *testing.T, c *cutStore) {
	t.Helper()
	wantErr(t, "SetLimits", c.truth.SetLimits(t.Context(), "act", k.limits), nil)
	own(t, c.Store, 1)
}

// lostFetches are those of a statement, by name.
func lostFetches(statement string) map[string]lostFetch {
	cutAt := func(at pgcut.Instant) lostFetch {
		return func(t *testing.T, c *cutStore, call func() error) error {
			t.Helper()
			trap := c.proxy.Cut(at, pgcut.Executes(statement))
			err := call()
			if !trap.Sprung() {
				t.Error("nothing was cut")
			}
			return err
		}
	}
	return map[string]lostFetch{
		"request lost": cutAt(pgcut.AtRequest),
		"reply lost":   cutAt(pgcut.AtReply),
		"session ended by the server": func(t *testing.T, c *cutStore, call func() error) error {
			t.Helper()
			trap := c.proxy.Hold(pgcut.AtRequest, pgcut.Executes(statement))
			done := hold(t, trap, call)
			exec(t, c.truthPool, "SELECT pg_terminate_backend($1)", trap.PID())
			return <-done
		},
		"request that arrives behind its repetition": func(
			t *testing.T, c *cutStore, call func() error,
		) error {
			t.Helper()
			trap := c.proxy.Hold(pgcut.AtRequest, pgcut.Executes(statement))
			done := hold(t, trap, call)
			trap.Abandon()
			err := <-done
			trap.Release()
			<-trap.Answered()
			return err
		},
		"request that arrives ahead of its repetition": func(
			t *testing.T, c *cutStore, call func() error,
		) error {
			t.Helper()
			trap := c.proxy.Hold(pgcut.AtRequest, pgcut.Executes(statement))
			repeated := c.proxy.Hold(pgcut.AtRequest, pgcut.Executes(statement))
			done := hold(t, trap, call)
			trap.Abandon()
			<-repeated.Reached()
			trap.Release()
			<-trap.Answered()
			repeated.Release()
			return <-done
		},
	}
}

// However the answer gets lost, the caller is given one batch, with tokens that are good, and
// nothing is owned by nobody.
// Proves G285.
func TestOwnTasks_RecoversAFetchThatGotLost(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ways := testrun.Pairs(slices.Sorted(maps.Keys(lostFetches(""))),
		[]int{2, 3}) // all that is ready, or not all
	for _, pair := range testrun.Third(testrun.Pairs(fetchKinds(), ways), 0) {
		kind, name, inserted := pair.A, pair.B.A, pair.B.B
		t.Run(fmt.Sprintf("%s %s, %d are ready", kind.statement, name, inserted),
			func(t *testing.T) {
				t.Parallel()
				c := newCutStore(t, stint.Options{})
				kind.impose(t, c)
				insert(t, c.truth, withKey("k", "t0", "t1", "t2")[:inserted]...)
				recoverFetch(t, c, lostFetches(kind.statement)[name])
			})
	}
}

// recoverFetch fetches two tasks whose answer gets lost.
func recoverFetch(t *testing.T, c *cutStore, lose lostFetch) {
	t.Helper()
	var owned []stint.OwnedTask
	err := lose(t, c, func() (err error) {
		owned, err = c.OwnTasks(t.Context(), "actor", 2, []string{"act"}, time.Hour)
		return err
	})
	wantErr(t, "OwnTasks", err, nil)
	want := []stint.TaskID{"t0", "t1"}
	if got := idsOf(owned); !slices.Equal(got, want) {
		t.Fatalf("OwnTasks gave %q, want %q", got, want)
	}
	if n := c.count(t, tasksIn("leased")); n != len(want) {
		t.Errorf("%d tasks are owned, want %d", n, len(want))
	}
	for _, task := range owned {
		if task.Try != 1 || task.Action != "act" || time.Until(task.LeaseUntil) <= 0 {
			t.Errorf("OwnTasks gave %+v, want its first try", task)
		}
		err := c.ReturnTask(t.Context(), task.ID, task.Token, "", stint.StatusCompleted)
		wantErr(t, "ReturnTask", err, nil)
	}
}

// What had expired is recovered as well, as the try that it is.
func TestOwnTasks_RecoversALostFetchOfExpiredTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, at := range []pgcut.Instant{pgcut.AtRequest, pgcut.AtReply} {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			c := newCutStore(t, stint.Options{})
			insert(t, c.truth, stint.Task{ID: "a", Action: "act"})
			ownOne(t, c.truth)
			expireLeases(t, c.truthPool)
			trap := c.proxy.Cut(at, pgcut.Executes("reclaim_leases"))
			owned := own(t, c.Store, 1)
			if !trap.Sprung() {
				t.Fatal("nothing was cut")
			}
			if at == pgcut.AtRequest && len(owned) == 0 {
				owned = own(t, c.Store, 1)
			}
			if len(owned) != 1 || owned[0].Try != 2 {
				t.Fatalf("OwnTasks = %+v, want the second try of the task", owned)
			}
			err := c.ReturnTask(t.Context(), "a", owned[0].Token, "", stint.StatusCompleted)
			wantErr(t, "ReturnTask", err, nil)
		})
	}
}

// A fetch is recovered in the order in which it would have come.
func TestOwnTasks_RecoversInTheOrderOfPriority(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCutStore(t, stint.Options{})
	insert(t, c.truth, stint.Task{ID: "low", Action: "act"},
		stint.Task{ID: "high", Action: "act", Priority: 1})
	c.proxy.Cut(pgcut.AtReply, pgcut.Executes("own_tasks"))
	want := []stint.TaskID{"high", "low"}
	if got := idsOf(own(t, c.Store, 2)); !slices.Equal(got, want) {
		t.Errorf("OwnTasks gave %q, want %q", got, want)
	}
}

// If the question for a lost fetch is lost too, it is asked again.
func TestOwnTasks_AsksAgainIfTheQuestionIsLost(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCutStore(t, stint.Options{})
	insert(t, c.truth, stint.Task{ID: "a", Action: "act"})
	c.proxy.Cut(pgcut.AtReply, pgcut.Executes("own_tasks"))
	c.proxy.Cut(pgcut.AtRequest, pgcut.Executes("claimed_tasks"))
	c.proxy.Cut(pgcut.AtReply, pgcut.Executes("claimed_tasks"))
	if owned := own(t, c.Store, 1); len(owned) != 1 || owned[0].Try != 1 {
		t.Errorf("OwnTasks = %+v, want the first try of the task", owned)
	}
}

// If the server is away until the store is closed, the tasks are ready again once the lease has
// expired.
// Proves G99.
func TestOwnTasks_LostForGoodLastsUntilTheLeaseExpires(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCutStore(t, stint.Options{})
	insert(t, c.truth, stint.Task{ID: "a", Action: "act"}, stint.Task{ID: "b", Action: "act"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := c.loseAll(t, "own_tasks", true, func() error {
		return errOf(c.OwnTasks(ctx, "actor", 2, []string{"act"}, time.Hour))
	})
	cancel()
	wantErr(t, "OwnTasks", <-done, context.Canceled)
	wantErr(t, "Close", c.Close(t.Context()), nil) // after a while
	c.wantState(t, "after Close", "a in-progress try 1, b in-progress try 1")
	expireLeases(t, c.truthPool)
	if owned := own(t, c.truth, 2); len(owned) != 2 || owned[0].Try != 2 {
		t.Errorf("OwnTasks = %+v, want the second try of both", owned)
	}
}

// A fetch that is still under way when its answer is given up for lost is waited for: it does
// not take place behind the back of the caller.
func TestOwnTasks_RecoversAFetchThatIsStillUnderWay(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCutStore(t, stint.Options{})
	insert(t, c.truth, stint.Task{ID: "a", Action: "act"})
	holding := begin(t, c.truthPool) // own_tasks has taken the task when it comes to this
	_, err := holding.Exec(t.Context(), "INSERT INTO stint.leased (lo, hi, claim, tries) "+
		"SELECT key, key, 0, 1 FROM stint.tasks")
	wantErr(t, "INSERT", err, nil)
	trap := c.proxy.Hold(pgcut.AtRequest, pgcut.Executes("own_tasks"))
	question := c.proxy.Hold(pgcut.AtRequest, pgcut.Executes("claimed_tasks"))
	var owned []stint.OwnedTask
	done := hold(t, trap, func() (err error) {
		owned, err = c.OwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour)
		return err
	})
	trap.Abandon()
	<-question.Reached()
	trap.Release()
	awaitWaiting(t, c.truthPool, 1, done)
	question.Release()
	awaitWaiting(t, c.truthPool, 2, done)
	wantErr(t, "Rollback", holding.Rollback(t.Context()), nil)
	wantErr(t, "OwnTasks", <-done, nil)
	if len(owned) != 1 || owned[0].Try != 1 {
		t.Errorf("OwnTasks gave %+v, want the first try of the task", owned)
	}
	c.wantState(t, "after the fetch", "a in-progress try 1")
}

// The repetition of a return tells that the task is another's when it is.
// Proves R11.
func TestReturnTask_RepeatedAfterTheNextFetchIsRefused(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCutStore(t, stint.Options{})
	insert(t, c.truth, stint.Task{ID: "a", Action: "act"})
	task := ownOne(t, c.truth)
	c.proxy.Cut(pgcut.AtReply, pgcut.Commits("return_tasks"))
	give := func() error {
		return c.ReturnTask(t.Context(), "a", task.Token, "", stint.StatusPending)
	}
	wantLost(t, give())
	next := ownOne(t, c.truth)
	err := give()
	wantTasks(t, "ReturnTask", err, stint.ErrInvalidToken, "a")
	if errors.Is(err, stint.ErrAlreadyReturned) {
		t.Errorf("ReturnTask = %v of a task that another one owns", err)
	}
	err = c.ReturnTask(t.Context(), "a", next.Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask by the next owner", err, nil)
}

// The doc of KeepNone says what its price is.
// Proves R11.
func TestReturnTask_RepeatedWithKeepNoneFindsNoTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, at := range []pgcut.Instant{pgcut.AtRequest, pgcut.AtReply} {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			c := newCutStore(t, stint.Options{Retention: stint.Retention{
				Completed: stint.KeepNone, Aborted: stint.KeepNone,
			}})
			insert(t, c.truth, stint.Task{ID: "a", Action: "act"})
			task := ownOne(t, c.truth)
			c.proxy.Cut(at, pgcut.Commits("return_tasks"))
			complete := func() error {
				return c.ReturnTask(t.Context(), "a", task.Token, "", stint.StatusCompleted)
			}
			wantLost(t, complete())
			if at == pgcut.AtRequest {
				c.wantState(t, "after the request was lost", "a in-progress try 1")
				wantErr(t, "ReturnTask repeated", complete(), nil)
			}
			c.wantState(t, "after the return", "")
			err := complete()
			wantTasks(t, "ReturnTask repeated", err, stint.ErrInvalidToken, "a")
			wantErr(t, "ReturnTask repeated", err, stint.ErrTaskNotFound)
		})
	}
}

// The tasks that were put in place may be taken up before the repetition.
func TestReplaceTasks_RepeatedMayFindItsTasksInProgress(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCutStore(t, stint.Options{})
	insert(t, c.truth, stint.Task{ID: "a", Action: "old"})
	replace := func() error {
		return c.ReplaceTasks(t.Context(), []stint.Task{{ID: "a", Action: "act"}})
	}
	c.proxy.Cut(pgcut.AtReply, pgcut.Commits("withdraw_tasks"))
	wantLost(t, replace())
	task := ownOne(t, c.truth)
	wantTasks(t, "ReplaceTasks repeated", replace(), stint.ErrTaskInProgress, "a")
	err := c.ReturnTask(t.Context(), "a", task.Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask", err, nil)
}

// A connection that breaks inside the caller's transaction undoes all of it.
// Proves R21.
func TestWithTx_CutInAVerbUndoesTheTransaction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, at := range []pgcut.Instant{pgcut.AtRequest, pgcut.AtReply} {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			c := newCutStore(t, stint.Options{})
			insert(t, c.truth, stint.Task{ID: "a", Action: "act"})
			owned := own(t, c.truth, 1)
			c.proxy.Cut(at, pgcut.Executes("return_tasks"))
			wantLost(t, succeed(t.Context(), c, owned))
			c.wantState(t, "after the verb was cut", "a in-progress try 1")
			wantErr(t, "the transaction repeated", succeed(t.Context(), c, owned), nil)
			c.wantState(t, "after the transaction",
				`a completed try 1 "said", b ready as new, 1 of mine`)
		})
	}
}

// A verb whose context ends between two requests leaves the caller's transaction as it was.
func TestWithTx_ContextEndingBetweenRequestsLeavesTheTransaction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCutStore(t, stint.Options{})
	err := pgx.BeginFunc(t.Context(), c.pool, func(tx pgx.Tx) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := c.WithTx(tx).InsertTasksFrom(ctx, func(yield func(stint.Task, error) bool) {
			large := stint.Task{ID: "large", Action: "act", Body: make([]byte, 8<<20)}
			if yield(large, nil) { // large enough to be sent at once
				cancel()
				yield(stint.Task{ID: "next", Action: "act"}, nil)
			}
		})
		wantErr(t, "InsertTasksFrom", err, context.Canceled)
		_, err = tx.Exec(t.Context(), "INSERT INTO mine VALUES ('a')")
		return err
	})
	wantErr(t, "the transaction", err, nil)
	c.wantState(t, "after the transaction", "1 of mine")
}

// A statement that the connection has not prepared yet would meet the lock ahead of the savepoint.
// Proves G76.
func TestWithTx_LockTimeoutLeavesTheTransaction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCutStore(t, stint.Options{})
	maintain(t, c.Store)
	err := pgx.BeginFunc(t.Context(), c.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SET LOCAL lock_timeout = '1ms'"); err != nil {
			return err
		}
		locker, err := c.truthPool.Begin(t.Context())
		if err != nil {
			return err
		}
		defer locker.Rollback(t.Context()) // only to unlock
		_, err = locker.Exec(t.Context(), "LOCK TABLE stint.tasks IN SHARE MODE")
		if err != nil {
			return err
		}
		if err := c.WithTx(tx).Maintain(t.Context()); err == nil {
			t.Error("Maintain did not meet the lock")
		}
		_, err = tx.Exec(t.Context(), "INSERT INTO mine VALUES ('a')")
		return err
	})
	wantErr(t, "the transaction", err, nil)
	c.wantState(t, "after the transaction", "1 of mine")
}
