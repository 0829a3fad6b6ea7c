package stint_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestRegisterActor_ShowsWhoIsThere(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	first := newPresent(t, pool, time.Hour, "a", "b")
	second := newPresent(t, pool, time.Hour, "b")
	insert(t, first.Store, numbered("t", 10)...)
	ownAs(t, first.Store, "b", 3)
	ownAs(t, second.Store, "b", 2)
	ownAs(t, first.Store, "unregistered", 1)
	returned := ownAs(t, first.Store, "a", 2)
	returnWith(t, first.Store, returned[0], stint.Return{Code: stint.StatusCompleted})
	wantActors := func(want ...string) {
		t.Helper()
		actors, err := second.ListActors(t.Context())
		wantErr(t, "ListActors", err, nil)
		var got []string
		for _, actor := range actors {
			got = append(got, fmt.Sprintf("%s%v%d", actor.Actor, actor.Actions, actor.Tasks))
			if since := time.Since(actor.Since); since < 0 || since > 10*time.Minute {
				t.Errorf("%s is there since %v", actor.Actor, actor.Since)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("ListActors = %v, want %v", got, want)
		}
	}
	wantActors("a[act]1", "b[act]3", "b[act]2")
	err := first.RegisterActor(t.Context(), "a", []string{"x", "act", "x"})
	wantErr(t, "RegisterActor", err, nil)
	wantActors("a[act x]1", "b[act]3", "b[act]2")
	wantErr(t, "UnregisterActor", first.UnregisterActor(t.Context(), "b"), nil)
	wantErr(t, "UnregisterActor", first.UnregisterActor(t.Context(), "nobody"), nil)
	wantActors("a[act x]1", "b[act]2")
	wantErr(t, "Close", second.Close(t.Context()), nil)
	_, err = second.ListActors(t.Context())
	wantErr(t, "ListActors of a closed store", err, stint.ErrClosed)
	err = second.RegisterActor(t.Context(), "c", []string{"act"})
	wantErr(t, "RegisterActor of a closed store", err, stint.ErrClosed)
	second = first
	wantActors("a[act x]1")
	wantErr(t, "UnregisterActor", first.UnregisterActor(t.Context(), "a"), nil)
	wantActors() // not even the last one
}

// With thousands of actors, each change would write thousands of rows.
func TestRegisterActor_WritesNothingOfActorsThatStay(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	store := newPresent(t, pool, time.Hour, "a", "b")
	versions := func() []string {
		return yields[[]string](t, pool, "SELECT array_agg(actor || xmin::text || xmax::text "+
			"ORDER BY actor) FROM stint.actors WHERE actor IN ('a', 'b')")
	}
	before := versions()
	wantErr(t, "RegisterActor", store.RegisterActor(t.Context(), "c", []string{"act"}), nil)
	if after := versions(); !slices.Equal(before, after) {
		t.Errorf("the rows of others are %v, were %v", after, before)
	}
	err := store.RegisterActor(t.Context(), "a", []string{"act", "other"})
	wantErr(t, "RegisterActor", err, nil)
	if after := versions(); after[0] == before[0] || after[1] != before[1] {
		t.Errorf("the rows are %v, were %v, want a change of the first", after, before)
	}
}

func TestRegisterActor_RefusesBadArguments(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, actor := range []stint.ActorID{"", "a\x00", "\xff", stint.ActorID(make([]byte, 256))} {
		err := store.RegisterActor(t.Context(), actor, []string{"act"})
		wantErr(t, fmt.Sprintf("RegisterActor(%.10q)", actor), err, stint.ErrInvalidArgument)
		err = store.UnregisterActor(t.Context(), actor)
		wantErr(t, fmt.Sprintf("UnregisterActor(%.10q)", actor), err, stint.ErrInvalidArgument)
	}
	for _, actions := range [][]string{nil, {""}, {"act", "\x00"}, {stint.Spontaneous}} {
		err := store.RegisterActor(t.Context(), "actor", actions)
		wantErr(t, fmt.Sprintf("RegisterActor(%q)", actions), err, stint.ErrInvalidArgument)
	}
}

// With a grace of half a second, about a second.
// Proves R15.
func TestRegisterActor_HandsOnWhatIsOwnedWhenTheSessionEnds(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	heir, _ := watches(t, pool)
	var took []time.Duration
	for i := range 5 {
		actor := stint.ActorID(fmt.Sprint("actor", i))
		lost := newPresent(t, pool, 0, actor)
		insert(t, lost.Store, numbered(fmt.Sprintf("r%d ", i), 20)...)
		ownAs(t, lost.Store, actor, 20)
		awaiting := start(func() ([]stint.OwnedTask, error) { return awaitAll(t, heir, 20), nil })
		began := time.Now()
		lost.lose(t, actor)
		owned, _ := ends(t, "WaitToOwnTasks", awaiting)
		took = append(took, time.Since(began))
		returns, err := heir.ReturnTasks(t.Context(), completed(owned))
		if err != nil || slices.ContainsFunc(returns, func(err error) bool { return err != nil }) {
			t.Fatalf("ReturnTasks = %v, %v", returns, err)
		}
	}
	logDistribution(t, "end of the session to the next owner of all", took)
	if fastest := slices.Min(took); fastest < 500*time.Millisecond {
		t.Errorf("handed on after %v, within the grace", fastest)
	}
}

// All the other stores only wait, and look for nobody's session; it is all up to one.
func TestRegisterActor_HandsOnSoonThoughManyStoresOnlyWait(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	idle, err := pool.Acquire(t.Context())
	wantErr(t, "Acquire", err, nil)
	t.Cleanup(func() { idle.Conn().Close(context.WithoutCancel(t.Context())); idle.Release() })
	for id := range 60 {
		_, err := idle.Exec(t.Context(), "SELECT pg_advisory_lock_shared($1)", id)
		wantErr(t, "lock", err, nil)
		exec(t, pool, "INSERT INTO stint.sessions (id, grace, topics) "+
			"VALUES ($1, '500 ms', '{finished}')", id)
	}
	lost := newPresent(t, pool, 0, "actor")
	insert(t, lost.Store, numbered("t", 20)...)
	ownAs(t, lost.Store, "actor", 20)
	heir, spy := watches(t, pool)
	spy.sees(t, "check_sessions", 1)
	awaiting := start(func() ([]stint.OwnedTask, error) { return awaitAll(t, heir, 20), nil })
	lost.lose(t, "actor")
	began := time.Now()
	_, _ = ends(t, "WaitToOwnTasks", awaiting)
	t.Logf("handed on after %v", time.Since(began))
}

// A session that comes back in time costs nothing.
// Proves G33.
func TestRegisterActor_KeepsWhatIsOwnedIfTheSessionComesBack(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store := newPresent(t, pool, time.Hour, "actor")
	insert(t, store.Store, numbered("t", 20)...)
	owned := ownAs(t, store.Store, "actor", 10)
	other, spy := watches(t, pool)
	for range 3 {
		before := sessionOf(t, pool, "actor")
		store.lose(t, "actor")
		eventually(t, soon, "the absence is noted", func() bool {
			return yields[bool](t, pool, "SELECT gone_at IS NOT NULL FROM stint.sessions "+
				"JOIN stint.actors ON actors.session = sessions.id")
		})
		if actors, err := other.ListActors(t.Context()); err != nil || len(actors) != 0 {
			t.Errorf("ListActors = %v, %v, want nobody meanwhile", actors, err)
		}
		looksAgain(t, spy)
		store.proxy.Refuse(false)
		eventually(t, soon, "the session is back", func() bool {
			now := sessionOf(t, pool, "actor")
			return now != 0 && now != before
		})
		eventually(t, soon, "the actor is listed", func() bool {
			actors, err := other.ListActors(t.Context())
			return err == nil && len(actors) == 1 && actors[0].Tasks == 10
		})
		looksAgain(t, spy)
	}
	verdicts, err := store.ReturnTasks(t.Context(), completed(owned))
	if err != nil || slices.ContainsFunc(verdicts, func(err error) bool { return err != nil }) {
		t.Errorf("ReturnTasks = %v, %v", verdicts, err)
	}
	again := own(t, store.Store, 20)
	if len(again) != 10 || again[0].Try != 1 {
		t.Errorf("%d tasks are left", len(again))
	}
}

// An outage of the server ends the sessions of all. Those who live must be given the time to come
// back before anybody takes them for dead.
// Proves G33.
func TestRegisterActor_SurvivesAnOutageOfTheServer(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const stores, outage = 10, 4 * time.Second
	pool := testdb.New(t)
	var workers []*present
	for i := range stores {
		actor := stint.ActorID(fmt.Sprint("actor", i))
		worker := newPresent(t, pool, 0, actor)
		insert(t, worker.Store, numbered(fmt.Sprintf("r%d ", i), 3)...)
		ownAs(t, worker.Store, actor, 3)
		workers = append(workers, worker)
	}
	proxy := pgcut.New(t, pool)
	_, spy := watches(t, proxy.Pool(t, 2))
	for range 2 {
		openStore(t, proxy.Pool(t, 2), stint.Options{Maintenance: stint.MaintainAlways})
	}
	looksAgain(t, spy)
	proxies := []*pgcut.Proxy{proxy}
	for _, worker := range workers {
		proxies = append(proxies, worker.proxy)
	}
	for _, proxy := range proxies {
		proxy.Refuse(true)
	}
	exec(t, pool, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "+
		"WHERE datname = current_database() AND pid <> pg_backend_pid()")
	<-time.After(outage)
	for _, proxy := range proxies {
		proxy.Refuse(false)
	}
	eventually(t, soon, "all sessions are back", func() bool {
		return len(sessionPIDs(t, pool)) == stores
	})
	looksAgain(t, spy)
	n := yields[int](t, pool, tasksIn("leased"))
	if n != 3*stores {
		t.Errorf("%d tasks of %d are still owned by those who live", n, 3*stores)
	}
}

// A store that has lost its own session, and cannot make another one, takes its time, and then
// hands on as others do.
func TestRegisterActor_HandsOnThoughTheHeirHasNoSession(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	proxy := pgcut.New(t, pool)
	heir := &present{proxy: proxy, pool: pool, Store: openStore(t, proxy.Pool(t, 4), stint.Options{
		Maintenance: stint.MaintainAlways, PollInterval: pollNever,
	})}
	err := heir.RegisterActor(t.Context(), "heir", []string{"act"})
	wantErr(t, "RegisterActor", err, nil)
	lost := newPresent(t, pool, 0, "lost")
	insert(t, lost.Store, numbered("t", 3)...)
	ownAs(t, lost.Store, "lost", 3)
	heir.lose(t, "heir")
	lost.lose(t, "lost")
	eventually(t, soon, "the tasks are handed on", func() bool {
		return yields[int](t, pool, tasksIn("ready")) == 3
	})
}

func TestRegisterActor_HandsNothingOnWithinTheGrace(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const grace = 2 * time.Second
	pool := testdb.New(t)
	store := newPresent(t, pool, grace, "actor")
	insert(t, store.Store, numbered("t", 3)...)
	ownAs(t, store.Store, "actor", 3)
	heir, _ := watches(t, pool)
	began := time.Now()
	store.lose(t, "actor")
	awaitAll(t, heir, 3)
	if took := time.Since(began); took < grace {
		t.Errorf("handed on after %v, within the grace", took)
	}
}

// The tasks of an actor are handed on in one transaction, those of another one in another.
func TestRegisterActor_HandsOnActorByActor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store := newPresent(t, pool, time.Millisecond, "a", "b", "c")
	insert(t, store.Store, numbered("t", 30)...)
	for _, actor := range []stint.ActorID{"a", "b", "c"} {
		for range 4 {
			ownAs(t, store.Store, actor, 2)
		}
		_, err := store.OwnTasks(t.Context(), actor, 2, []string{"act"}, stint.NoExpiry)
		wantErr(t, "OwnTasks", err, nil)
	}
	store.lose(t, "a")
	watches(t, pool)
	eventually(t, soon, "all is handed on", func() bool {
		return yields[int](t, pool, "SELECT count(*) FROM stint.ready") == 30
	})
	n := yields[int](t, pool, "SELECT count(DISTINCT xmin::text) FROM stint.ready")
	mixed := yields[int](t, pool, "SELECT count(*) FROM (SELECT FROM stint.ready "+
		"GROUP BY xmin::text HAVING count(DISTINCT actor) > 1) AS mixed")
	if n != 3 || mixed != 0 {
		t.Errorf("handed on in %d transactions, %d of them for several actors", n, mixed)
	}
	eventually(t, soon, "the session is forgotten", func() bool {
		return yields[int](t, pool, "SELECT (SELECT count(*) FROM stint.sessions) + "+
			"(SELECT count(*) FROM stint.actors)") == 0
	})
}

// Proves R13.
func TestRegisterActor_EndsWhatHasNoTriesLeft(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store := newPresent(t, pool, time.Millisecond, "actor")
	insert(t, store.Store, stint.Task{ID: "a", Action: "act", MaxTries: 1}, after("b", "a"),
		stint.Task{ID: "c", Action: "act", MaxTries: 2})
	ownAs(t, store.Store, "actor", 2)
	store.lose(t, "actor")
	heir, _ := watches(t, pool)
	if owned := awaitAll(t, heir, 1); owned[0].ID != "c" || owned[0].Try != 2 {
		t.Errorf("handed on %s at try %d", owned[0].ID, owned[0].Try)
	}
	eventually(t, 4*time.Second, "the others are aborted", func() bool {
		return info(t, heir, "a").AbortCause == stint.CauseTries &&
			info(t, heir, "b").AbortCause == stint.CauseDependency
	})
}

// A late owner, here one whose session alone was lost, is refused only once somebody else owns.
// Proves R8.
func TestRegisterActor_LetsALateOwnerReturn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store := newPresent(t, pool, time.Millisecond, "actor")
	insert(t, store.Store, numbered("t", 3)...)
	owned := ownAs(t, store.Store, "actor", 3)
	store.lose(t, "actor")
	watches(t, pool)
	eventually(t, soon, "all is handed on", func() bool {
		return yields[int](t, pool, "SELECT count(*) FROM stint.ready") == 3
	})
	// Its own store may find no connection any more.
	another := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	returnWith(t, another, owned[0], stint.Return{Code: stint.StatusCompleted})
	kept, err := another.ExtendTasksOwnership(t.Context(), "actor", owned[1:2], time.Hour)
	if err != nil || !kept[0] {
		t.Errorf("ExtendTasksOwnership = %v, %v", kept, err)
	}
	if next := ownAs(t, another, "another", 1); next[0].ID != owned[2].ID {
		t.Fatalf("OwnTasks gave %s, want %s", next[0].ID, owned[2].ID)
	}
	err = another.ReturnTask(t.Context(), owned[2].ID, owned[2].Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask", err, stint.ErrInvalidToken)
	wantState(t, another, stint.StateCompleted, owned[0].ID)
	wantState(t, another, stint.StateInProgress, owned[1].ID, owned[2].ID)
}

// What is owned by actors that are not registered, or were not when they were given it, lasts as
// long as its lease.
func TestRegisterActor_LeavesTheLeasesOfOthersAlone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store := newPresent(t, pool, time.Millisecond, "actor", "gone")
	insert(t, store.Store, numbered("t", 5)...)
	ownAs(t, store.Store, "unregistered", 1)
	ownAs(t, store.Store, "later", 1)
	ownAs(t, store.Store, "gone", 1)
	wantErr(t, "UnregisterActor", store.UnregisterActor(t.Context(), "gone"), nil)
	err := store.RegisterActor(t.Context(), "later", []string{"act"})
	wantErr(t, "RegisterActor", err, nil)
	another := newPresent(t, pool, time.Millisecond, "actor")
	kept := ownAs(t, another.Store, "actor", 1) // the same actor, at another store
	lost := ownAs(t, store.Store, "actor", 1)
	store.lose(t, "later")
	heir, spy := watches(t, pool)
	if owned := awaitAll(t, heir, 1); owned[0].ID != lost[0].ID {
		t.Errorf("handed on %s, want %s", owned[0].ID, lost[0].ID)
	}
	looksAgain(t, spy)
	if leased := yields[int](t, pool, tasksIn("leased")); leased != 5 {
		t.Errorf("%d tasks are owned, want all 5", leased)
	}
	actors, err := heir.ListActors(t.Context())
	if err != nil || len(actors) != 1 || actors[0].Tasks != 1 {
		t.Errorf("ListActors = %v, %v", actors, err)
	}
	returnWith(t, another.Store, kept[0], stint.Return{Code: stint.StatusCompleted})
}

// A store that was taken for dead, and was not, is there again.
func TestRegisterActor_ComesBackAfterTheHandOver(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store := newPresent(t, pool, time.Millisecond, "actor")
	insert(t, store.Store, numbered("t", 2)...)
	ownAs(t, store.Store, "actor", 1)
	heir, _ := watches(t, pool)
	for round := range 2 {
		store.lose(t, "actor")
		awaitAll(t, heir, 1)
		eventually(t, soon, "the session is forgotten", func() bool {
			return yields[int](t, pool, "SELECT count(*) FROM stint.actors") == 0
		})
		store.proxy.Refuse(false)
		eventually(t, soon, "the session is back", func() bool {
			return sessionOf(t, pool, "actor") != 0
		})
		if round == 0 {
			ownAs(t, store.Store, "actor", 1)
		}
	}
}

// So does a lease that somebody held while the others were handed on.
func TestRegisterActor_WhatWasHeldIsHandedOnLater(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store := newPresent(t, pool, time.Millisecond, "actor")
	insert(t, store.Store, numbered("t", 2)...)
	held := ownAs(t, store.Store, "actor", 1)
	ownAs(t, store.Store, "actor", 1)
	heir, spy := watches(t, pool)
	tx := holdLease(t, pool, heir, held)
	store.lose(t, "actor")
	awaitAll(t, heir, 1)
	looksAgain(t, spy)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	awaitAll(t, heir, 1)
}

func TestRegisterActor_ReturnsWithItsContextAndRegistersLater(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	store := newPresent(t, pool, time.Hour)
	insert(t, store.Store, after("a")) // has connected
	store.proxy.Refuse(true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := store.RegisterActor(ctx, "actor", []string{"act"})
	wantErr(t, "RegisterActor", err, context.DeadlineExceeded)
	registering := start(func() (struct{}, error) {
		return struct{}{}, store.RegisterActor(t.Context(), "second", []string{"act"})
	})
	store.proxy.Refuse(false)
	_, err = ends(t, "RegisterActor", registering)
	wantErr(t, "RegisterActor", err, nil)
	actors, err := store.ListActors(t.Context())
	if err != nil || len(actors) != 2 {
		t.Errorf("ListActors = %v, %v, want both", actors, err)
	}
}

// Proves R20.
func TestRegisterActor_DoesNothingWithPollOnly(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store := openStore(t, pool, stint.Options{
		PollOnly: true, Maintenance: stint.MaintainNever, Grace: time.Millisecond,
	})
	wantErr(t, "RegisterActor", store.RegisterActor(t.Context(), "actor", []string{"act"}), nil)
	insert(t, store, after("a"))
	ownAs(t, store, "actor", 1)
	_, spy := watches(t, pool)
	looksAgain(t, spy)
	wantState(t, store, stint.StateInProgress, "a")
	if actors, err := store.ListActors(t.Context()); err != nil || len(actors) != 0 {
		t.Errorf("ListActors = %v, %v", actors, err)
	}
	wantErr(t, "UnregisterActor", store.UnregisterActor(t.Context(), "actor"), nil)
	wantErr(t, "Close", store.Close(t.Context()), nil)
	if leased := yields[int](t, pool, tasksIn("leased")); leased != 1 {
		t.Errorf("%d tasks are owned after Close, want 1", leased)
	}
}
