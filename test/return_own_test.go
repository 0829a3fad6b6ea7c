package stint_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestReturnAndOwnTasks_JudgesEachReturn(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, numbered("t", 3)...)
	returns := completed(own(t, store, 3))
	returns[1].Token = stint.Token{}
	returns[2].Code = "odd"
	verdicts, _, err := store.ReturnAndOwnTasks(t.Context(), returns, stint.Want{})
	wantErr(t, "ReturnAndOwnTasks", err, nil)
	wantErr(t, "verdict on a good one", verdicts[0], nil)
	wantTasks(t, "verdict on a bad token", verdicts[1], stint.ErrBusy, returns[1].ID)
	wantErr(t, "verdict on a bad code", verdicts[2], stint.ErrInvalidArgument)
	wantState(t, store, stint.StateCompleted, returns[0].ID)
}

// What must wait for somebody's transaction is not made, nor is what goes with it; by themselves,
// the others are.
func TestReturnAndOwnTasks_DoesNotWait(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 2)...)
	insert(t, store, after("dependent", numbered("t", 2)[0].ID))
	returns := completed(own(t, store, 2))
	tx := begin(t, pool)
	lockBlocked(t, tx, "dependent")
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	verdicts, _, err := store.ReturnAndOwnTasks(ctx, returns, stint.Want{})
	wantErr(t, "ReturnAndOwnTasks", err, nil)
	for i, r := range returns {
		wantTasks(t, "verdict", verdicts[i], stint.ErrBusy, r.ID)
		wantState(t, store, stint.StateInProgress, r.ID)
	}
	verdicts, _, err = store.ReturnAndOwnTasks(ctx, returns[1:], stint.Want{})
	wantErr(t, "ReturnAndOwnTasks of the other", err, nil)
	wantErr(t, "verdict on the other", verdicts[0], nil)
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
}

// A late owner may return, but that takes a second look.
// Proves R8.
func TestReturnAndOwnTasks_LeavesSecondLooksToReturnTasks(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 1)...)
	late := completed(own(t, store, 1))
	expireLeases(t, pool)
	maintain(t, store)
	verdicts, _, err := store.ReturnAndOwnTasks(t.Context(), late, stint.Want{})
	wantErr(t, "ReturnAndOwnTasks", err, nil)
	wantTasks(t, "verdict", verdicts[0], stint.ErrBusy, late[0].ID)
	verdicts, err = store.ReturnTasks(t.Context(), late)
	wantErr(t, "ReturnTasks", err, nil)
	wantErr(t, "verdict", verdicts[0], nil)
}

// In a transaction it would leave the caller's locks with a limit.
// Proves R21.
func TestReturnAndOwnTasks_IsRefusedInATransaction(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 1)...)
	returns := completed(own(t, store, 1))
	_, _, err := store.WithTx(begin(t, pool)).ReturnAndOwnTasks(t.Context(), returns, stint.Want{})
	wantErr(t, "ReturnAndOwnTasks", err, stint.ErrInvalidArgument)
	wantErr(t, "Close", store.Close(t.Context()), nil)
	_, _, err = store.ReturnAndOwnTasks(t.Context(), returns, stint.Want{})
	wantErr(t, "ReturnAndOwnTasks of a closed store", err, stint.ErrClosed)
}

// everyReturn are returns of each kind, of one task each.
func everyReturn(owned []stint.OwnedTask) []stint.Return {
	kinds := []stint.Return{
		{Code: stint.StatusCompleted},
		{Code: stint.StatusCompleted, Result: []byte("r")},
		{Code: stint.StatusAborted, Status: "why"},
		{Code: stint.StatusPending},
		{Code: stint.StatusPending, RetryAfter: time.Hour},
		{Code: stint.StatusPending, Release: true},
		{Code: stint.StatusPending, Release: true, RetryAfter: time.Hour},
	}
	for i := range kinds {
		kinds[i].ID, kinds[i].Token = owned[i].ID, owned[i].Token
	}
	return kinds
}

const everyReturns = 7

// Repeated, it says of each return that it was made, as ReturnTasks does; also where the repetition
// has another return that somebody holds up. Another outcome is no repetition.
// Proves R11.
func TestReturnAndOwnTasks_RepeatedTellsWhatWasDone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, keep := range []time.Duration{0, stint.KeepNone} {
		store, pool := newStoreAndPool(t, stint.Options{
			Maintenance: stint.MaintainNever,
			Retention:   stint.Retention{Completed: keep, Aborted: keep},
		})
		insert(t, store, numbered("t", everyReturns)...)
		insert(t, store, stint.Task{ID: "u", Action: "act", MaxTries: 1},
			stint.Task{ID: "v", Action: "act"}, after("dependent", "v"))
		owned := own(t, store, everyReturns+2)
		returns := append(everyReturn(owned), stint.Return{
			ID: "u", Token: owned[everyReturns].Token, Code: stint.StatusPending,
		})
		verdicts, _, err := store.ReturnAndOwnTasks(t.Context(), returns, stint.Want{})
		wantErr(t, "ReturnAndOwnTasks", errors.Join(append(verdicts, err)...), nil)
		if keep != stint.KeepNone { // the token is another's then
			insert(t, store, after("blocks", "dependent"))
		}
		again, _, err := store.ReturnAndOwnTasks(t.Context(), returns, stint.Want{})
		wantErr(t, "ReturnAndOwnTasks again", err, nil)
		asReturnTasks(t, store, returns, again)

		tx := begin(t, pool)
		lockBlocked(t, tx, "dependent")
		held := append(slices.Clone(returns), completed(owned[everyReturns+1:])...)
		held = append(held, stint.Return{ID: "t000000", Token: owned[0].Token, Code: "odd"})
		again, _, err = store.ReturnAndOwnTasks(t.Context(), held, stint.Want{})
		wantErr(t, "ReturnAndOwnTasks that is held up", err, nil)
		asReturnTasks(t, store, returns, again[:len(returns)])
		wantTasks(t, "verdict on the one held up", again[len(returns)], stint.ErrBusy, "v")
		wantErr(t, "verdict on a bad one", again[len(returns)+1], stint.ErrInvalidArgument)
		wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)

		for i := range returns {
			returns[i].Result, returns[i].Release, returns[i].RetryAfter = nil, false, 0
			if returns[i].Code == stint.StatusCompleted {
				returns[i].Code = stint.StatusAborted
			} else {
				returns[i].Code = stint.StatusCompleted
			}
		}
		again, _, err = store.ReturnAndOwnTasks(t.Context(), returns, stint.Want{})
		wantErr(t, "ReturnAndOwnTasks with other outcomes", err, nil)
		for i, verdict := range again {
			if verdict == nil || errors.Is(verdict, stint.ErrAlreadyReturned) {
				t.Errorf("verdict on another outcome of %q = %v", returns[i].ID, verdict)
			}
		}
	}
}

// asReturnTasks checks that verdicts on repeated returns are those of ReturnTasks.
func asReturnTasks(
	t *testing.T, store *stint.Store, returns []stint.Return, verdicts []error,
) {
	t.Helper()
	want, err := store.ReturnTasks(t.Context(), returns)
	wantErr(t, "ReturnTasks", err, nil)
	for i, verdict := range verdicts {
		for _, kind := range []error{
			stint.ErrAlreadyReturned, stint.ErrInvalidToken, stint.ErrTaskNotFound, stint.ErrBusy,
		} {
			if errors.Is(verdict, kind) != errors.Is(want[i], kind) {
				t.Errorf("verdict on %+v = %v, want %v", returns[i], verdict, want[i])
			}
		}
	}
}

// wants is what a caller wants to own of the action of the tests.
func wants(n int) stint.Want {
	return stint.Want{Actor: "actor", MaxTasks: n, Actions: []string{"act"}, Lease: time.Hour}
}

// returnAndOwn returns tasks as completed, and owns up to n in their place.
func returnAndOwn(
	t *testing.T, store *stint.Store, owned []stint.OwnedTask, n int,
) []stint.OwnedTask {
	t.Helper()
	verdicts, next, err := store.ReturnAndOwnTasks(t.Context(), completed(owned), wants(n))
	wantErr(t, "ReturnAndOwnTasks", errors.Join(append(verdicts, err)...), nil)
	return next
}

// What the returns make ready, or make room for, is fetched by the same call.
// Proves G204.
func TestReturnAndOwnTasks_HandsOutWhatTheReturnsMakeReady(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, limits := range map[string]stint.Limits{
		"no limits": {}, "a limit": {Concurrency: 1}, "a limit per key": {ConcurrencyPerKey: 1},
		"turns": {ConcurrencyPerKey: 1, Fair: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := newLimitedStore(t, limits)
			insert(t, store, withKey("k", "a")...)
			dependent := withKey("k", "b")[0]
			dependent.After = []stint.TaskID{"a"}
			insert(t, store, dependent)
			next := returnAndOwn(t, store, wantFetch(t, store, 1, "a"), 5)
			if got := idsOf(next); !slices.Equal(got, []stint.TaskID{"b"}) {
				t.Fatalf("got %v, want the dependent", got)
			}
			if next[0].Completed != 1 {
				t.Errorf("got %+v, want it to know of its predecessor", next[0])
			}
			if next = returnAndOwn(t, store, next, 5); len(next) != 0 {
				t.Errorf("got %v, though nothing is left", idsOf(next))
			}
			wantState(t, store, stint.StateCompleted, "a", "b")
		})
	}
}

// Returns that cannot be made keep nothing from being fetched.
// Proves G204.
func TestReturnAndOwnTasks_OwnsWhateverBecomesOfTheReturns(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 3)...)
	insert(t, store, after("dependent", numbered("t", 1)[0].ID))
	owned := own(t, store, 3)
	insert(t, store, numbered("u", 3)...)
	tx := begin(t, pool)
	lockBlocked(t, tx, "dependent")
	verdicts, next, err := store.ReturnAndOwnTasks(t.Context(), completed(owned[:2]), wants(1))
	wantErr(t, "ReturnAndOwnTasks that is held up", err, nil)
	wantTasks(t, "verdict", verdicts[0], stint.ErrBusy, owned[0].ID)
	if len(next) != 1 || next[0].ID != "u000000" {
		t.Errorf("held up, it fetched %v", idsOf(next))
	}
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	returns := completed(owned)
	returns[0].Token, returns[1].Code = stint.Token{}, "odd"
	verdicts, next, err = store.ReturnAndOwnTasks(t.Context(), returns, wants(1))
	wantErr(t, "ReturnAndOwnTasks", err, nil)
	wantTasks(t, "verdict on a bad token", verdicts[0], stint.ErrBusy, returns[0].ID)
	wantErr(t, "verdict on a bad code", verdicts[1], stint.ErrInvalidArgument)
	wantErr(t, "verdict on a good one", verdicts[2], nil)
	if len(next) != 1 || next[0].ID != "u000001" {
		t.Errorf("it fetched %v", idsOf(next))
	}
	verdicts, next, err = store.ReturnAndOwnTasks(t.Context(), returns[1:2], wants(1))
	wantErr(t, "ReturnAndOwnTasks of a bad one", err, nil)
	wantErr(t, "verdict on it", verdicts[0], stint.ErrInvalidArgument)
	if len(next) != 1 {
		t.Errorf("it fetched %v", idsOf(next))
	}
	for _, want := range []stint.Want{{MaxTasks: -1}, {MaxTasks: 1}, {MaxTasks: 1, Actor: "a"}} {
		_, _, err := store.ReturnAndOwnTasks(t.Context(), completed(owned[1:]), want)
		wantErr(t, "ReturnAndOwnTasks with a bad want", err, stint.ErrInvalidArgument)
	}
	wantState(t, store, stint.StateInProgress, owned[1].ID)
}

// However the answer gets lost, the caller is given one batch, and the returns are made once.
// Proves G204, G285.
func TestReturnAndOwnTasks_RecoversWhatGotLost(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, pair := range testrun.Third(testrun.Pairs(
		fetchKinds(), slices.Sorted(maps.Keys(lostFetches("")))), 0) {
		kind, name := pair.A, pair.B
		t.Run(kind.statement+" "+name, func(t *testing.T) {
			t.Parallel()
			c := newCutStore(t, stint.Options{})
			kind.impose(t, c)
			insert(t, c.truth, withKey("k", "r0", "r1")...)
			returned := own(t, c.Store, 2)
			insert(t, c.truth, withKey("k", "t0", "t1", "t2")...)
			var owned []stint.OwnedTask
			var verdicts []error
			err := lostFetches(kind.statement)[name](t, c, func() (err error) {
				returns := completed(returned)
				verdicts, owned, err = c.ReturnAndOwnTasks(t.Context(), returns, wants(2))
				return err
			})
			wantErr(t, "ReturnAndOwnTasks", err, nil)
			for i, verdict := range verdicts {
				if verdict != nil && !errors.Is(verdict, stint.ErrAlreadyReturned) {
					t.Errorf("verdict on %s = %v", returned[i].ID, verdict)
				}
			}
			wantState(t, c.truth, stint.StateCompleted, "r0", "r1")
			if got := idsOf(owned); !slices.Equal(got, []stint.TaskID{"t0", "t1"}) {
				t.Errorf("it gave %v", got)
			}
			if n := c.count(t, tasksIn("leased")); n != len(owned) {
				t.Errorf("%d tasks are owned, want %d", n, len(owned))
			}
			complete(t, c.truth, owned...)
		})
	}
}

// Callers that share a call get their own verdicts and tasks.
// Proves G204.
func TestReturnAndOwnTasks_ServesManyCallers(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const callers, tasks = 16, 400
	store := newStore(t)
	insert(t, store, numbered("t", tasks)...)
	var performed sync.Map
	work := func(caller int) error {
		var owned []stint.OwnedTask
		for {
			returns := completed(owned)
			if len(returns) > 0 { // one that has to be refused goes along
				returns = append(returns, stint.Return{ID: "none", Code: stint.StatusCompleted})
			}
			verdicts, next, err := store.ReturnAndOwnTasks(t.Context(), returns, wants(1+caller%3))
			if err != nil {
				return err
			}
			for i := range owned {
				if verdicts[i] != nil {
					return verdicts[i]
				}
			}
			if n := len(owned); n > 0 && !errors.Is(verdicts[n], stint.ErrInvalidToken) {
				return fmt.Errorf("verdict on no task: %w", verdicts[n])
			}
			if len(next) == 0 {
				return nil
			}
			for _, task := range next {
				if _, twice := performed.LoadOrStore(task.ID, true); twice {
					return fmt.Errorf("%s was fetched twice", task.ID)
				}
			}
			owned = next
		}
	}
	var all errgroup.Group
	for caller := range callers {
		all.Go(func() error { return work(caller) })
	}
	wantErr(t, "the callers", all.Wait(), nil)
	page, err := store.ListTasks(t.Context(), stint.Filter{
		States: []stint.State{stint.StateCompleted}, Limit: tasks + 1,
	})
	wantErr(t, "ListTasks", err, nil)
	if len(page.Tasks) != tasks {
		t.Errorf("%d tasks are completed, want %d", len(page.Tasks), tasks)
	}
}
