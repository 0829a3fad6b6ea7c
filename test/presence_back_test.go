package stint_test

import (
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
)

// Whoever has found a session lost, and is late, takes nothing from one that has come back
// meanwhile: its leases go on, and its actor stays registered.
// Proves G33.
func TestPresence_LeavesASessionThatHasComeBackItsTasks(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	p := newPresent(t, pool, time.Hour, "actor")
	near := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, near, stint.Task{ID: "a", Action: "act"})
	ownAs(t, p.Store, "actor", 1)
	var session int64
	wantErr(t, "QueryRow", pool.QueryRow(t.Context(),
		"SELECT session FROM stint.actors WHERE actor = 'actor'").Scan(&session), nil)
	expire := statements(t)["expire_session_leases"]
	until := info(t, near, "a").LeaseUntil
	exec(t, pool, expire, session, "actor")
	if got := info(t, near, "a").LeaseUntil; !got.Equal(until) {
		t.Errorf("the lease ends at %v, not at %v any more", got, until)
	}
	const registered = "SELECT count(*) FROM stint.actors WHERE actor = 'actor'"
	if got := yields[int](t, pool, registered); got != 1 {
		t.Errorf("%d sessions have the actor, want the one that is there", got)
	}
	p.lose(t, "actor")
	exec(t, pool, expire, session, "actor")
	if got := info(t, near, "a").LeaseUntil; !got.Before(until) {
		t.Errorf("the lease of a lost session ends at %v", got)
	}
	if got := yields[int](t, pool, registered); got != 0 {
		t.Errorf("%d lost sessions have the actor", got)
	}
}
