package stint_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// far is a remote actor in its first connection.
func far() stint.RemoteActor { return stint.RemoteActor{Actor: "far", Session: 4711, Epoch: 1} }

func attend(t *testing.T, store *stint.Store, remote stint.RemoteActor, want bool) {
	t.Helper()
	latest, err := store.Remote().AttendActor(t.Context(), remote, []string{"act"})
	if err != nil || latest != want {
		t.Fatalf("AttendActor = %t, %v, want %t", latest, err, want)
	}
}

// ownFar makes a remote actor own n tasks for an hour.
func ownFar(
	t *testing.T, store *stint.Store, remote stint.RemoteActor, n int,
) []stint.OwnedTask {
	t.Helper()
	claim, err := stint.NewClaim(remote.Session)
	wantErr(t, "NewClaim", err, nil)
	owned, err := store.Remote().ClaimTasks(
		t.Context(), claim, remote.Actor, n, []string{"act"}, time.Hour)
	if err != nil || len(owned) != n {
		t.Fatalf("ClaimTasks = %d tasks, %v, want %d", len(owned), err, n)
	}
	return owned
}

func actorsOf(t *testing.T, store *stint.Store) []string {
	t.Helper()
	actors, err := store.ListActors(t.Context())
	wantErr(t, "ListActors", err, nil)
	var got []string
	for _, actor := range actors {
		got = append(got, fmt.Sprintf("%s%v%d", actor.Actor, actor.Actions, actor.Tasks))
	}
	return got
}

// Proves G30.
func TestDismissActor_HandsOnAtOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	other := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	last := after("last")
	last.MaxTries = 1
	insert(t, store, after("a"), after("b"), last, after("c"))
	attend(t, store, far(), true)
	owned := ownFar(t, store, far(), 3)
	stays := ownAs(t, store, "near", 1)
	if got := actorsOf(t, other); !slices.Equal(got, []string{"far[act]3"}) {
		t.Errorf("ListActors = %q", got)
	}
	waiting := start(func() ([]stint.OwnedTask, error) { return awaitAll(t, other, 2), nil })
	wantErr(t, "DismissActor", other.Remote().DismissActor(t.Context(), far()), nil)
	next, _ := ends(t, "WaitToOwnTasks", waiting)
	if got := idsOf(next); !slices.Equal(got, []stint.TaskID{"a", "b"}) {
		t.Errorf("handed on %q, want a and b", got)
	}
	wantState(t, store, stint.StateAborted, "last") // it had no other try
	if got := actorsOf(t, other); len(got) != 0 {
		t.Errorf("ListActors = %q", got)
	}
	err := store.ReturnTask(t.Context(), owned[0].ID, owned[0].Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask", err, stint.ErrInvalidToken)
	complete(t, store, stays...)
	err = store.Remote().DismissActor(t.Context(), far()) // as often as one likes
	wantErr(t, "DismissActor", err, nil)
}

// Whoever attends the latest connection decides, also if another store notices late that an earlier
// one is gone.
// Proves G30.
func TestDismissActor_LeavesAnActorThatIsAttendedAgain(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	other := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, after("a"), after("b"), after("c"))
	first, second := far(), far()
	second.Epoch = 2
	attend(t, store, first, true)
	owned := ownFar(t, store, first, 3)
	attend(t, other, second, true)
	attend(t, store, first, false)
	wantErr(t, "DismissActor", store.Remote().DismissActor(t.Context(), first), nil)
	wantErr(t, "ForgetActor", store.Remote().ForgetActor(t.Context(), first), nil)
	if got := actorsOf(t, store); !slices.Equal(got, []string{"far[act]3"}) {
		t.Errorf("ListActors = %q", got)
	}
	wantState(t, store, stint.StateInProgress, "a", "b", "c")
	complete(t, store, owned[0])
	wantErr(t, "DismissActor", store.Remote().DismissActor(t.Context(), second), nil)
	wantState(t, store, stint.StateReady, "b", "c")
}

// An actor that leaves keeps its tasks until their leases expire.
func TestForgetActor_LeavesTheLeases(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, after("a"))
	attend(t, store, far(), true)
	owned := ownFar(t, store, far(), 1)
	for range 2 {
		wantErr(t, "ForgetActor", store.Remote().ForgetActor(t.Context(), far()), nil)
	}
	if got := actorsOf(t, store); len(got) != 0 {
		t.Errorf("ListActors = %q", got)
	}
	complete(t, store, owned...)
}

// Neither the end of a service nor its death touches what remote actors own.
// Proves G30.
func TestAttendActor_TheEndOfItsStoreTouchesNoLease(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, end := range map[string]func(*testing.T, *present){
		"close": func(t *testing.T, p *present) {
			t.Helper()
			wantErr(t, "Close", p.Close(t.Context()), nil)
		},
		"death": func(t *testing.T, p *present) {
			t.Helper()
			p.lose(t, "near")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := testdb.New(t)
			heir, spy := watches(t, pool)
			service := newPresent(t, pool, time.Millisecond, "near")
			insert(t, heir, numbered("t", 5)...)
			attend(t, service.Store, far(), true)
			owned := ownFar(t, service.Store, far(), 3)
			near := ownAs(t, service.Store, "near", 2)
			end(t, service)
			eventually(t, soon, "the tasks of the other actor are handed on", func() bool {
				return len(ready(t, pool)) == len(near)
			})
			looksAgain(t, spy)
			eventually(t, soon, "the service is forgotten", func() bool {
				return len(actorsOf(t, heir)) == 0 &&
					yields[int](t, pool, "SELECT count(*) FROM stint.actors") == 0
			})
			complete(t, heir, owned...)
		})
	}
}

// ready are the ready tasks.
func ready(t *testing.T, pool *pgxpool.Pool) []int64 {
	t.Helper()
	return yields[[]int64](t, pool, "SELECT coalesce(array_agg(lo), '{}') FROM stint.ready")
}

// Leases that somebody is extending are handed on when that is done.
func TestDismissActor_WaitsForALeaseThatIsBeingExtended(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, after("a"))
	attend(t, store, far(), true)
	owned := ownFar(t, store, far(), 1)
	tx := begin(t, pool)
	kept, err := store.WithTx(tx).ExtendTasksOwnership(t.Context(), "far", owned, 2*time.Hour)
	if err != nil || !kept[0] {
		t.Fatalf("ExtendTasksOwnership = %v, %v", kept, err)
	}
	done := start(func() (struct{}, error) {
		return struct{}{}, store.Remote().DismissActor(t.Context(), far())
	})
	wantGoingOn(t, "DismissActor", done)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	_, err = ends(t, "DismissActor", done)
	wantErr(t, "DismissActor", err, nil)
	wantState(t, store, stint.StateReady, "a")
}

func TestRemoteActor_RefusesBadArguments(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	inTx := store.WithTx(begin(t, pool))
	nobody, unbound := far(), far()
	nobody.Actor, unbound.Session = "", 0
	for name, of := range map[string]struct {
		store  *stint.Store
		remote stint.RemoteActor
	}{
		"no name": {store, nobody}, "no session": {store, unbound},
		"in a transaction": {inTx, far()},
	} {
		_, err := of.store.Remote().AttendActor(t.Context(), of.remote, []string{"act"})
		wantErr(t, "AttendActor: "+name, err, stint.ErrInvalidArgument)
		err = of.store.Remote().DismissActor(t.Context(), of.remote)
		wantErr(t, "DismissActor: "+name, err, stint.ErrInvalidArgument)
		err = of.store.Remote().ForgetActor(t.Context(), of.remote)
		wantErr(t, "ForgetActor: "+name, err, stint.ErrInvalidArgument)
	}
	_, err := store.Remote().AttendActor(t.Context(), far(), nil)
	wantErr(t, "AttendActor without actions", err, stint.ErrInvalidArgument)
}

// Without a session nobody is shown, and the rest works.
// A store without a session notes who attends an actor, too, and is not listed.
func TestAttendActor_WithPollOnly(t *testing.T) {
	t.Parallel()
	polling, pool := newStoreAndPool(t, stint.Options{
		PollOnly: true, Maintenance: stint.MaintainNever,
	})
	other := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, polling, after("a"))
	first, second := far(), far()
	second.Epoch = 2
	attend(t, other, first, true)
	ownFar(t, polling, first, 1)
	attend(t, polling, second, true)
	attend(t, other, first, false)
	if got := actorsOf(t, polling); len(got) != 0 {
		t.Errorf("ListActors = %q", got)
	}
	wantErr(t, "DismissActor", other.Remote().DismissActor(t.Context(), first), nil)
	wantState(t, polling, stint.StateInProgress, "a")
	wantErr(t, "DismissActor", polling.Remote().DismissActor(t.Context(), second), nil)
	wantState(t, polling, stint.StateReady, "a")
}

// When a store without a session dies, the actors that it attended are forgotten after a day.
func TestAttendActor_WithPollOnlyIsForgotten(t *testing.T) {
	t.Parallel()
	polling, pool := newStoreAndPool(t, stint.Options{
		PollOnly: true, Maintenance: stint.MaintainNever,
	})
	actors := func() int { return yields[int](t, pool, "SELECT count(*) FROM stint.actors") }
	attend(t, polling, far(), true)
	wantErr(t, "Prune", errOf(polling.Prune(t.Context())), nil)
	if n := actors(); n != 1 {
		t.Fatalf("%d actors are noted, want 1", n)
	}
	exec(t, pool, "UPDATE stint.actors SET since = since - interval '1 day'")
	wantErr(t, "Prune", errOf(polling.Prune(t.Context())), nil)
	if n := actors(); n != 0 {
		t.Errorf("%d actors are noted, want none", n)
	}
}

// A remote actor that was late, and owns its tasks again, is handed on at once when it dies.
func TestExtendRemoteOwnership_BindsLateTasksAgain(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := openStore(t, testdb.New(t), stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, after("a"), after("b"), after("c"))
	first, second, third := far(), far(), far()
	second.Epoch, third.Epoch = 2, 3
	attend(t, store, first, true)
	owned := ownFar(t, store, first, 3)
	extend := func(tasks ...stint.OwnedTask) {
		t.Helper()
		kept, err := store.Remote().ExtendTasksOwnership(t.Context(), first, tasks, stint.NoExpiry)
		if err != nil || slices.Contains(kept, false) {
			t.Fatalf("ExtendRemoteOwnership = %v, %v", kept, err)
		}
	}
	wantErr(t, "DismissActor", store.Remote().DismissActor(t.Context(), first), nil)
	attend(t, store, second, true)
	extend(owned[:2]...)
	// One that its owner has only spoken of is bound when it is extended.
	wantErr(t, "SetStatus", store.SetStatus(t.Context(), owned[2], "late", 0), nil)
	extend(owned[2])
	wantErr(t, "DismissActor", store.Remote().DismissActor(t.Context(), second), nil)
	wantState(t, store, stint.StateReady, "a", "b", "c")
	attend(t, store, third, true)
	extend(owned...)
	extend(owned[0]) // which gets a part of the lease of its own
	wantErr(t, "DismissActor", store.Remote().DismissActor(t.Context(), third), nil)
	wantState(t, store, stint.StateReady, "a", "b", "c")
}

// What was owned before anybody attended the actor is bound as far as it is extended.
func TestExtendRemoteOwnership_BindsAPartOfALease(t *testing.T) {
	t.Parallel()
	store := openStore(t, testdb.New(t), stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, after("a"), after("b"))
	actor := far()
	owned := ownAs(t, store, actor.Actor, 2)
	attend(t, store, actor, true)
	kept, err := store.Remote().ExtendTasksOwnership(t.Context(), actor, owned[:1], stint.NoExpiry)
	if err != nil || !kept[0] {
		t.Fatalf("ExtendRemoteOwnership = %v, %v", kept, err)
	}
	wantErr(t, "DismissActor", store.Remote().DismissActor(t.Context(), actor), nil)
	wantState(t, store, stint.StateReady, "a")
	wantState(t, store, stint.StateInProgress, "b")
}
