package stint_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
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

// errOf is the error of a call that returns something else, too.
func errOf[T any](_ T, err error) error { return err }

// newStore returns a store on a database of its own, maintained by nobody but the test.
func newStore(tb testing.TB) *stint.Store {
	tb.Helper()
	store, _ := newStoreAndPool(tb, stint.Options{})
	return store
}

func newStoreAndPool(tb testing.TB, opts stint.Options) (*stint.Store, *pgxpool.Pool) {
	tb.Helper()
	store, pool := newUncheckedStore(tb, opts)
	tb.Cleanup(func() { checkStore(tb, pool) })
	return store, pool
}

// newUncheckedStore is for tests that write into the tables what cannot be.
func newUncheckedStore(tb testing.TB, opts stint.Options) (*stint.Store, *pgxpool.Pool) {
	tb.Helper()
	pool := testdb.New(tb)
	opts.Maintenance = stint.MaintainNever
	return openStore(tb, pool, opts), pool
}

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

// checkStore looks at the end of a test whether the tables agree with one another.
func checkStore(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		tb.Errorf("New = %v", err)
		return
	}
	found, err := store.Check(context.WithoutCancel(tb.Context()))
	if err != nil {
		tb.Errorf("Check = %v", err)
	}
	for _, inconsistency := range found {
		tb.Error(inconsistency)
	}
}

func wantChecked(tb testing.TB, store *stint.Store) {
	tb.Helper()
	if problems, err := store.Check(tb.Context()); err != nil || len(problems) > 0 {
		tb.Errorf("Check = %v, %v", problems, err)
	}
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

func exec(tb testing.TB, pool *pgxpool.Pool, statement string, args ...any) {
	tb.Helper()
	if _, err := pool.Exec(tb.Context(), statement, args...); err != nil {
		tb.Fatalf("%s: %v", statement, err)
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

func wantErr(tb testing.TB, call string, got, want error) {
	tb.Helper()
	if !errors.Is(got, want) {
		tb.Fatalf("%s = %v, want %v", call, got, want)
	}
}

// wantTasks checks that err is about these tasks.
func wantTasks(tb testing.TB, call string, err, want error, ids ...stint.TaskID) {
	tb.Helper()
	wantErr(tb, call, err, want)
	var about *stint.TaskError
	if !errors.As(err, &about) {
		tb.Fatalf("%s = %T, want a TaskError", call, err)
	}
	if !slices.Equal(about.IDs, ids) {
		tb.Fatalf("%s is about %q, want %q", call, about.IDs, ids)
	}
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

// inTime makes a call that must not be held up by what somebody else's call waits for: that is what
// the test itself has locked, and unlocks behind the call.
func inTime[T any](t *testing.T, what string, call func(context.Context) (T, error)) (T, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	value, err := call(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%s is held up for %v", what, soon)
	}
	return value, err
}

// calls runs calls at once, and tells what came of each.
type calls struct{ done chan error }

func (g *calls) start(call func() error) {
	if g.done == nil {
		g.done = make(chan error, 1000)
	}
	go func() { g.done <- call() }()
}

// atOnce makes calls at about the same moment, now one of them a little earlier, now another.
func atOnce(calls ...func() error) []error {
	errs := make([]error, len(calls))
	var group sync.WaitGroup
	start := make(chan struct{})
	for i, call := range calls {
		delay := rand.IntN(3000)
		group.Go(func() {
			<-start
			for range delay {
				runtime.Gosched()
			}
			errs[i] = call()
		})
	}
	close(start)
	group.Wait()
	return errs
}

// eventually looks again and again until ok, and fails the test when that takes too long. It looks
// less often the longer it takes: a wait of seconds would else cost more than what it waits for.
func eventually(tb testing.TB, within time.Duration, what string, ok func() bool) {
	tb.Helper()
	eventuallyEvery(tb, within, 50*time.Millisecond, what, ok)
}

// eventuallyEvery is eventually that never pauses for longer than that.
func eventuallyEvery(
	tb testing.TB, within, longest time.Duration, what string, ok func() bool,
) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), within)
	defer cancel()
	for began := time.Now(); !ok(); {
		select {
		case <-time.After(min(max(time.Since(began)/10, 2*time.Millisecond), longest)):
		case <-ctx.Done():
			tb.Fatalf("not within %v: %s", within, what)
		}
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

type lockedBuffer struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.String()
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
