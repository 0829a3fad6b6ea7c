package stint_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// hearLosses makes sure that a store hears of lost tasks: it then watches one that it owns.
func hearLosses(t *testing.T, store *stint.Store, pool *pgxpool.Pool) {
	t.Helper()
	insert(t, store, stint.Task{ID: "heard", Action: "heard"})
	owned, err := store.OwnTasks(t.Context(), "actor", 1, []string{"heard"}, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
	_, done := store.OwnershipContext(t.Context(), owned[0])
	t.Cleanup(done)
	eventually(t, soon, "the session listens for losses", func() bool {
		return listeners(t, pool, "lost") > 0
	})
}

// With a poll interval of an hour, only a notification ends it.
// Proves G92.
func TestOwnershipContext_EndsWithinMillisecondsWhenTheTaskIsAborted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const aborts = 20
	store, pool := newStoreAndPool(t, stint.Options{PollInterval: pollNever})
	another := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	hearLosses(t, store, pool)
	insert(t, store, numbered("t", aborts)...)
	var took []time.Duration
	for range aborts {
		task := ownOne(t, store)
		ctx, done := store.OwnershipContext(t.Context(), task)
		wantOwning(ctx, t, "at first")
		began := time.Now()
		wantErr(t, "AbortTasks",
			errOf(another.AbortTasks(t.Context(), []stint.TaskID{task.ID}, "")), nil)
		wantLoss(ctx, t, task.ID)
		took = append(took, time.Since(began))
		done()
	}
	logDistribution(t, "abort to the end of the context", took)
}

// The deadline of the task itself takes it from its owner.
// Proves R6.
func TestOwnershipContext_EndsWhenTheDeadlineOfTheTaskPasses(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{PollInterval: 10 * time.Millisecond})
	insert(t, store, stint.Task{ID: "a", Action: "act", Deadline: time.Now().Add(time.Hour)})
	ctx, done := store.OwnershipContext(t.Context(), ownOne(t, store))
	defer done()
	passDeadlines(t, pool)
	wantOwning(ctx, t, "before maintenance")
	maintain(t, store)
	wantState(t, store, stint.StateAborted, "a")
	wantLoss(ctx, t, "a")
}

// An expiry without tries left takes the task from its owner, though nobody else is given it.
// Proves R13.
func TestOwnershipContext_EndsWhenALeaseExpiresWithoutTriesLeft(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{PollInterval: 10 * time.Millisecond})
	insert(t, store, stint.Task{ID: "a", Action: "act", MaxTries: 1})
	ctx, done := store.OwnershipContext(t.Context(), ownOne(t, store))
	defer done()
	expireLeases(t, pool)
	maintain(t, store)
	wantState(t, store, stint.StateAborted, "a")
	wantLoss(ctx, t, "a")
}

// A lease that expired is no loss, since the task can still be returned (R8); that somebody else
// was given the task is one.
// Proves G92.
func TestOwnershipContext_EndsWhenSomebodyElseIsGivenTheTaskAndNotBefore(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	spied, spy := spyOn(t, pool, 2)
	store := openStore(t, spied, stint.Options{
		Maintenance: stint.MaintainNever, PollInterval: 10 * time.Millisecond,
	})
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	task := ownOne(t, store)
	ctx, done := store.OwnershipContext(t.Context(), task)
	defer done()
	expireLeases(t, pool)
	maintain(t, store)
	spy.sees(t, "still_owned", spy.count("still_owned")+3)
	wantOwning(ctx, t, "after the expiry")
	wantErr(t, "SetStatus", store.SetStatus(t.Context(), task, "late", 0.5), nil) // revives it
	expireLeases(t, pool)
	spy.sees(t, "still_owned", spy.count("still_owned")+3)
	wantOwning(ctx, t, "after the second expiry")
	ownOne(t, store)
	wantLoss(ctx, t, "a")
}

// Neither notified nor polling, the call to extend finds the loss.
func TestOwnershipContext_EndsWhenAnExtensionIsRefused(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{PollOnly: true, PollInterval: pollNever})
	insert(t, store, numbered("t", 2)...)
	owned := own(t, store, 2)
	lost, done := store.OwnershipContext(t.Context(), owned[0])
	defer done()
	kept, keptDone := store.OwnershipContext(t.Context(), owned[1])
	defer keptDone()
	expireLeases(t, pool)
	ownOne(t, store)
	wantOwning(lost, t, "before the extension")
	extended, err := store.ExtendTasksOwnership(t.Context(), "actor", owned, time.Hour)
	if err != nil || extended[0] || !extended[1] {
		t.Fatalf("ExtendTasksOwnership = %v, %v, want one refused", extended, err)
	}
	select {
	case <-lost.Done(): // at once
		wantTasks(t, "the cause", context.Cause(lost), stint.ErrInvalidToken, owned[0].ID)
	default:
		t.Error("the refused extension has not ended the context")
	}
	wantOwning(kept, t, "of the other task")
}

// What cancel has ended stays ended for that cause, though the task is returned or lost afterwards.
func TestOwnershipContext_IsNotLostByTheOwnersReturnAfterCancel(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{PollInterval: 10 * time.Millisecond})
	hearLosses(t, store, pool)
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	task := ownOne(t, store)
	first, doneFirst := store.OwnershipContext(t.Context(), task)
	second, doneSecond := store.OwnershipContext(t.Context(), task)
	doneFirst()
	doneFirst() // any number of times
	wantOwning(second, t, "of the second caller")
	doneSecond()
	returnWith(t, store, task, stint.Return{Code: stint.StatusCompleted})
	for _, ctx := range []context.Context{first, second} {
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) ||
			errors.Is(cause, stint.ErrInvalidToken) {
			t.Errorf("the cause is %v, want %v", cause, context.Canceled)
		}
	}
}

func TestOwnershipContext_EndsWithTheContextItIsMadeFrom(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	parent, cancel := context.WithCancelCause(t.Context())
	ctx, done := store.OwnershipContext(parent, ownOne(t, store))
	defer done()
	cause := errors.New("the parent's")
	cancel(cause)
	<-ctx.Done()
	wantErr(t, "the cause", context.Cause(ctx), cause)
}

func TestOwnershipContext_EndsWhenTheStoreIsClosed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, pollOnly := range []bool{false, true} {
		store, _ := newStoreAndPool(t, stint.Options{PollInterval: pollNever, PollOnly: pollOnly})
		insert(t, store, numbered("t", 2)...)
		owned := own(t, store, 2)
		ctx, done := store.OwnershipContext(t.Context(), owned[0])
		defer done()
		wantErr(t, "Close", store.Close(t.Context()), nil)
		select {
		case <-ctx.Done():
			wantErr(t, "the cause", context.Cause(ctx), stint.ErrClosed)
		default:
			t.Error("the closed store has not ended the context")
		}
		late, lateDone := store.OwnershipContext(t.Context(), owned[1])
		defer lateDone()
		select {
		case <-late.Done():
			wantErr(t, "the cause", context.Cause(late), stint.ErrClosed)
		default:
			t.Error("a context from a closed store has not ended")
		}
	}
}

//nolint:paralleltest // looks at all goroutines
func TestOwnershipContext_LeavesNothingBehind(t *testing.T) {
	const tasks = 1000
	pool := testdb.New(t)
	spied, spy := spyOn(t, pool, 2)
	store := openStore(t, spied, stint.Options{
		PollInterval: 5 * time.Millisecond, PollOnly: true, Maintenance: stint.MaintainNever,
	})
	insert(t, store, numbered("t", tasks)...)
	owned := own(t, store, tasks)
	leaks := goleak.IgnoreCurrent()
	var watching []context.CancelFunc
	for _, task := range owned {
		ctx, done := store.OwnershipContext(t.Context(), task)
		wantOwning(ctx, t, "at first")
		watching = append(watching, done)
	}
	spy.sees(t, "still_owned", 2)
	for _, done := range watching {
		done()
	}
	spied.Close()
	goleak.VerifyNone(t, leaks) // though the store is not closed
}

// A store of the caller's transaction watches outside it, as long as the task is owned.
func TestOwnershipContext_OfAStoreInATransactionOutlivesIt(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{PollInterval: 10 * time.Millisecond})
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	task := ownOne(t, store)
	tx, err := pool.Begin(t.Context())
	wantErr(t, "Begin", err, nil)
	ctx, done := store.WithTx(tx).OwnershipContext(t.Context(), task)
	defer done()
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	wantErr(t, "AbortTasks",
		errOf(store.AbortTasks(t.Context(), idsOf([]stint.OwnedTask{task}), "")), nil)
	wantLoss(ctx, t, "a")
}

// An ownedSet is what an owner performs, and what it was told of that.
type ownedSet struct {
	owned []stint.OwnedTask
	lost  chan lostTask
}

type lostTask struct {
	token stint.Token
	cause error
}

func watch(t *testing.T, store *stint.Store, owned ...stint.OwnedTask) (set ownedSet, stop func()) {
	t.Helper()
	set.lost = make(chan lostTask, 100)
	set.owned = owned
	stop = store.WatchOwnership(
		func() []stint.OwnedTask { return set.owned },
		func(task stint.OwnedTask, cause error) {
			select {
			case set.lost <- lostTask{task.Token, cause}:
			default: // it is told again and again
			}
		})
	return set, stop
}

func wantTold(t *testing.T, set ownedSet, token stint.Token, cause error) {
	t.Helper()
	select {
	case got := <-set.lost:
		if got.token != token {
			t.Errorf("another task was lost")
		}
		wantErr(t, "the cause", got.cause, cause)
	case <-time.After(soon):
		t.Fatalf("the loss was not told within %v", soon)
	}
}

// An owner that takes long to say what it performs holds up nobody who waits for other news.
func TestWatchOwnership_HoldsUpNoNotifications(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	h := newHeardStore(t, stint.Options{})
	hearLosses(t, h.Store, h.pool)
	insert(t, h.Store, after("a"), after("b"))
	owned := own(t, h.Store, 1)
	var thinking sync.Mutex
	lost := make(chan error, 1)
	defer h.WatchOwnership(func() []stint.OwnedTask {
		thinking.Lock()
		defer thinking.Unlock()
		return owned
	}, func(_ stint.OwnedTask, cause error) {
		select {
		case lost <- cause:
		default: // it is told again and again
		}
	})()
	ready := own(t, h.Store, 1)
	awaiting := h.await(t.Context(), t, 1)
	thinking.Lock()
	wantErr(t, "AbortTasks", errOf(h.AbortTasks(t.Context(), idsOf(owned), "")), nil)
	returnWith(t, h.Store, ready[0], stint.Return{Code: stint.StatusPending})
	wantOwned(t, awaiting, ready[0].ID)
	thinking.Unlock()
	select {
	case cause := <-lost:
		wantErr(t, "the cause", cause, stint.ErrInvalidToken)
	case <-time.After(soon):
		t.Fatal("the loss was not told")
	}
}

// With a poll interval of an hour, only a notification tells.
func TestWatchOwnership_TellsOfAnAbortAtOnce(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{PollInterval: pollNever})
	another := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	hearLosses(t, store, pool)
	insert(t, store, numbered("t", 3)...)
	owned := own(t, store, 3)
	set, stop := watch(t, store, owned...)
	defer stop()
	wantErr(t, "AbortTasks",
		errOf(another.AbortTasks(t.Context(), []stint.TaskID{owned[1].ID}, "")), nil)
	wantTold(t, set, owned[1].Token, stint.ErrInvalidToken)
}

func TestWatchOwnership_LooksForItself(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{
		PollOnly: true, PollInterval: 10 * time.Millisecond,
	})
	insert(t, store, numbered("t", 2)...)
	owned := own(t, store, 2)
	set, stop := watch(t, store, owned...)
	expireLeases(t, pool)
	other := ownOne(t, store)
	lost := owned[0]
	if other.ID == owned[1].ID {
		lost = owned[1]
	}
	wantTold(t, set, lost.Token, stint.ErrInvalidToken)
	stop()
	stop() // any number of times
}

func TestWatchOwnership_TellsThatTheStoreIsClosed(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t, stint.Options{PollInterval: pollNever})
	insert(t, store, numbered("t", 2)...)
	owned := own(t, store, 2)
	quiet, stop := watch(t, store, owned[0])
	stop()
	set, stop := watch(t, store, owned[1])
	defer stop()
	wantErr(t, "Close", store.Close(t.Context()), nil)
	wantTold(t, set, owned[1].Token, stint.ErrClosed)
	if len(quiet.lost) > 0 {
		t.Error("one was told after it had stopped watching")
	}
}

// What the functions of one watcher do is no matter of the store's, nor of other watchers.
// Proves G110.
func TestWatchOwnership_SurvivesItsFunctions(t *testing.T) {
	t.Parallel()
	store, _ := newStoreAndPool(t, stint.Options{
		PollOnly: true, PollInterval: 10 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	insert(t, store, numbered("t", 1)...)
	owned := own(t, store, 1)
	for _, fail := range []func(){func() { panic("ouch") }, runtime.Goexit} {
		asked, told := make(chan bool, 1), make(chan bool, 1)
		signal := func(to chan bool) {
			select {
			case to <- true:
			default:
			}
			fail()
		}
		defer store.WatchOwnership(func() []stint.OwnedTask {
			signal(asked)
			return owned
		}, func(stint.OwnedTask, error) {})()
		defer store.WatchOwnership(func() []stint.OwnedTask { return owned },
			func(stint.OwnedTask, error) { signal(told) })()
		wantErr(t, "AbortTasks",
			errOf(store.AbortTasks(t.Context(), []stint.TaskID{owned[0].ID}, "")), nil)
		for _, from := range []chan bool{asked, told} {
			select {
			case <-from:
			case <-time.After(soon):
				t.Fatal("a function was not called")
			}
		}
	}
	set, stop := watch(t, store, owned...)
	defer stop()
	wantTold(t, set, owned[0].Token, stint.ErrInvalidToken)
}
