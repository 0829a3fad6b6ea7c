package stint_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestDebounce_MakesOneTaskOfCallsAtOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	for _, states := range []string{"scheduled", "in progress"} {
		var calling []func() error
		for range 10 {
			calling = append(calling, func() error {
				return store.Debounce(t.Context(), debounced(""), time.Hour, time.Hour)
			})
		}
		for _, err := range atOnce(calling...) {
			wantErr(t, "Debounce", err, nil)
		}
		if states == "scheduled" {
			wantBodies(t, store, pool, "a scheduled ")
			makeDue(t, pool)
			ownOne(t, store)
		}
	}
	wantBodies(t, store, pool, "a in-progress try 1 , a+ blocked ")
}

// The second call began when there was no follow-up yet, and goes on when the task has ended.
// Proves G9.
func TestDebounce_SeesAFollowUpThatWasInsertedMeanwhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, debounced("0"))
	running := ownOne(t, store)
	tx := begin(t, pool)
	debounce(t, store.WithTx(tx), "1")
	returning := start(func() (any, error) {
		return nil, store.ReturnTask(t.Context(), "a", running.Token, "", stint.StatusCompleted)
	})
	waitForLocks(t, pool, 1)
	calling := start(func() (any, error) {
		return nil, store.Debounce(t.Context(), debounced("2"), time.Hour, 3*time.Hour)
	})
	waitForLocks(t, pool, 2)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	_, err := ends(t, "ReturnTask", returning)
	wantErr(t, "ReturnTask", err, nil)
	_, err = ends(t, "Debounce", calling)
	wantErr(t, "Debounce", err, nil)
	infos, err := listTasks(t.Context(), store, stint.Filter{})
	wantErr(t, "ListTasks", err, nil)
	pending := 0
	for _, info := range infos {
		if info.State != stint.StateCompleted {
			pending++
		}
	}
	if pending != 1 {
		t.Errorf("%d tasks wait to start: %v", pending, infos)
	}
	makeDue(t, pool)
	if got := ownBodies(t, store); len(got) != 1 || got[0] != "2" {
		t.Errorf("OwnTasks = %v", got)
	}
}

// The document is changed, and then its index updated, by several at once, while workers perform:
// two never do at once, and the index is that of the newest document in the end.
// Proves G9.
func TestDebounce_NeverLosesTheNewestNorRunsTwoAtOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	var document, index, running atomic.Int64
	perform := func(ctx context.Context) error {
		owned, err := store.OwnTasks(ctx, "actor", 1, []string{"act"}, time.Hour)
		for _, task := range owned {
			if running.Add(1) > 1 {
				return fmt.Errorf("two tasks are in progress: %s", task.ID)
			}
			index.Store(document.Load())
			running.Add(-1) // ahead of the return, behind which the next may begin
			err := store.ReturnTask(ctx, task.ID, task.Token, "", stint.StatusCompleted)
			if err != nil {
				return err
			}
		}
		return err
	}
	var group, callers sync.WaitGroup
	over := make(chan struct{})
	for range 3 {
		group.Go(func() {
			for done := false; !done; {
				select {
				case <-over:
					done = true
				default:
				}
				if err := perform(t.Context()); err != nil {
					t.Errorf("perform: %v", err)
				}
			}
		})
	}
	for range 3 {
		callers.Go(func() {
			for range testrun.Rounds(300) {
				document.Add(1)
				err := store.Debounce(t.Context(), debounced(""), time.Microsecond, time.Hour)
				wantErr(t, "Debounce", err, nil)
			}
		})
	}
	callers.Wait()
	close(over)
	group.Wait()
	for range 2 { // the last, and one behind it
		makeDue(t, pool)
		wantErr(t, "perform", perform(t.Context()), nil)
	}
	if index.Load() != document.Load() {
		t.Errorf("the index is of version %d of %d", index.Load(), document.Load())
	}
}

// What one caller calls for is performed in the order of the calls, and the last of it is.
// Proves G9.
func TestDebounce_PerformsTheCallsOfOneCallerInOrder(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	calls := testrun.Rounds(500)
	var bodies []int
	perform := func() int {
		owned, err := store.OwnTasks(t.Context(), "actor", 5, []string{"act"}, time.Hour)
		wantErr(t, "OwnTasks", err, nil)
		for _, task := range owned {
			body, err := strconv.Atoi(string(task.Body))
			wantErr(t, "Atoi", err, nil)
			bodies = append(bodies, body)
			complete(t, store, task)
		}
		return len(owned)
	}
	done := start(func() (any, error) {
		for call := range calls {
			err := store.Debounce(
				t.Context(), debounced(strconv.Itoa(call)), time.Microsecond, time.Hour)
			if err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	for len(done) == 0 {
		perform()
	}
	_, err := ends(t, "Debounce", done)
	wantErr(t, "Debounce", err, nil)
	for some := true; some; some = perform() > 0 {
		makeDue(t, pool)
	}
	for i := 1; i < len(bodies); i++ {
		if bodies[i] <= bodies[i-1] {
			t.Errorf("%d was performed after %d", bodies[i], bodies[i-1])
		}
	}
	if len(bodies) == 0 || bodies[len(bodies)-1] != calls-1 {
		t.Errorf("the last performed are not of the last call: %v", bodies)
	}
}

// Calls that meet take turns, so that the second looks once, at what the first has left.
// Proves G9.
func TestDebounce_CallsThatMeetTakeTurns(t *testing.T) {
	t.Parallel()
	_, pool := newStoreAndPool(t, stint.Options{})
	spied, spy := spyOn(t, pool, 4)
	store := openStore(t, spied, stint.Options{Maintenance: stint.MaintainNever})
	tx := begin(t, pool)
	debounce(t, store.WithTx(tx), "1")
	calling := start(func() (any, error) {
		return nil, store.Debounce(t.Context(), debounced("2"), time.Hour, 3*time.Hour)
	})
	waitForLocks(t, pool, 1)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	_, err := ends(t, "Debounce", calling)
	wantErr(t, "Debounce", err, nil)
	if looks := spy.count("hold_follow_up"); looks != 1 {
		t.Errorf("the second call has looked %d times", looks)
	}
	wantBodies(t, store, pool, "a scheduled 2")
}

// The task in progress ends while its follow-up gets another definition, which says when it starts.
// Proves G9.
func TestDebounce_KeepsAFollowUpWaitingUntilItIsRedefined(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, debounced("0"))
	running := ownOne(t, store)
	debounce(t, store, "1")
	done := make(chan error, 1)
	racing := interpose(t, pool, "drop_definitions", func() {
		go func() {
			done <- store.ReturnTask(t.Context(), "a", running.Token, "", stint.StatusCompleted)
		}()
		awaitWaiting(t, pool, 1, done)
	})
	err := racing.Debounce(t.Context(), debounced("2"), 2*time.Hour, 3*time.Hour)
	wantErr(t, "Debounce", err, nil)
	wantErr(t, "ReturnTask", <-done, nil)
	wantTime(t, "NotBefore", info(t, store, "a+").NotBefore, 2*time.Hour)
	wantBodies(t, store, pool, "a completed try 1 0, a+ scheduled 2")
}

// A deadline that has passed ends the task that had it, not one that took its place since the look.
// Proves G9.
func TestDebounce_KeepsTheNewestTaskWhenTheDeadlineOfTheOneBeforePasses(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, debounced("0"))
	ownOne(t, store)
	follower := debounced("1")
	follower.Deadline = time.Now().Add(-time.Second)
	wantErr(t, "Debounce", store.Debounce(t.Context(), follower, time.Hour, 3*time.Hour), nil)
	args := yields[string](t, pool,
		"SELECT '1, 1, array[' || key || '], 3' FROM stint.tasks WHERE id = 'a+'")
	pausedAt(t, pool, "end_due_tasks", "named", args, func() { debounce(t, store, "2") })
	maintain(t, store)
	wantBodies(t, store, pool, "a in-progress try 1 0, a+ blocked 2")
}
