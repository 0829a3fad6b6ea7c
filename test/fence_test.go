package stint_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// drawn draws a number, which is to be greater than before.
func drawn(t *testing.T, store *stint.Store, owned stint.OwnedTask, before int64) int64 {
	t.Helper()
	fence, err := store.Fence(t.Context(), owned)
	if err != nil || fence <= before {
		t.Fatalf("Fence = %d, %v, want more than %d", fence, err, before)
	}
	return fence
}

// However a task passes from one owner to the next, the next one draws a greater number, and the
// one before none.
//
// Proves G329.
func TestFence_RisesWithEachHandOut(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"), after("b")) // in a span
	gives := func(r stint.Return) func(stint.OwnedTask) {
		return func(owned stint.OwnedTask) { returnWith(t, store, owned, r) }
	}
	pending := stint.StatusPending
	first := own(t, store, 2)
	before := drawn(t, store, first[0], 1<<50) // it begins at the time
	last := first[0]
	if before >= 1<<53 {
		t.Errorf("%d is more than a number of JSON holds", before)
	}
	before = drawn(t, store, last, before)
	for name, passes := range map[string]func(stint.OwnedTask){
		"expires": func(stint.OwnedTask) {
			expireLeases(t, pool)
			maintain(t, store)
		},
		"fails":    gives(stint.Return{Code: pending}),
		"released": gives(stint.Return{Code: pending, Release: true}),
		"snoozed": func(owned stint.OwnedTask) {
			gives(stint.Return{Code: pending, Release: true, RetryAfter: time.Hour})(owned)
			makeDue(t, pool)
			maintain(t, store)
		},
		"retried": func(owned stint.OwnedTask) {
			gives(stint.Return{Code: stint.StatusAborted})(owned)
			retry(t, store, owned.ID)
		},
		"inserted anew": func(owned stint.OwnedTask) {
			gives(stint.Return{Code: stint.StatusCompleted})(owned)
			_, err := store.DeleteTasks(t.Context(), []stint.TaskID{owned.ID})
			wantErr(t, "DeleteTasks", err, nil)
			insert(t, store, after(owned.ID))
		},
	} {
		passes(last)
		var next stint.OwnedTask
		for _, owned := range own(t, store, 2) {
			if owned.ID == last.ID {
				next = owned
			}
		}
		if next.ID == "" {
			t.Fatalf("%s: nobody was given the task", name)
		}
		before = drawn(t, store, next, before)
		_, err := store.Fence(t.Context(), last)
		wantTasks(t, name+": Fence of the owner before", err, stint.ErrInvalidToken, last.ID)
		last = next
	}
}

// A late owner that is first to come back is the owner as before, and its number is refused by
// nobody. In a transaction, nobody is given the task before that ends.
//
// Proves G329.
func TestFence_OfLateOwnerAndInTransaction(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"))
	owned := ownOne(t, store)
	before := drawn(t, store, owned, 0)
	expireLeases(t, pool)
	maintain(t, store)
	before = drawn(t, store, owned, before)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		before = drawn(t, store.WithTx(tx), owned, before)
		expireLeases(t, pool)
		maintain(t, store)
		wantState(t, store, stint.StateInProgress, "a")
		return nil
	})
	wantErr(t, "commit", err, nil)
	maintain(t, store)
	drawn(t, store, ownOne(t, store), before)
}

// A draw waits for a transaction in which the task passes to the next owner, who draws there. It
// would draw a greater number than that one otherwise.
//
// Proves G329.
func TestFence_WaitsForATransactionThatPassesTheTaskOn(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"))
	owned := ownOne(t, store)
	before := drawn(t, store, owned, 0)
	late := make(chan error, 1)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		within := store.WithTx(tx)
		returnWith(t, within, owned, stint.Return{Code: stint.StatusPending, Release: true})
		drawn(t, within, ownOne(t, within), before)
		go func() { late <- errOf(store.Fence(t.Context(), owned)) }()
		awaitWaiting(t, pool, 1, late)
		return nil
	})
	wantErr(t, "commit", err, nil)
	wantTasks(t, "Fence of the owner before", <-late, stint.ErrInvalidToken, "a")
}

// Owners that pass a task on as fast as they can draw numbers in the order in which they had it.
//
// Proves G329.
func TestFence_IsInOrderOfOwners(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"))
	owners, draws := 4, testrun.Rounds(800)
	var group sync.WaitGroup
	var mutex sync.Mutex
	var order []int64
	for range owners {
		group.Go(func() { passOn(t, pool, draws, &mutex, &order) })
	}
	group.Wait()
	for i := range order[1:] {
		if order[i+1] <= order[i] {
			t.Fatalf("owner %d drew %d after %d", i+1, order[i+1], order[i])
		}
	}
}

// passOn owns the task, draws, notes the number, and gives the task back, until there are enough.
func passOn(t *testing.T, pool *pgxpool.Pool, draws int, mutex *sync.Mutex, order *[]int64) {
	t.Helper()
	store := openStore(t, pool, stint.Options{})
	for {
		owned, err := store.OwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour)
		for _, task := range owned {
			fence, drawErr := store.Fence(t.Context(), task)
			mutex.Lock()
			*order = append(*order, fence)
			mutex.Unlock()
			verdicts, returnErr := store.ReturnTasks(t.Context(), []stint.Return{{
				ID: task.ID, Token: task.Token, Code: stint.StatusPending, Release: true,
			}})
			err = errors.Join(append(verdicts, err, drawErr, returnErr)...)
		}
		mutex.Lock()
		enough := len(*order) >= draws
		mutex.Unlock()
		if err != nil || enough {
			if err != nil {
				t.Errorf("passing the task on: %v", err)
			}
			return
		}
	}
}
