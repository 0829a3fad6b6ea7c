package stint_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testrun"
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
// Proves G47, R11.
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
