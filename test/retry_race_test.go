package stint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Several do at once everything that there is to do to a network, directly and in transactions of
// their own, while leases expire and finished tasks are pruned. Nothing is refused but what the
// verbs say; the tables agree in the end, and all that is left completes.
// Proves G62.
func TestRetryTasks_AmongAllOtherVerbs(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	_, pool := newStoreAndPool(t, stint.Options{}) // which checks the tables in the end
	r := &retryRace{pool: pool, tasks: 10 + rand.IntN(50), store: openStore(t, pool, stint.Options{
		Maintenance: stint.MaintainNever,
		Retention: []stint.Retention{
			{Completed: stint.KeepForever, Aborted: stint.KeepForever},
			{Completed: time.Microsecond, Aborted: stint.KeepForever},
			{Completed: 50 * time.Millisecond, Aborted: 100 * time.Millisecond},
			{Completed: stint.KeepNone, Aborted: stint.KeepForever},
		}[rand.IntN(4)],
	})}
	var network []stint.Task
	for i := range r.tasks {
		network = append(network, r.task(i))
	}
	insert(t, r.store, network...)
	ctx := t.Context()
	var all errgroup.Group
	const callers = 8
	for range callers {
		all.Go(func() error {
			for range testrun.Rounds(200) {
				if err := r.call(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	wantErr(t, "the callers", all.Wait(), nil)
	t.Log(&r.counts)
	for range 2 { // the second time, what was handed on or given back
		expireLeases(t, pool)
		makeDue(t, pool)
		maintain(t, r.store)
		completeAll(t, r.store)
	}
	for _, table := range []string{"ready", "blocked", "leased", "scheduled"} {
		if n := yields[int](t, pool, "SELECT count(*) FROM stint."+table); n > 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
}

// A retryRace is a network that several do everything to.
type retryRace struct {
	store  *stint.Store
	pool   *pgxpool.Pool
	tasks  int
	counts testrun.Tally
}

// task draws a task, which waits for earlier ones.
func (r *retryRace) task(i int) stint.Task {
	task := after(racerID(i))
	task.PostResult = rand.IntN(2) == 0
	task.MaxTries = []int{stint.UnlimitedTries, 1, 2}[rand.IntN(3)]
	task.Priority = int16(rand.IntN(2))
	switch rand.IntN(8) {
	case 0, 1:
		task.Action = stint.Spontaneous
	case 2, 3, 4:
		task.OnAbort = stint.RunAnyway
	case 5:
		task.Deadline = time.Now().Add(rand.N(2 * time.Second))
	}
	for _, before := range rand.Perm(max(i, 1))[:min(i, rand.IntN(4))] {
		task.After = append(task.After, racerID(before))
	}
	return task
}

// call makes a call, directly or in a transaction.
func (r *retryRace) call(ctx context.Context) error {
	store, within := r.store, rand.IntN(3) == 0
	if !within {
		return r.act(ctx, store, false)
	}
	tx, err := r.pool.Begin(ctx)
	if err != nil {
		return err
	}
	if err := r.act(ctx, store.WithTx(tx), true); err != nil {
		return errors.Join(err, tx.Rollback(ctx))
	}
	return tx.Commit(ctx)
}

func (r *retryRace) act(ctx context.Context, store *stint.Store, within bool) error {
	some := []stint.TaskID{racerID(rand.IntN(r.tasks)), racerID(rand.IntN(r.tasks))}
	after, run := min(some[0], some[1]), max(some[0], some[1])
	verb, err := "", error(nil)
	switch rand.IntN(16) {
	case 0:
		verb, err = "AbortTasks", errOf(store.AbortTasks(ctx, some[:1], ""))
	case 1, 2, 3, 4:
		verb, err = "RetryTasks", errOf(store.RetryTasks(ctx, some))
	case 5:
		task := anyway(stint.TaskID(fmt.Sprint("new ", rand.Int())), after)
		if after != run {
			task.ToSignalAfter = []stint.TaskID{run}
		}
		verb, err = "InsertTasks between", store.InsertTasks(ctx, []stint.Task{task})
	case 6, 7, 8:
		verb = "InsertTasks"
		err = store.InsertTasks(ctx, []stint.Task{r.task(rand.IntN(r.tasks))})
	case 9:
		verb, err = "DeleteTasks", errOf(store.DeleteTasks(ctx, some[:1]))
	case 10:
		verb = "AddDependencies"
		err = store.AddDependencies(ctx, []stint.Dependency{{Predecessor: after, Dependent: run}})
	case 11:
		verb = "ReplaceTasks"
		err = store.ReplaceTasks(ctx, []stint.Task{r.task(rand.IntN(r.tasks))})
	case 12:
		if !within { // some leases have expired
			_, err = r.pool.Exec(ctx, `UPDATE stint.leases
				SET deadline = statement_timestamp() WHERE claim % 3 = 0`)
		}
		if err == nil || testdb.IsDeadlock(err) {
			verb, err = "Maintain", store.Maintain(ctx)
		}
	default:
		return r.perform(ctx, store, within)
	}
	return r.judge(verb, err, within)
}

// perform owns tasks, asks for their inputs and returns most of them.
func (r *retryRace) perform(ctx context.Context, store *stint.Store, within bool) error {
	owned, err := store.OwnTasks(ctx, "actor", 1+rand.IntN(6), []string{"act"}, time.Hour)
	if err != nil {
		return r.judge("OwnTasks", err, within)
	}
	var returns []stint.Return
	for _, task := range owned {
		if rand.IntN(10) == 0 {
			continue // left to expire
		}
		_, err := r.store.Inputs(ctx, task)
		if err := r.judge("Inputs", err, within); err != nil {
			return err
		}
		given := []stint.Return{
			{Code: stint.StatusCompleted},
			{Code: stint.StatusCompleted, Result: []byte("result")},
			{Code: stint.StatusAborted},
			{Code: stint.StatusPending},
			{Code: stint.StatusPending, RetryAfter: 10 * time.Millisecond},
		}[rand.IntN(5)]
		given.ID, given.Token = task.ID, task.Token
		returns = append(returns, given)
	}
	verdicts, err := store.ReturnTasks(ctx, returns)
	for _, verdict := range verdicts {
		if err := r.judge("ReturnTasks verdict", verdict, false); err != nil {
			return err
		}
	}
	return r.judge("ReturnTasks", err, within)
}

// judge counts what a verb said, and passes on what it should not say.
func (r *retryRace) judge(verb string, err error, within bool) error {
	for _, allowed := range []error{
		stint.ErrTaskExists, stint.ErrTaskNotFound, stint.ErrTaskInProgress, stint.ErrTaskStarted,
		stint.ErrTaskFinished, stint.ErrCycle, stint.ErrPredecessorAborted, stint.ErrInvalidToken,
	} {
		if errors.Is(err, allowed) {
			r.counts.Add(verb+", "+allowed.Error(), 1)
			return nil
		}
	}
	if within && testdb.IsDeadlock(err) {
		r.counts.Add(verb+", deadlock", 1)
		return nil
	}
	r.counts.Add(verb, 1)
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}

// Whoever counts on the end of a task says so before it holds other tasks, as RetryTasks does.
func TestRetryTasks_AgainstThoseWhoCountOnAnEndDoesNotDeadlock(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	ctx := t.Context()
	for round := range testrun.Rounds(40) {
		id := func(name string) stint.TaskID { return stint.TaskID(fmt.Sprint(name, round)) }
		insert(t, store, after(id("x")), after(id("a")), anyway(id("d"), id("a"), id("x")))
		wantErr(t, "AbortTasks", errOf(store.AbortTasks(ctx, []stint.TaskID{id("a")}, "")), nil)
		for _, err := range atOnce(
			func() error { return errOf(store.RetryTasks(ctx, []stint.TaskID{id("a")})) },
			func() error {
				return store.InsertTasks(ctx, []stint.Task{
					anyway(id("n"), id("a"), id("x"), id("d")),
				})
			},
			func() error { return errOf(store.DeleteTasks(ctx, []stint.TaskID{id("x"), id("a")})) },
		) {
			if !errors.Is(err, stint.ErrTaskNotFound) {
				wantErr(t, "one of three at once", err, nil)
			}
		}
	}
	wantNoDeadlocks(t, pool)
}

func racerID(i int) stint.TaskID { return stint.TaskID(fmt.Sprintf("t%03d", i)) }

// What ends between the look for the tasks to open and the locks on them is opened, too.
func TestRetryTasks_LooksAgainAtWhatEndsMeanwhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"), after("b"))
	abort := func(id stint.TaskID) {
		wantErr(t, "AbortTasks", errOf(store.AbortTasks(t.Context(), []stint.TaskID{id}, "")), nil)
	}
	abort("a")
	other := interpose(t, pool, "split_finished", func() { abort("b") })
	opened, err := other.RetryTasks(t.Context(), []stint.TaskID{"a", "b"})
	if err != nil || !slices.Equal(opened.Tasks, []stint.TaskID{"a", "b"}) {
		t.Errorf("RetryTasks = %q, %v, want both", opened.Tasks, err)
	}
}
