package stint_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Nobody looks for sessions here, and the grace is long.
func TestClose_HandsOnAtOnceWhatItsActorsOwn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store := newPresent(t, pool, time.Hour, "a", "b")
	h := newHeardStoreOn(t, pool, stint.Options{})
	insert(t, store.Store, numbered("t", 5)...)
	ownAs(t, store.Store, "a", 2)
	ownAs(t, store.Store, "b", 2)
	ownAs(t, store.Store, "unregistered", 1)
	awaiting := h.await(t.Context(), t, 4)
	wantErr(t, "Close", store.Close(t.Context()), nil)
	// The next owner may have all of the others by now, none, or those of one actor.
	owners := yields[string](t, pool, `SELECT string_agg(DISTINCT leases.actor, ', ')
		FROM stint.leased JOIN stint.leases USING (claim, part) WHERE leases.actor <> 'actor'`)
	if owners != "unregistered" {
		t.Errorf("tasks are owned by %s, want by unregistered only", owners)
	}
	owned, err := ends(t, "WaitToOwnTasks", awaiting) // is notified
	if err != nil || len(owned) == 0 {
		t.Errorf("WaitToOwnTasks = %v, %v", owned, err)
	}
	if actors, err := h.ListActors(t.Context()); err != nil || len(actors) != 0 {
		t.Errorf("ListActors = %v, %v", actors, err)
	}
	eventually(t, soon, "only the session of the store that is open is left", func() bool {
		return len(sessionPIDs(t, pool)) == 1
	})
}

// Whatever is under way while the store is closed, its actors own nothing afterwards.
func TestClose_LeavesNothingOwnedByItsActors(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const callers = 8
	pool := testdb.New(t)
	inserter := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, inserter, numbered("t", 10_000)...)
	for round := range testrun.Rounds(100) {
		store := openStore(t, pool, stint.Options{
			Maintenance: stint.MaintainNever, Grace: time.Hour,
		})
		wantErr(t, "RegisterActor", store.RegisterActor(t.Context(), "actor", []string{"act"}), nil)
		closing := start(func() (struct{}, error) {
			<-time.After(time.Duration(rand.IntN(10_000)) * time.Microsecond)
			return struct{}{}, store.Close(t.Context())
		})
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				for {
					owned, err := store.OwnTasks(
						t.Context(), "actor", 1, []string{"act"}, 10*time.Minute)
					if err == nil {
						_, err = store.ReturnTasks(t.Context(), completed(owned))
					}
					if err != nil {
						return
					}
				}
			})
		}
		_, err := ends(t, "Close", closing)
		wantErr(t, "Close", err, nil)
		group.Wait()
		// A return that was under way kept its neighbours; their lease is over all the same.
		owned := yields[int](t, pool, "SELECT count(*) FROM stint.leases "+
			"WHERE deadline > statement_timestamp()")
		maintain(t, inserter)
		if n := yields[int](t, pool, tasksIn("leased")); owned > 0 || n > 0 {
			t.Fatalf("in round %d tasks are owned through a store that is closed: %d leases run, "+
				"%d tasks are not handed on", round, owned, n)
		}
	}
}

// A call that is under way while the store is closed may hold a lease, which is not passed over.
func TestClose_HandsOnWhatACallUnderWayHolds(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	store := newPresent(t, pool, time.Hour, "actor", "other")
	insert(t, store.Store, numbered("t", 2)...)
	held := ownAs(t, store.Store, "actor", 1)
	ownAs(t, store.Store, "other", 1)
	tx := holdLease(t, pool, store.Store, held)
	closing := start(func() (struct{}, error) { return struct{}{}, store.Close(t.Context()) })
	eventually(t, soon, "what is not held is handed on", func() bool {
		return yields[int](t, pool, tasksIn("leased")) == 1
	})
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	_, err := ends(t, "Close", closing)
	wantErr(t, "Close", err, nil)
	if n := yields[int](t, pool, tasksIn("leased")); n > 0 {
		t.Errorf("%d tasks are owned through a store that is closed", n)
	}
}
