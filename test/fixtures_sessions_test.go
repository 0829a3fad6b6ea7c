package stint_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
)

// A heardStore is a store with a session that listens, so that only notifications wake those who
// wait, and with a spy.
type heardStore struct {
	*stint.Store
	pool *pgxpool.Pool // not the one of the store
	spy  *spy
}

// newHeardStore returns a store that hears of tasks that finish, and of ready ones with action
// "act". Its pool has two connections.
func newHeardStore(tb testing.TB, opts stint.Options) *heardStore {
	tb.Helper()
	pool := testdb.New(tb)
	h := newHeardStoreOn(tb, pool, opts)
	tb.Cleanup(func() { checkStore(tb, pool) })
	return h
}

func newHeardStoreOn(tb testing.TB, pool *pgxpool.Pool, opts stint.Options) *heardStore {
	tb.Helper()
	spied, spy := spyOn(tb, pool, 2)
	if opts.PollInterval == 0 && !opts.PollOnly {
		opts.PollInterval = pollNever
	}
	if opts.Maintenance == stint.MaintainWhenOwning {
		opts.Maintenance = stint.MaintainNever
	}
	h := &heardStore{Store: openStore(tb, spied, opts), pool: pool, spy: spy}
	if opts.PollOnly {
		return h
	}
	lookAgainNever(h.Store)
	// Once what was waited for has come, the session stands, and what it listens for is known.
	id := stint.TaskID("prime " + tb.Name())
	insert(tb, h.Store, stint.Task{ID: id, Action: "prime", PostResult: true})
	waiting := start(func() (stint.TaskInfo, error) { return h.WaitForTask(tb.Context(), id) })
	prime := func() ([]stint.OwnedTask, error) {
		return h.WaitToOwnTasks(tb.Context(), "prime", 1, []string{"act", "prime"}, time.Hour)
	}
	owned, err := ends(tb, "WaitToOwnTasks", start(prime))
	if err != nil || len(owned) != 1 {
		tb.Fatalf("WaitToOwnTasks = %v, %v", owned, err)
	}
	awaiting := start(prime)
	eventually(tb, soon, "the session listens", func() bool {
		return listeners(tb, pool, "ready act") > 0 && listeners(tb, pool, "finished") > 0
	})
	insert(tb, h.Store, stint.Task{ID: id + "2", Action: "prime"})
	if owned, err = ends(tb, "WaitToOwnTasks", awaiting); err != nil || len(owned) != 1 {
		tb.Fatalf("WaitToOwnTasks = %v, %v", owned, err)
	}
	ended := []stint.TaskID{id, id + "2"}
	wantErr(tb, "AbortTasks", errOf(h.AbortTasks(tb.Context(), ended, "")), nil)
	if _, err := ends(tb, "WaitForTask", waiting); err != nil {
		tb.Fatalf("WaitForTask = %v", err)
	}
	wantErr(tb, "DeleteTasks", errOf(h.DeleteTasks(tb.Context(), ended)), nil)
	return h
}

// waitFor starts to wait for a task, and returns when the store has found that it has not finished,
// and only something that wakes it makes it look again.
func (h *heardStore) waitFor(tb testing.TB, id stint.TaskID) <-chan outcome[stint.TaskInfo] {
	tb.Helper()
	looked := h.spy.count("waited_tasks")
	waiting := start(func() (stint.TaskInfo, error) { return h.WaitForTask(tb.Context(), id) })
	h.spy.sees(tb, "waited_tasks", looked+1)
	return waiting
}

// await starts to await a task with action "act", and returns when the store has found none.
func (h *heardStore) await(
	ctx context.Context, tb testing.TB, n int,
) <-chan outcome[[]stint.OwnedTask] {
	tb.Helper()
	looked := h.spy.count("next_due")
	awaiting := start(func() ([]stint.OwnedTask, error) {
		return h.WaitToOwnTasks(ctx, "actor", n, []string{"act"}, time.Hour)
	})
	h.spy.sees(tb, "next_due", looked+1)
	return awaiting
}

// wantOwned checks that WaitToOwnTasks gave these tasks.
func wantOwned(tb testing.TB, done <-chan outcome[[]stint.OwnedTask], ids ...stint.TaskID) {
	tb.Helper()
	owned, err := ends(tb, "WaitToOwnTasks", done)
	if err != nil || len(owned) != len(ids) {
		tb.Fatalf("WaitToOwnTasks = %v, %v, want %v", idsOf(owned), err, ids)
	}
	for i, id := range ids {
		if owned[i].ID != id {
			tb.Fatalf("WaitToOwnTasks = %v, want %v", idsOf(owned), ids)
		}
	}
}

// listeners counts the sessions that want to hear of a topic.
func listeners(tb testing.TB, pool *pgxpool.Pool, topic string) int {
	tb.Helper()
	return yields[int](tb, pool,
		"SELECT count(*) FROM stint.sessions WHERE $1 = ANY (topics) AND gone_at IS NULL", topic)
}

// sessionPIDs are the server processes of the sessions of stores.
func sessionPIDs(tb testing.TB, pool *pgxpool.Pool) []int32 {
	tb.Helper()
	return yields[[]int32](tb, pool, `SELECT coalesce(array_agg(pid), '{}') FROM pg_locks
		WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted
		  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
}

// A present is a store whose session can be ended and kept from coming back. Its pool lives on.
type present struct {
	*stint.Store
	proxy *pgcut.Proxy
	pool  *pgxpool.Pool // not the one of the store
}

// newPresent returns a store at which an actor named like it is registered. It maintains nothing.
func newPresent(
	t *testing.T, pool *pgxpool.Pool, grace time.Duration, actors ...stint.ActorID,
) *present {
	t.Helper()
	proxy := pgcut.New(t, pool)
	p := &present{proxy: proxy, pool: pool, Store: openStore(t, proxy.Pool(t, 4), stint.Options{
		Grace: grace, Maintenance: stint.MaintainNever, PollInterval: pollNever,
	})}
	for _, actor := range actors {
		err := p.RegisterActor(t.Context(), actor, []string{"act"})
		wantErr(t, "RegisterActor", err, nil)
	}
	return p
}

// lose ends the session, as the death of the process would.
func (p *present) lose(t *testing.T, actor stint.ActorID) {
	t.Helper()
	p.proxy.Refuse(true)
	p.terminate(t, actor)
}

func (p *present) terminate(t *testing.T, actor stint.ActorID) {
	t.Helper()
	pid := sessionOf(t, p.pool, actor)
	if pid == 0 {
		t.Fatalf("%s has no session", actor)
	}
	exec(t, p.pool, "SELECT pg_terminate_backend($1, 10000)", pid)
}

// sessionOf is the server process of the session at which an actor is registered, 0 if there is
// none.
func sessionOf(t *testing.T, pool *pgxpool.Pool, actor stint.ActorID) int32 {
	t.Helper()
	return yields[int32](t, pool, `SELECT coalesce(max(locks.pid), 0)
		FROM pg_locks AS locks
		JOIN stint.actors
		  ON actors.session = (locks.classid::bigint << 32 | locks.objid::bigint)
		WHERE actors.actor = $1 AND locks.locktype = 'advisory' AND locks.granted
		  AND locks.mode = 'ShareLock'
		  AND locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
		string(actor))
}

// ownAs owns n tasks with action "act" for ten minutes.
func ownAs(t *testing.T, store *stint.Store, actor stint.ActorID, n int) []stint.OwnedTask {
	t.Helper()
	owned, err := store.OwnTasks(t.Context(), actor, n, []string{"act"}, 10*time.Minute)
	if err != nil || len(owned) != n {
		t.Fatalf("OwnTasks = %d tasks, %v, want %d", len(owned), err, n)
	}
	return owned
}

// watches returns a store that looks for sessions, and its spy.
func watches(t *testing.T, pool *pgxpool.Pool) (*stint.Store, *spy) {
	t.Helper()
	spied, spy := spyOn(t, pool, 4)
	return openStore(t, spied, stint.Options{
		Maintenance: stint.MaintainAlways, PollInterval: pollNever,
	}), spy
}

// looksAgain waits until a store has looked for sessions some times more.
func looksAgain(t *testing.T, spy *spy) {
	t.Helper()
	spy.sees(t, "check_sessions", spy.count("check_sessions")+3)
}

// awaitAll awaits n tasks in all, whoever is given them together.
func awaitAll(t *testing.T, store *stint.Store, n int) []stint.OwnedTask {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	var all []stint.OwnedTask
	for len(all) < n {
		owned, err := store.WaitToOwnTasks(ctx, "heir", n, []string{"act"}, time.Hour)
		if err != nil {
			t.Fatalf("WaitToOwnTasks = %v after %d tasks of %d", err, len(all), n)
		}
		all = append(all, owned...)
	}
	return all
}

// holdLease extends the lease of tasks in a transaction.
func holdLease(
	t *testing.T, pool *pgxpool.Pool, store *stint.Store, owned []stint.OwnedTask,
) pgx.Tx {
	t.Helper()
	tx := begin(t, pool)
	kept, err := store.WithTx(tx).ExtendTasksOwnership(t.Context(), "actor", owned, time.Hour)
	if err != nil || !kept[0] {
		t.Fatalf("ExtendTasksOwnership = %v, %v", kept, err)
	}
	return tx
}

// wantLoss waits until the context has ended because the task was lost.
func wantLoss(ctx context.Context, t *testing.T, id stint.TaskID) {
	t.Helper()
	select {
	case <-ctx.Done():
		wantTasks(t, "the cause", context.Cause(ctx), stint.ErrInvalidToken, id)
	case <-time.After(soon):
		t.Fatalf("the ownership of %s has not ended within %v", id, soon)
	}
}

func wantOwning(ctx context.Context, t *testing.T, when string) {
	t.Helper()
	if ctx.Err() != nil {
		t.Fatalf("%s the context has ended: %v", when, context.Cause(ctx))
	}
}
