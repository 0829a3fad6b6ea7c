package stint_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func newClaim(t *testing.T) stint.Claim {
	t.Helper()
	claim, err := stint.NewClaim(0)
	wantErr(t, "NewClaim", err, nil)
	return claim
}

func claims(
	ctx context.Context, store *stint.Store, claim stint.Claim, n int,
) ([]stint.OwnedTask, error) {
	return store.Remote().ClaimTasks(ctx, claim, "actor", n, []string{"act"}, time.Hour)
}

// wantClaimed claims tasks, and fails unless these are fetched at this try.
func wantClaimed(
	t *testing.T, store *stint.Store, claim stint.Claim, n, try int, ids ...stint.TaskID,
) []stint.OwnedTask {
	t.Helper()
	owned, err := claims(t.Context(), store, claim, n)
	if err != nil || !slices.Equal(idsOf(owned), ids) {
		t.Fatalf("ClaimTasks = %q, %v, want %q", idsOf(owned), err, ids)
	}
	for _, task := range owned {
		if task.Try != try {
			t.Errorf("%s is in its try %d, want %d", task.ID, task.Try, try)
		}
	}
	return owned
}

// A repetition, at any store, gives what the first call gave, whether other tasks are ready or not.
// Proves G29.
func TestClaimTasks_RepeatedGivesTheSameTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	other := openStore(t, pool, stint.Options{})
	insert(t, store, after("a"), after("b"), after("c"))
	claim := newClaim(t)
	wantClaimed(t, store, claim, 2, 1, "a", "b")
	for _, again := range []*stint.Store{store, other} {
		owned := wantClaimed(t, again, claim, 2, 1, "a", "b")
		for _, task := range owned {
			if left := time.Until(task.LeaseUntil); left < 50*time.Minute {
				t.Errorf("the lease of %s lasts %v, want about an hour", task.ID, left)
			}
		}
	}
	rest := wantClaimed(t, other, newClaim(t), 2, 1, "c")
	owned := wantClaimed(t, other, claim, 2, 1, "a", "b")
	complete(t, store, rest[0], owned[1])
	owned = wantClaimed(t, store, claim, 2, 1, "a")
	complete(t, other, owned[0])
	wantState(t, store, stint.StateCompleted, "a", "b", "c")
}

// A claim that has fetched nothing is as good as new.
func TestClaimTasks_AClaimWithoutTasksMayBeUsedAgain(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	claim := newClaim(t)
	wantClaimed(t, store, claim, 1, 1)
	wantClaimed(t, store, claim, 1, 1)
	insert(t, store, after("a"))
	wantClaimed(t, store, claim, 1, 1, "a")
	wantClaimed(t, store, claim, 1, 1, "a")
}

// A call that comes when its repetition was given tasks fetches nothing, though these have ended.
// Proves G29.
func TestClaimTasks_ComingLateHandsOutNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, earlier := range map[string]bool{
		"the first call was answered": true, "the first call never came": false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			insert(t, store, after("a"), after("b"))
			first := newClaim(t)
			again := first
			again.Repeated = true
			if earlier {
				wantClaimed(t, store, first, 1, 1, "a")
				complete(t, store, wantClaimed(t, store, again, 1, 1, "a")...)
				maintain(t, store) // which leaves the claim known
			} else {
				wantSpent(t, store, again)
				complete(t, store, wantClaimed(t, store, newClaim(t), 1, 1, "a")...)
			}
			wantSpent(t, store, first)
			wantSpent(t, store, again)
			wantState(t, store, stint.StateReady, "b")
		})
	}
}

// wantSpent fails unless nothing can be fetched under a claim any more.
func wantSpent(t *testing.T, store *stint.Store, claim stint.Claim) {
	t.Helper()
	_, err := claims(t.Context(), store, claim, 1)
	wantErr(t, "ClaimTasks", err, stint.ErrClaimSpent)
}

// A repetition that comes when the lease of what was fetched has expired fetches nothing under the
// claim again: those tasks have used up a try since, or are somebody else's.
//
// Proves G29.
func TestClaimTasks_RepeatedAfterTheLeaseFetchesNothing(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"))
	claim := newClaim(t)
	wantClaimed(t, store, claim, 1, 1, "a")
	expireLeases(t, pool)
	second := newClaim(t)
	complete(t, store, wantClaimed(t, store, second, 1, 2, "a")...)
	insert(t, store, after("b"))
	claim.Repeated = true
	wantSpent(t, store, claim)
	wantClaimed(t, store, newClaim(t), 1, 1, "b")
}

// The lease begins anew with a repetition, and tasks that somebody else has been given stay theirs.
func TestClaimTasks_RepeatedKeepsWhatNobodyElseWasGiven(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"), after("b"))
	claim := newClaim(t)
	wantClaimed(t, store, claim, 2, 1, "a", "b")
	expireLeases(t, pool)
	if next := ownOne(t, store); next.ID != "a" || next.Try != 2 {
		t.Fatalf("OwnTasks gave try %d of %s, want the second one of a", next.Try, next.ID)
	}
	wantClaimed(t, store, claim, 2, 2, "b") // fetched anew
}

func TestClaimTasks_IsSpentForSomebodyElse(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("a"), after("b"))
	claim := newClaim(t)
	wantClaimed(t, store, claim, 1, 1, "a")
	for _, call := range []func(
		context.Context, stint.Claim, stint.ActorID, int, []string, time.Duration,
	) ([]stint.OwnedTask, error){store.Remote().ClaimTasks, store.Remote().WaitToClaimTasks} {
		_, err := call(t.Context(), claim, "somebody else", 1, []string{"act"}, time.Hour)
		wantErr(t, "ClaimTasks by somebody else", err, stint.ErrClaimSpent)
	}
	others := []string{"other"}
	_, err := store.Remote().ClaimTasks(t.Context(), claim, "actor", 1, others, time.Hour)
	wantErr(t, "ClaimTasks with another action", err, stint.ErrClaimSpent)
	wantClaimed(t, store, claim, 1, 1, "a")
	wantState(t, store, stint.StateReady, "b")
}

// A repetition that asks for some of the actions is given no tasks with the others.
// Proves G29.
func TestClaimTasks_RepeatedGivesWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("a"), stint.Task{ID: "b", Action: "other"})
	claim := newClaim(t)
	both := []string{"act", "other"}
	owned, err := store.Remote().ClaimTasks(t.Context(), claim, "actor", 2, both, time.Hour)
	if err != nil || len(owned) != 2 {
		t.Fatalf("ClaimTasks = %q, %v", idsOf(owned), err)
	}
	wantClaimed(t, store, claim, 2, 1, "a")
	owned, err = store.Remote().ClaimTasks(t.Context(), claim, "actor", 2, both, time.Hour)
	if err != nil || len(owned) != 2 {
		t.Fatalf("ClaimTasks repeated with both = %q, %v", idsOf(owned), err)
	}
}

// Of two calls with one claim, at two stores, one fetches and the other finds that.
// Proves G29.
func TestClaimTasks_AtOnceHandsOutOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	other := openStore(t, pool, stint.Options{})
	for range 20 {
		insert(t, store, after("a"), after("b"))
		claim := newClaim(t)
		got := [][]stint.OwnedTask{nil, nil}
		call := func(i int, store *stint.Store) func() error {
			return func() (err error) {
				// One may find the tasks locked by the other, and nothing else: it asks again.
				for len(got[i]) == 0 && err == nil {
					got[i], err = claims(t.Context(), store, claim, 1)
				}
				return err
			}
		}
		for _, err := range atOnce(call(0, store), call(1, other)) {
			wantErr(t, "ClaimTasks", err, nil)
		}
		if len(got[0]) != 1 || !slices.Equal(idsOf(got[0]), idsOf(got[1])) {
			t.Fatalf("ClaimTasks gave %q and %q, want one task", idsOf(got[0]), idsOf(got[1]))
		}
		complete(t, store, got[0][0], ownOne(t, store))
		if err := errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"a", "b"})); err != nil {
			t.Fatalf("DeleteTasks = %v", err)
		}
	}
}

// A wait whose caller has gone fetches for nobody, and the claim is spent if it came to that.
func TestWaitToClaimTasks_AWaitThatIsRepeated(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	other := openStore(t, pool, stint.Options{})
	claim := newClaim(t)
	wait := func(store *stint.Store) func() ([]stint.OwnedTask, error) {
		return func() ([]stint.OwnedTask, error) {
			return store.Remote().WaitToClaimTasks(t.Context(), claim, "actor", 1, []string{"act"},
				time.Hour)
		}
	}
	first, second := start(wait(store)), start(wait(other))
	wantGoingOn(t, "WaitToClaimTasks", first)
	insert(t, store, after("a"), after("b"))
	// The one that comes first may find a locked by the other, which then is given the same task.
	one, err := ends(t, "WaitToClaimTasks", first)
	same, otherErr := ends(t, "WaitToClaimTasks", second)
	if err != nil || otherErr != nil || len(one) != 1 || !slices.Equal(idsOf(one), idsOf(same)) {
		t.Fatalf("WaitToClaimTasks = %q, %v and %q, %v, want the same task", idsOf(one), err,
			idsOf(same), otherErr)
	}
	left := map[stint.TaskID]stint.TaskID{"a": "b", "b": "a"}
	wantState(t, store, stint.StateReady, left[one[0].ID])
}

// Whatever was fetched is given back as if it had not been, and a call that comes late fails.
// Proves G29.
func TestReleaseClaim_GivesBackAndBars(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("a"), after("b"))
	claim := newClaim(t)
	wantClaimed(t, store, claim, 1, 1, "a")
	for range 2 {
		err := store.Remote().ReleaseClaim(t.Context(), claim, "actor")
		wantErr(t, "ReleaseClaim", err, nil)
	}
	wantState(t, store, stint.StateReady, "a", "b")
	_, err := claims(t.Context(), store, claim, 1)
	wantErr(t, "ClaimTasks", err, stint.ErrClaimSpent)

	unused := newClaim(t)
	wantErr(t, "ReleaseClaim", store.Remote().ReleaseClaim(t.Context(), unused, "actor"), nil)
	_, err = claims(t.Context(), store, unused, 1)
	wantErr(t, "ClaimTasks", err, stint.ErrClaimSpent)
	wantClaimed(t, store, newClaim(t), 2, 1, "b", "a") // a is behind it now
}

// Where a connection breaks in the call, the caller is given the tasks, or told that they will not
// be fetched under its claim.
// Proves G29.
func TestClaimTasks_CutAnywhereGivesTheTasksOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCutStore(t, stint.Options{})
	for _, when := range []pgcut.Instant{pgcut.AtRequest, pgcut.AtReply} {
		insert(t, c.truth, after("a"), after("b"))
		claim := newClaim(t)
		c.proxy.Cut(when, pgcut.Executes("own_tasks"))
		if when == pgcut.AtRequest { // it never will be made
			wantSpent(t, c.Store, claim)
			claim = newClaim(t)
		}
		owned := wantClaimed(t, c.Store, claim, 1, 1, "a")
		wantClaimed(t, c.truth, claim, 1, 1, "a")
		complete(t, c.truth, owned[0], ownOne(t, c.truth))
		if err := errOf(c.truth.DeleteTasks(t.Context(), []stint.TaskID{"a", "b"})); err != nil {
			t.Fatalf("DeleteTasks = %v", err)
		}
	}
}

// A caller that leaves during the call is given nothing behind its back.
// Proves G29.
func TestClaimTasks_ACallerThatLeavesIsGivenNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCutStore(t, stint.Options{})
	insert(t, c.truth, after("a"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	trap := c.proxy.Hold(pgcut.AtReply, pgcut.Executes("own_tasks"))
	done := hold(t, trap, func() error {
		_, err := claims(ctx, c.Store, newClaim(t), 1)
		return err
	})
	cancel()
	wantErr(t, "ClaimTasks", <-done, context.Canceled)
	trap.Release()
	eventually(t, soon, "the task is ready again", func() bool {
		return info(t, c.truth, "a").State == stint.StateReady
	})
	if task := ownOne(t, c.truth); task.Try != 1 {
		t.Errorf("the task is in its try %d, want 1", task.Try)
	}
}

// leaveClaim makes a caller leave while its fetch under a claim is answered. The trap holds the
// answer.
func leaveClaim(t *testing.T, c *cutStore, claim stint.Claim) *pgcut.Trap {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	trap := c.proxy.Hold(pgcut.AtReply, pgcut.Executes("own_tasks"))
	done := hold(t, trap, func() error { return errOf(claims(ctx, c.Store, claim, 1)) })
	cancel()
	wantErr(t, "ClaimTasks", <-done, context.Canceled)
	return trap
}

// What a caller has left behind is its repetition's: the first call must not give it back.
func TestClaimTasks_ACallThatWasRepeatedElsewhereGivesNothingBack(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCutStore(t, stint.Options{})
	insert(t, c.truth, after("a"))
	claim := newClaim(t)
	giveBack := c.proxy.Hold(pgcut.AtRequest, pgcut.Executes("spend_claim"))
	trap := leaveClaim(t, c, claim)
	claim.Repeated = true
	owned := wantClaimed(t, c.truth, claim, 1, 1, "a")
	giveBack.Release()
	trap.Release()
	wantErr(t, "Close", c.Close(t.Context()), nil) // waits for the first call
	complete(t, c.truth, owned...)
}

// The other way around, the repetition learns that the tasks were given back.
func TestClaimTasks_ARepetitionOfACallThatWasGivenUpIsTold(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCutStore(t, stint.Options{})
	insert(t, c.truth, after("a"))
	claim := newClaim(t)
	trap := leaveClaim(t, c, claim)
	eventually(t, soon, "the task is ready again, though the answer never came", func() bool {
		return info(t, c.truth, "a").State == stint.StateReady
	})
	trap.Release()
	claim.Repeated = true
	_, err := claims(t.Context(), c.truth, claim, 1)
	wantErr(t, "ClaimTasks", err, stint.ErrClaimSpent)
	wantClaimed(t, c.truth, newClaim(t), 1, 1, "a")
}

// A call that finds nothing when it asks again after a cut must not say so: what was cut off may
// still arrive, and fetch.
func TestClaimTasks_ThatMayStillFetchFails(t *testing.T) {
	t.Parallel()
	c := newCutStore(t, stint.Options{})
	claim := newClaim(t)
	trap := c.proxy.Hold(pgcut.AtRequest, pgcut.Executes("own_tasks"))
	done := hold(t, trap, func() error { return errOf(claims(t.Context(), c.Store, claim, 1)) })
	trap.Abandon()
	if err := <-done; err == nil {
		t.Fatal("ClaimTasks did not fail")
	}
	wantErr(t, "ReleaseClaim", c.truth.Remote().ReleaseClaim(t.Context(), claim, "actor"), nil)
	insert(t, c.truth, after("a"))
	trap.Release()
	<-trap.Answered()
	wantState(t, c.truth, stint.StateReady, "a")
}

func TestClaimTasks_RefusesBadArguments(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	ctx, actions := t.Context(), []string{"act"}
	inTx := store.WithTx(begin(t, pool))
	claim := newClaim(t)
	for name, err := range map[string]error{
		"no number": errOf(
			store.Remote().ClaimTasks(ctx, stint.Claim{}, "a", 1, actions, time.Hour)),
		"no tasks": errOf(store.Remote().ClaimTasks(ctx, claim, "a", 0, actions, time.Hour)),
		"no actor": errOf(store.Remote().WaitToClaimTasks(ctx, claim, "", 1, actions, time.Hour)),
		"no lease": errOf(store.Remote().WaitToClaimTasks(ctx, claim, "a", 1, actions, 0)),
		"in a transaction": errOf(
			inTx.Remote().ClaimTasks(ctx, claim, "a", 1, actions, time.Hour)),
		"release by nobody": store.Remote().ReleaseClaim(ctx, claim, ""),
	} {
		if !errors.Is(err, stint.ErrInvalidArgument) {
			t.Errorf("%s: %v, want %v", name, err, stint.ErrInvalidArgument)
		}
	}
}

// A fetch under limits is not taken for an earlier one under its claim, whose tasks would be
// asked for again.
func TestClaimTasks_UnderLimitsTakesNoMoreRoundTrips(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, kind := range fetchKinds()[1:] {
		c := newCutStore(t, stint.Options{})
		trips := func(own func() ([]stint.OwnedTask, error)) (n int) {
			for range 3 { // the first two learn of the limits, and prepare statements
				insert(t, c.truth, stint.Task{Action: "act"})
				before := c.proxy.RoundTrips()
				owned, err := own()
				n = c.proxy.RoundTrips() - before
				wantErr(t, "own", err, nil)
				complete(t, c.truth, owned...)
			}
			return n
		}
		wantErr(t, "SetLimits", c.truth.SetLimits(t.Context(), "act", kind.limits), nil)
		want := trips(func() ([]stint.OwnedTask, error) {
			return c.OwnTasks(t.Context(), "actor", 1, []string{"act"}, time.Hour)
		})
		got := trips(func() ([]stint.OwnedTask, error) {
			return claims(t.Context(), c.Store, newClaim(t), 1)
		})
		if got != want {
			t.Errorf("%s: %d round trips, want the %d of OwnTasks", kind.statement, got, want)
		}
	}
}
