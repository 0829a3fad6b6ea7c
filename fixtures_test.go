package stint_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
)

const (
	// soon is how long tests wait for what must come: much longer than it takes on the busiest
	// machine, and much shorter than the hour that those wait for who poll.
	soon = 2 * time.Minute

	// pollNever is the PollInterval of those who shall be woken by nothing but a notification.
	pollNever = time.Hour
)

// openStore returns a store on a pool, whose tables somebody else checks.
func openStore(tb testing.TB, pool *pgxpool.Pool, opts stint.Options) *stint.Store {
	tb.Helper()
	store, err := stint.New(pool, opts)
	if err != nil {
		tb.Fatalf("New = %v", err)
	}
	tb.Cleanup(func() {
		wantErr(tb, "Close", store.Close(context.WithoutCancel(tb.Context())), nil)
	})
	return store
}

// poolOf returns another pool on the database of a pool.
func poolOf(tb testing.TB, pool *pgxpool.Pool, change func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	config := pool.Config()
	change(config)
	other, err := pgxpool.NewWithConfig(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(other.Close)
	return other
}

// eventually looks again and again until ok, and fails the test when that takes too long.
func eventually(tb testing.TB, within time.Duration, what string, ok func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), within)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			tb.Fatalf("not within %v: %s", within, what)
		}
	}
}

// yields reports what a query that returns one value yields.
func yields[T any](tb testing.TB, pool *pgxpool.Pool, query string, args ...any) T {
	tb.Helper()
	var value T
	if err := pool.QueryRow(tb.Context(), query, args...).Scan(&value); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	return value
}

// An outcome is what a call returned.
type outcome[T any] struct {
	value T
	err   error
}

// start makes a call in a goroutine.
func start[T any](call func() (T, error)) <-chan outcome[T] {
	done := make(chan outcome[T], 1)
	go func() {
		value, err := call()
		done <- outcome[T]{value, err}
	}()
	return done
}

// ends waits for a call to end.
func ends[T any](tb testing.TB, what string, done <-chan outcome[T]) (T, error) {
	tb.Helper()
	select {
	case got := <-done:
		return got.value, got.err
	case <-time.After(soon):
		tb.Fatalf("%s has not ended within %v", what, soon)
		panic("unreachable")
	}
}

// wantGoingOn checks that a call has not ended.
func wantGoingOn[T any](tb testing.TB, what string, done <-chan outcome[T]) {
	tb.Helper()
	select {
	case got := <-done:
		tb.Fatalf("%s has ended: %+v, %v", what, got.value, got.err)
	default:
	}
}

// A spy counts the statements that the connections of a pool execute, by name.
type spy struct {
	mutex  sync.Mutex
	counts map[string]int
}

// spyOn returns a pool that a spy looks at.
func spyOn(tb testing.TB, pool *pgxpool.Pool, conns int32) (*pgxpool.Pool, *spy) {
	tb.Helper()
	s := &spy{counts: map[string]int{}}
	return poolOf(tb, pool, func(config *pgxpool.Config) {
		config.MaxConns, config.ConnConfig.Tracer = conns, s
		config.ConnConfig.RuntimeParams["application_name"] = "spied"
	}), s
}

type spiedKey struct{}

func (s *spy) note(sql string) {
	first, _, _ := strings.Cut(sql, "\n")
	name := strings.TrimPrefix(first, "-- name: ")
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.counts[name]++
}

func (s *spy) TraceQueryStart(
	ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData,
) context.Context {
	return context.WithValue(ctx, spiedKey{}, data.SQL)
}

func (s *spy) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if sql, ok := ctx.Value(spiedKey{}).(string); ok {
		s.note(sql)
	}
}

func (s *spy) TraceBatchStart(
	ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData,
) context.Context {
	return ctx
}

func (s *spy) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	s.note(data.SQL)
}

func (s *spy) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (s *spy) count(name string) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.counts[name]
}

// sees waits until a statement has been executed n times.
func (s *spy) sees(tb testing.TB, name string, n int) {
	tb.Helper()
	eventually(tb, soon, "the statement "+name+" is executed", func() bool {
		return s.count(name) >= n
	})
}

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
	for _, ended := range []stint.TaskID{id, id + "2"} {
		wantErr(tb, "AbortTasks", h.AbortTasks(tb.Context(), []stint.TaskID{ended}, ""), nil)
	}
	if _, err := ends(tb, "WaitForTask", waiting); err != nil {
		tb.Fatalf("WaitForTask = %v", err)
	}
	wantErr(tb, "DeleteTasks", h.DeleteTasks(tb.Context(), []stint.TaskID{id, id + "2"}), nil)
	return h
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

// logDistribution tells how long something took, and returns the 99th percentile.
func logDistribution(tb testing.TB, what string, took []time.Duration) time.Duration {
	tb.Helper()
	sorted := slices.Sorted(slices.Values(took))
	at := func(share float64) time.Duration {
		return sorted[int(share*float64(len(sorted)-1)+0.5)].Round(10 * time.Microsecond)
	}
	tb.Logf("%s, %d times: min %v, median %v, p90 %v, p99 %v, max %v", what, len(sorted), at(0),
		at(0.5), at(0.9), at(0.99), at(1))
	return at(0.99)
}
