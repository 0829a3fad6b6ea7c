package stint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestGroupCommit_EachCallerGetsItsOwnAnswer(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const goroutines, each = 200, 20
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", goroutines*each)...)
	var mutex sync.Mutex
	owners := map[stint.TaskID]int{}
	var group sync.WaitGroup
	for goroutine := range goroutines {
		group.Go(func() {
			for {
				owned, err := store.OwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour)
				if err != nil || len(owned) > 1 {
					t.Errorf("OwnTasks = %d tasks, %v", len(owned), err)
					return
				}
				if len(owned) == 0 {
					return
				}
				mutex.Lock()
				if other, twice := owners[owned[0].ID]; twice {
					t.Errorf("%s was given to %d and %d", owned[0].ID, other, goroutine)
				}
				owners[owned[0].ID] = goroutine
				mutex.Unlock()
				verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{{
					ID: owned[0].ID, Token: owned[0].Token, Code: stint.StatusCompleted,
					Status: fmt.Sprint(goroutine), Result: []byte(owned[0].ID),
				}})
				if err := errors.Join(append(verdicts, err)...); err != nil {
					t.Errorf("ReturnTasks = %v", err)
				}
			}
		})
	}
	group.Wait()
	// A caller may have found nothing while others held all that was left.
	if left := own(t, store, goroutines*each); len(owners)+len(left) != goroutines*each {
		t.Errorf("%d tasks were given and %d are left, of %d", len(owners), len(left),
			goroutines*each)
	}
	for id, goroutine := range owners {
		if len(owners) > 500 && goroutine%20 != 0 {
			continue // a sample is enough
		}
		got := info(t, store, id)
		if got.Status != fmt.Sprint(goroutine) || string(got.Result) != string(id) {
			t.Errorf("%s was returned as %q, %q, want %d", id, got.Status, got.Result, goroutine)
		}
	}
	wantNoDeadlocks(t, pool)
}

// Calls for different numbers of tasks each get at most what they ask for.
func TestGroupCommit_SharesOutMixedSizes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const tasks = 20_000
	store := newStore(t)
	insert(t, store, numbered("t", tasks)...)
	sizes := []int{1, 2, 7, 50, 499, 1001, 3}
	var given atomic.Int64
	var seen sync.Map
	var group sync.WaitGroup
	for goroutine := range 50 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(goroutine), 1))
			for given.Load() < tasks {
				n := sizes[random.IntN(len(sizes))]
				owned, err := store.OwnTasks(t.Context(), "actor", n, []string{"act"}, time.Hour)
				if err != nil || len(owned) > n {
					t.Errorf("OwnTasks(%d) = %d tasks, %v", n, len(owned), err)
					return
				}
				given.Add(int64(len(owned)))
				for _, task := range owned {
					if _, twice := seen.LoadOrStore(task.ID, true); twice {
						t.Errorf("%s was given twice", task.ID)
					}
				}
				kept, err := store.ExtendTasksOwnership(t.Context(), "actor", owned, 2*time.Hour)
				if err != nil || len(kept) != len(owned) {
					t.Errorf("ExtendTasksOwnership of %d = %v, %v", len(owned), kept, err)
				}
				verdicts, err := store.ReturnTasks(t.Context(), completed(owned))
				if err := errors.Join(append(verdicts, err)...); err != nil {
					t.Errorf("ReturnTasks = %v", err)
				}
			}
		})
	}
	group.Wait()
	if n := given.Load(); n != tasks {
		t.Errorf("%d tasks were given, want %d", n, tasks)
	}
}

// What is wrong with one return is the verdict on that one alone.
// Proves R11.
func TestGroupCommit_ARefusedReturnTouchesNobodyElse(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	each := testrun.Rounds(250)
	store := newStore(t)
	insert(t, store, numbered("t", 3*each)...)
	owned := own(t, store, 3*each)
	var group sync.WaitGroup
	returns := func(task stint.OwnedTask, code stint.StatusCode, want error, not error) {
		err := store.ReturnTask(t.Context(), task.ID, task.Token, "", code)
		if !errors.Is(err, want) || not != nil && errors.Is(err, not) {
			t.Errorf("ReturnTask(%s) = %v, want %v", task.ID, err, want)
		}
	}
	for i := range each {
		good, bad, twice := owned[3*i], owned[3*i+1], owned[3*i+2]
		wrong := bad
		wrong.Token = twice.Token
		group.Go(func() {
			returns(good, stint.StatusCompleted, nil, nil)
			returns(good, stint.StatusCompleted, stint.ErrAlreadyReturned, nil)
			returns(good, stint.StatusAborted, stint.ErrInvalidToken, stint.ErrAlreadyReturned)
		})
		group.Go(func() {
			returns(wrong, stint.StatusCompleted, stint.ErrInvalidToken, stint.ErrAlreadyReturned)
			returns(bad, "nonsense", stint.ErrInvalidArgument, nil)
			returns(bad, stint.StatusAborted, nil, nil)
		})
		var firsts atomic.Int64
		for range 2 {
			group.Go(func() {
				err := store.ReturnTask(
					t.Context(), twice.ID, twice.Token, "", stint.StatusCompleted)
				switch {
				case err == nil:
					firsts.Add(1)
				case !errors.Is(err, stint.ErrAlreadyReturned):
					t.Errorf("ReturnTask(%s) twice at once = %v", twice.ID, err)
				}
				if firsts.Load() > 1 {
					t.Errorf("%s was returned twice", twice.ID)
				}
			})
		}
	}
	group.Wait()
	for i := range each {
		wantState(t, store, stint.StateCompleted, owned[3*i].ID, owned[3*i+2].ID)
		wantState(t, store, stint.StateAborted, owned[3*i+1].ID)
	}
}

// Callers that leave take nobody with them.
func TestGroupCommit_ACallerThatLeavesLeavesTheOthersUnharmed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	tasks := testrun.Rounds(5000)
	store := newStore(t)
	insert(t, store, numbered("t", tasks)...)
	owned := own(t, store, tasks)
	var group sync.WaitGroup
	for i, task := range owned {
		group.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			leaves := i%2 == 0
			if leaves {
				delay := time.Duration(rand.IntN(10*tasks)) * time.Microsecond
				defer time.AfterFunc(delay, cancel).Stop()
			}
			err := store.ReturnTask(ctx, task.ID, task.Token, "", stint.StatusCompleted)
			if err != nil && (!leaves || !errors.Is(err, context.Canceled)) {
				t.Errorf("ReturnTask(%s) = %v", task.ID, err)
			}
			if err == nil {
				return
			}
			err = store.ReturnTask(t.Context(), task.ID, task.Token, "", stint.StatusCompleted)
			if err != nil && !errors.Is(err, stint.ErrAlreadyReturned) {
				t.Errorf("ReturnTask(%s) repeated = %v", task.ID, err)
			}
		})
	}
	group.Wait()
	if left := own(t, store, 1); len(left) > 0 {
		t.Errorf("%s is ready", left[0].ID)
	}
}

// A return whose dependents somebody's transaction holds waits for it; the others do not, however
// many such returns there are.
func TestGroupCommit_AReturnThatMustWaitHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, stuck := range []int{1, 2, 5} {
		t.Run(fmt.Sprintf("%d stuck", stuck), func(t *testing.T) {
			t.Parallel()
			const free = 30
			store, pool := newStoreAndPool(t, stint.Options{})
			insert(t, store, numbered("t", stuck+free)...)
			for _, task := range numbered("t", stuck+free)[:stuck+1] {
				insert(t, store, after("after "+task.ID, task.ID))
			}
			owned := own(t, store, stuck+free)
			tx := begin(t, pool)
			for _, task := range owned[:stuck] {
				lockBlocked(t, tx, "after "+task.ID)
			}
			var waiting []<-chan outcome[struct{}]
			for _, task := range owned[:stuck] {
				waiting = append(waiting, start(func() (struct{}, error) {
					return struct{}{}, store.ReturnTask(
						t.Context(), task.ID, task.Token, "", stint.StatusCompleted)
				}))
			}
			waitForLocks(t, pool, min(stuck, 2))
			var group sync.WaitGroup
			var mutex sync.Mutex
			var took []time.Duration
			var failed error
			for _, task := range owned[stuck:] {
				group.Go(func() {
					began := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), soon)
					defer cancel()
					err := store.ReturnTask(ctx, task.ID, task.Token, "", stint.StatusCompleted)
					mutex.Lock()
					defer mutex.Unlock()
					took, failed = append(took, time.Since(began)), errors.Join(failed, err)
				})
			}
			group.Wait()
			if failed != nil {
				t.Errorf("ReturnTask beside %d that wait = %.200v", stuck, failed)
			}
			logDistribution(t, "returns beside some that wait", took)
			wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
			for i, done := range waiting {
				_, err := ends(t, "ReturnTask", done)
				wantErr(t, "ReturnTask of "+string(owned[i].ID), err, nil)
				wantState(t, store, stint.StateReady, "after "+owned[i].ID)
			}
		})
	}
}

// Nor does an extension of leases that somebody's transaction holds.
func TestGroupCommit_AnExtensionThatMustWaitHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, stuck := range []int{1, 2, 5} {
		t.Run(fmt.Sprintf("%d stuck", stuck), func(t *testing.T) {
			t.Parallel()
			const free = 30
			store, pool := newStoreAndPool(t, stint.Options{})
			insert(t, store, numbered("t", stuck+free)...)
			var owned []stint.OwnedTask // under a lease each
			for range stuck + free {
				owned = append(owned, ownOne(t, store))
			}
			extend := func(
				ctx context.Context, store *stint.Store, task stint.OwnedTask,
			) (bool, error) {
				kept, err := store.ExtendTasksOwnership(
					ctx, "actor", []stint.OwnedTask{task}, 2*time.Hour)
				return err == nil && kept[0], err
			}
			tx := begin(t, pool)
			for _, task := range owned[:stuck] {
				if kept, err := extend(t.Context(), store.WithTx(tx), task); !kept {
					t.Fatalf("ExtendTasksOwnership = %v, %v", kept, err)
				}
			}
			var waiting []<-chan outcome[bool]
			for _, task := range owned[:stuck] {
				waiting = append(waiting, start(func() (bool, error) {
					return extend(t.Context(), store, task)
				}))
			}
			waitForLocks(t, pool, min(stuck, 2))
			var group sync.WaitGroup
			var kept atomic.Int64
			for _, task := range owned[stuck:] {
				group.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), soon)
					defer cancel()
					if ok, _ := extend(ctx, store, task); ok {
						kept.Add(1)
					}
				})
			}
			group.Wait()
			if kept.Load() != free {
				t.Errorf("%d of %d were extended beside %d that wait", kept.Load(), free, stuck)
			}
			wantErr(t, "Commit", tx.Commit(t.Context()), nil)
			for _, done := range waiting {
				if kept, err := ends(t, "ExtendTasksOwnership", done); !kept {
					t.Errorf("ExtendTasksOwnership = %v, %v", kept, err)
				}
			}
		})
	}
}

// A caller whose own return must wait may leave, and those behind it go on.
func TestGroupCommit_ACallerThatMustWaitMayLeave(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"), after("b", "a"))
	task := ownOne(t, store)
	tx := begin(t, pool)
	lockBlocked(t, tx, "b")
	ctx, cancel := context.WithCancel(t.Context())
	var waiting []<-chan outcome[struct{}]
	for range 3 {
		waiting = append(waiting, start(func() (struct{}, error) {
			return struct{}{}, store.ReturnTask(ctx, "a", task.Token, "", stint.StatusCompleted)
		}))
	}
	waitForLocks(t, pool, 1)
	cancel()
	for _, done := range waiting {
		_, err := ends(t, "ReturnTask", done)
		wantErr(t, "ReturnTask", err, context.Canceled)
	}
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	_, err := inTime(t, "ReturnTask", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, store.ReturnTask(ctx, "a", task.Token, "", stint.StatusCompleted)
	})
	if err != nil && !errors.Is(err, stint.ErrAlreadyReturned) {
		t.Errorf("ReturnTask = %v", err)
	}
	wantState(t, store, stint.StateReady, "b")
}

// cutOneOfEight cuts one request of eight until stop is closed.
func cutOneOfEight(c *cutStore, at pgcut.Instant, stop <-chan struct{}) {
	for {
		trap := c.proxy.Cut(at, func(pgcut.Request) bool { return rand.IntN(8) == 0 })
		for !trap.Sprung() {
			select {
			case <-stop:
				return
			case <-trap.Reached():
			}
		}
	}
}

// returnUntilKnown returns a task until it is known whether it was returned, and reports whether it
// was.
func returnUntilKnown(t *testing.T, store *stint.Store, task stint.OwnedTask) bool {
	t.Helper()
	for {
		err := store.ReturnTask(t.Context(), task.ID, task.Token, "", stint.StatusCompleted)
		if err == nil || errors.Is(err, stint.ErrAlreadyReturned) {
			return true
		}
		if errors.Is(err, stint.ErrInvalidToken) || t.Context().Err() != nil {
			t.Errorf("ReturnTask = %v", err)
			return false
		}
	}
}

// Of those whose connection is cut amid the batch each learns of it, or is given what it asked for;
// and whoever repeats its call finds it done once.
// Proves G285.
func TestGroupCommit_SurviveCutConnections(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const goroutines = 20
	tasks := int64(testrun.Rounds(1500))
	for _, at := range []pgcut.Instant{pgcut.AtRequest, pgcut.AtReply} {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			c := newCutStore(t, stint.Options{})
			insert(t, c.truth, numbered("t", int(tasks))...)
			ctx := t.Context()
			stop := make(chan struct{})
			var cuts sync.WaitGroup
			cuts.Go(func() { cutOneOfEight(c, at, stop) })
			var given, finished atomic.Int64
			var callers sync.WaitGroup
			for range goroutines {
				callers.Go(func() {
					for finished.Load() < tasks && ctx.Err() == nil {
						owned, err := c.OwnTasks(ctx, "actor", 1, []string{"act"}, time.Hour)
						if err != nil {
							continue
						}
						given.Add(int64(len(owned)))
						for _, task := range owned {
							if returnUntilKnown(t, c.Store, task) {
								finished.Add(1)
							}
						}
						if len(owned) == 0 && given.Load() >= tasks {
							return
						}
						if len(owned) == 0 && c.count(t, "SELECT count(*) FROM stint.ready") == 0 {
							return // the rest is owned by callers that were cut off, or unknowingly
						}
					}
				})
			}
			callers.Wait()
			close(stop)
			cuts.Wait()
			done := c.count(t, tasksIn("finished"))
			lost := c.count(t, tasksIn("leased"))
			t.Logf("%d tasks were given, %d returned, %d are owned by nobody who knows",
				given.Load(), finished.Load(), lost)
			if given.Load() != finished.Load() || int64(done) != finished.Load() ||
				int64(done+lost) != tasks {
				t.Errorf("%d given, %d returned, %d finished, %d leased, of %d", given.Load(),
					finished.Load(), done, lost, tasks)
			}
		})
	}
}

//nolint:paralleltest // looks at all goroutines
func TestGroupCommit_EndWithErrClosedWhenTheStoreIsClosed(t *testing.T) {
	testrun.Long(t)
	const goroutines = 100
	pool := testdb.New(t)
	leaks := goleak.IgnoreCurrent()
	spied, _ := spyOn(t, pool, 4)
	store, err := stint.New(spied, stint.Options{})
	wantErr(t, "New", err, nil)
	insert(t, store, numbered("t", 20_000)...)
	var given, returned, unknown atomic.Int64
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			for {
				owned, err := store.OwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour)
				if err != nil {
					if !errors.Is(err, stint.ErrClosed) {
						t.Errorf("OwnTasks = %v", err)
					}
					return
				}
				given.Add(int64(len(owned)))
				for _, task := range owned {
					err := store.ReturnTask(
						t.Context(), task.ID, task.Token, "", stint.StatusCompleted)
					switch {
					case err == nil:
						returned.Add(1)
					case errors.Is(err, stint.ErrClosed):
						unknown.Add(1)
					default:
						t.Errorf("ReturnTask = %v", err)
					}
				}
			}
		})
	}
	eventually(t, soon, "some tasks are returned", func() bool { return returned.Load() > 500 })
	wantErr(t, "Close", store.Close(t.Context()), nil)
	group.Wait()
	// Nothing is owned but what its owner was told of.
	done := yields[int64](t, pool, tasksIn("finished"))
	leased := yields[int64](t, pool, tasksIn("leased"))
	if done != returned.Load() || leased != unknown.Load() || done+leased != given.Load() {
		t.Errorf("%d given, %d returned, %d refused; %d finished, %d leased", given.Load(),
			returned.Load(), unknown.Load(), done, leased)
	}
	_, err = store.ExtendTasksOwnership(
		t.Context(), "actor", []stint.OwnedTask{{ID: "t"}}, time.Hour)
	wantErr(t, "ExtendTasksOwnership of a closed store", err, stint.ErrClosed)
	spied.Close()
	goleak.VerifyNone(t, leaks)
}

// A return that needs a second look, since its lease expired, does not make the others of its
// batch repeat theirs, whoever holds its task meanwhile.
func TestGroupCommit_ALateReturnChangesNoOtherAnswer(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Retention: stint.Retention{
		Completed: stint.KeepNone,
	}})
	insert(t, store, numbered("a ", 40)...)
	late := own(t, store, 1)
	expireLeases(t, pool)
	maintain(t, store)
	tx, err := pool.Begin(t.Context())
	wantErr(t, "Begin", err, nil)
	// Somebody holds the task of the late owner, as one would that is owning it.
	_, err = tx.Exec(t.Context(), "SELECT FROM stint.ready WHERE claim IS NOT NULL FOR UPDATE")
	wantErr(t, "lock", err, nil)
	owned, err := store.OwnTasks(t.Context(), "actor", 39, []string{"act"}, time.Hour)
	if err != nil || len(owned) != 39 {
		t.Fatalf("OwnTasks gave %d tasks, %v", len(owned), err)
	}
	var group calls
	for _, task := range append(late, owned...) {
		group.start(func() error {
			return store.ReturnTask(t.Context(), task.ID, task.Token, "", stint.StatusCompleted)
		})
	}
	for range owned { // all but the late one, which waits
		wantErr(t, "ReturnTask", <-group.done, nil)
	}
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	wantErr(t, "ReturnTask of the late one", <-group.done, nil)
}
