package stint_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// ages makes it so that nobody has asked for long, as far as noted moments tell.
func ages(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	exec(t, pool, "UPDATE stint.action_stats SET asked_at = asked_at - interval '10 minutes'")
}

// waitIdle has an actor wait for tasks with an action until the test, or the function that it
// returns, ends it.
func waitIdle(t *testing.T, store *stint.Store, action string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = store.WaitToOwnTasks(ctx, "idle", 1, []string{action}, time.Hour)
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// held is a ready task that is not fetched, so that those who wait for its action stay idle.
func held(t *testing.T, store *stint.Store, action string) stint.TaskID {
	t.Helper()
	task := stint.Task{
		ID: stint.TaskID(action), Action: action, NotBefore: time.Now().Add(time.Hour),
	}
	insert(t, store, task)
	return task.ID
}

func explanationOf(t *testing.T, store *stint.Store, id stint.TaskID) stint.Explanation {
	t.Helper()
	why, err := store.Explain(t.Context(), id)
	wantErr(t, "Explain", err, nil)
	return why
}

func asksFor(t *testing.T, pool *pgxpool.Pool, action string) bool {
	t.Helper()
	return yields[bool](t, pool, `SELECT EXISTS (SELECT FROM stint.sessions
		WHERE 'ready ' || $1::text = ANY (topics))`, action)
}

// Whether somebody asks is told by who waits, however long that has been idle: by its session, and
// where there is none, by the moment that it notes.
//
// Proves G305.
func TestExplain_KnowsThatAnIdleActorAsks(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	held(t, store, "mail")
	waitIdle(t, store, "mail")
	eventually(t, soon, "it is known who asks", func() bool { return asksFor(t, pool, "mail") })
	ages(t, pool)
	why := explanationOf(t, store, "mail")
	if !why.IsAsked() || !why.AskedAt.Equal(why.Now) || why.Actors != 0 {
		t.Errorf("Explain = %+v, want that it is asked for now", why)
	}
	wantNotText(t, why.String(), "nobody")

	// Of another action nobody asks.
	held(t, store, "other")
	wantText(t, explanationOf(t, store, "other").String(), `nobody asks for "other"`)
}

// Proves G305.
func TestExplain_KnowsThatAnIdleActorAsksWithoutASession(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{
		PollOnly: true, PollInterval: 10 * time.Millisecond,
	})
	held(t, store, "mail")
	stop := waitIdle(t, store, "mail")
	eventually(t, soon, "it is known who asks", func() bool {
		return explanationOf(t, store, "mail").IsAsked()
	})
	stop()
	ages(t, pool)
	if explanationOf(t, store, "mail").IsAsked() {
		t.Error("it is asked for, want that nobody does")
	}
	other := openStore(t, pool, stint.Options{
		PollOnly: true, PollInterval: 10 * time.Millisecond, Maintenance: stint.MaintainNever,
	})
	waitIdle(t, other, "mail")
	eventually(t, soon, "it is known who asks", func() bool {
		return explanationOf(t, store, "mail").IsAsked()
	})
}

// Proves G305.
func TestExplain_TellsActorsThatAreThereFromThoseThatAreGone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	id := held(t, store, "mail")
	wantErr(t, "RegisterActor", store.RegisterActor(t.Context(), "a", []string{"mail", "x"}), nil)
	ages(t, pool)
	exec(t, pool, "UPDATE stint.scheduled SET not_before = not_before - interval '2 hours'")
	maintain(t, store)
	why := explanationOf(t, store, id)
	if why.Actors != 1 || why.IsAsked() {
		t.Errorf("Explain = %+v, want one actor that does not ask", why)
	}
	wantText(t, why.String(), `"mail" is ready: it waits for an actor`,
		`actors that are registered for "mail": 1, but none has asked`, "no slot is free")

	// A process that died has left its rows, and nobody maintains: its lock is what it does not
	// leave.
	exec(t, pool, `UPDATE stint.actors SET session = -7, attendant = -7;
		INSERT INTO stint.sessions (id, grace, topics) VALUES (-7, '1 s', '{ready mail}')`)
	why = explanationOf(t, store, id)
	if why.Actors != 0 || why.IsAsked() {
		t.Errorf("Explain = %+v, want that nobody is there", why)
	}
	actors, err := store.ListActors(t.Context())
	wantErr(t, "ListActors", err, nil)
	if len(actors) > 0 {
		t.Errorf("ListActors = %v, want none that lives", actors)
	}
	exec(t, pool, "DELETE FROM stint.actors; DELETE FROM stint.sessions WHERE id = -7")
}

// Proves G305.
func TestExplain_SaysWhatIsKnownOfTheProcessOfAnOwner(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{ID: "a", Action: "act"}, stint.Task{ID: "b", Action: "act"})
	wantErr(t, "RegisterActor", store.RegisterActor(t.Context(), "live", []string{"act"}), nil)
	for _, actor := range []stint.ActorID{"live", "unknown"} {
		owned, err := store.OwnTasks(t.Context(), actor, 1, []string{"act"}, 10*24*time.Hour)
		wantErr(t, "OwnTasks", err, nil)
		if len(owned) != 1 {
			t.Fatalf("OwnTasks = %v", owned)
		}
	}
	want := func(id stint.TaskID, presence stint.Presence, parts ...string) {
		t.Helper()
		why := explanationOf(t, store, id)
		if why.Presence != presence {
			t.Errorf("the process of the owner of %q is %q, want %q", id, why.Presence, presence)
		}
		wantText(t, why.String(), parts...)
	}
	want("a", stint.PresenceLives, `"live" owns it until`)
	wantNotText(t, explanationOf(t, store, "a").String(), "process")
	want("b", stint.PresenceUnknown, `"unknown" owns it until`, "nobody watches the process")
	exec(t, pool, `WITH gone AS (
			INSERT INTO stint.sessions (id, grace, topics) VALUES (-7, '1 s', '{}')
		), moved AS (UPDATE stint.leases SET session = -7 WHERE session IS NOT NULL)
		UPDATE stint.actors SET session = -7, attendant = -7`)
	want("a", stint.PresenceGone, "the process of its owner is gone")
}
