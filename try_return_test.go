package stint_test

import (
	"context"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testrun"
)

func TestTryReturnTasks_JudgesEachReturn(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, numbered("t", 3)...)
	returns := completed(own(t, store, 3))
	returns[1].Token = stint.Token{}
	returns[2].Code = "odd"
	verdicts, err := store.TryReturnTasks(t.Context(), returns)
	wantErr(t, "TryReturnTasks", err, nil)
	wantErr(t, "verdict on a good one", verdicts[0], nil)
	wantTasks(t, "verdict on a bad token", verdicts[1], stint.ErrBusy, returns[1].ID)
	wantErr(t, "verdict on a bad code", verdicts[2], stint.ErrInvalidArgument)
	wantState(t, store, stint.StateCompleted, returns[0].ID)
}

// What must wait for somebody's transaction is not made, nor is what goes with it; by themselves,
// the others are.
func TestTryReturnTasks_DoesNotWait(t *testing.T) {
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
	verdicts, err := store.TryReturnTasks(ctx, returns)
	wantErr(t, "TryReturnTasks", err, nil)
	for i, r := range returns {
		wantTasks(t, "verdict", verdicts[i], stint.ErrBusy, r.ID)
		wantState(t, store, stint.StateInProgress, r.ID)
	}
	verdicts, err = store.TryReturnTasks(ctx, returns[1:])
	wantErr(t, "TryReturnTasks of the other", err, nil)
	wantErr(t, "verdict on the other", verdicts[0], nil)
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
}

// R8: a late owner may return, but that takes a second look.
func TestTryReturnTasks_LeavesSecondLooksToReturnTasks(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 1)...)
	late := completed(own(t, store, 1))
	expireLeases(t, pool)
	maintain(t, store)
	verdicts, err := store.TryReturnTasks(t.Context(), late)
	wantErr(t, "TryReturnTasks", err, nil)
	wantTasks(t, "verdict", verdicts[0], stint.ErrBusy, late[0].ID)
	verdicts, err = store.ReturnTasks(t.Context(), late)
	wantErr(t, "ReturnTasks", err, nil)
	wantErr(t, "verdict", verdicts[0], nil)
}

// R21: in a transaction it would leave the caller's locks with a limit.
func TestTryReturnTasks_IsRefusedInATransaction(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 1)...)
	returns := completed(own(t, store, 1))
	_, err := store.WithTx(begin(t, pool)).TryReturnTasks(t.Context(), returns)
	wantErr(t, "TryReturnTasks", err, stint.ErrInvalidArgument)
	wantErr(t, "Close", store.Close(t.Context()), nil)
	_, err = store.TryReturnTasks(t.Context(), returns)
	wantErr(t, "TryReturnTasks of a closed store", err, stint.ErrClosed)
}
