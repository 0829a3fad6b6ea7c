package stint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/pgcut"
	"github.com/stint-tasks/stint/internal/testdb"
)

// A cutStore is a store whose one connection can be cut. Beside it, truth sees the same database
// as it is.
type cutStore struct {
	*stint.Store
	pool  *pgxpool.Pool
	proxy *pgcut.Proxy

	truth     *stint.Store
	truthPool *pgxpool.Pool
}

func newCutStore(t *testing.T, opts stint.Options) *cutStore {
	t.Helper()
	return newCutStoreOn(t, testdb.New(t), opts)
}

// newCutStoreOn returns a store on a database that it empties first.
func newCutStoreOn(t *testing.T, pool *pgxpool.Pool, opts stint.Options) *cutStore {
	t.Helper()
	exec(t, pool, "CREATE TABLE IF NOT EXISTS mine (id text)")
	exec(t, pool, "TRUNCATE mine, stint.tasks, stint.ready, stint.scheduled, stint.leases, "+
		"stint.leased, stint.finished, stint.deadlines, stint.blocked, stint.edges, "+
		"stint.settling, stint.sessions, stint.actors")
	proxy := pgcut.New(t, pool)
	c := &cutStore{pool: proxy.Pool(t, 1), proxy: proxy, truthPool: pool}
	opts.Maintenance = stint.MaintainNever
	for store, pool := range map[**stint.Store]*pgxpool.Pool{
		&c.Store: c.pool, &c.truth: c.truthPool,
	} {
		var err error
		if *store, err = stint.New(pool, opts); err != nil {
			t.Fatalf("New = %v", err)
		}
		stint.LeaveTriesUnnoted(*store)
		t.Cleanup(func() {
			wantErr(t, "Close", (*store).Close(context.WithoutCancel(t.Context())), nil)
		})
	}
	// The first verb also looks at the version of the schema.
	if _, err := c.ListTasks(t.Context(), stint.Filter{}); err != nil {
		t.Fatalf("ListTasks = %v", err)
	}
	// The first insert also takes a block of keys, and notifies.
	insert(t, c.Store, stint.Task{ID: "first", Action: "act"})
	stint.AwaitNotifier(c.Store)
	if err := c.truth.DeleteTasks(t.Context(), []stint.TaskID{"first"}); err != nil {
		t.Fatalf("DeleteTasks = %v", err)
	}
	return c
}

// state tells where each task is, and how many rows of the caller's own there are.
func (c *cutStore) state(t *testing.T) string {
	t.Helper()
	infos, err := listTasks(t.Context(), c.truth, stint.Filter{Limit: 1000})
	if err != nil {
		t.Fatalf("ListTasks = %v", err)
	}
	texts := make([]string, len(infos))
	for i, info := range infos {
		texts[i] = describe(info)
	}
	const manyTasks = 10
	if len(texts) > manyTasks {
		texts = []string{fmt.Sprintf("%d tasks like %s", len(texts), texts[0])}
	}
	if rows := c.count(t, "SELECT count(*) FROM mine"); rows > 0 {
		texts = append(texts, fmt.Sprintf("%d of mine", rows))
	}
	if torn := c.count(t, tornTasks); torn > 0 {
		texts = append(texts, fmt.Sprintf("%d TORN", torn))
	}
	return strings.Join(texts, ", ")
}

// tornTasks counts what no verb may leave: tasks in no state or in several, owned tasks without a
// lease, and state without a task.
const tornTasks = `
SELECT (SELECT count(*) FROM stint.tasks AS task WHERE 1 <>
           (SELECT count(*) FROM stint.task_states AS state WHERE state.key = task.key))
     + (SELECT count(*) FROM stint.leased WHERE NOT EXISTS
           (SELECT FROM stint.leases AS lease
            WHERE lease.claim = leased.claim AND lease.part = leased.part))
     + (SELECT count(*) FROM (
            SELECT generate_series(lo, hi) AS key FROM stint.leased
            UNION ALL SELECT key FROM stint.scheduled
            UNION ALL SELECT generate_series(lo, hi) FROM stint.ready
        ) AS state WHERE NOT EXISTS (SELECT FROM stint.tasks WHERE tasks.key = state.key))`

func (c *cutStore) count(t *testing.T, query string, args ...any) int {
	t.Helper()
	var n int
	if err := c.truthPool.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (c *cutStore) wantState(t *testing.T, when, want string) {
	t.Helper()
	if got := c.state(t); got != want {
		t.Fatalf("%s the tasks are\n\t%s, want\n\t%s", when, got, want)
	}
}

// hold starts call and waits until the trap has its request.
func hold(t *testing.T, trap *pgcut.Trap, call func() error) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case <-trap.Reached():
	case err := <-done:
		t.Fatalf("the call ended ahead of its time: %v", err)
	}
	return done
}

// wantLost checks that a call failed because of its connection, and not of what it asked for.
func wantLost(t *testing.T, err error) {
	t.Helper()
	var pgErr *pgconn.PgError
	var about *stint.TaskError
	if err == nil || errors.As(err, &pgErr) || errors.As(err, &about) {
		t.Fatalf("the call that was cut = %v, want the error of a connection", err)
	}
}

func (v *cutVerb) wantAgain(t *testing.T, err error) {
	t.Helper()
	if v.again == nil {
		wantErr(t, "the call repeated", err, nil)
		return
	}
	wantTasks(t, "the call repeated", err, v.again, v.named...)
	if errors.Is(v.again, stint.ErrAlreadyReturned) {
		wantErr(t, "the call repeated", err, stint.ErrInvalidToken)
	}
}

// forEachCut runs claim on the call of every verb. All share a database, one after the other.
func forEachCut(
	t *testing.T, claim func(*testing.T, cutVerb, *cutStore, func(context.Context) error),
) {
	t.Helper()
	pool := testdb.New(t)
	for _, verb := range slices.Concat(cutInserts(), cutReturns(), cutOwnerVerbs(), cutOthers()) {
		t.Run(verb.name, func(t *testing.T) {
			c := newCutStoreOn(t, pool, verb.opts)
			call := verb.given(t, c)
			stint.AwaitNotifier(c.Store)
			c.wantState(t, "before the call", verb.before)
			claim(t, verb, c, call)
		})
	}
}

// F6: whichever request of a verb is lost, nothing was done, and the call repeated does it.
// Maintain is more than one transaction; those ahead of the lost request stay done.
func TestVerbs_DoNothingIfARequestIsLostAndSucceedAgain(t *testing.T) {
	t.Parallel()
	forEachCut(t, func(
		t *testing.T, verb cutVerb, c *cutStore, call func(context.Context) error,
	) {
		t.Helper()
		cutThere, done := false, false
		for nth := 1; ; nth++ {
			seen, over := 0, false
			var mutex sync.Mutex
			trap := c.proxy.Cut(pgcut.AtRequest, func(r pgcut.Request) bool {
				mutex.Lock()
				defer mutex.Unlock()
				if over || pgcut.Executes("notify")(r) && !verb.at(r) {
					return false // of the notifier, behind the call
				}
				seen++
				cutThere = cutThere || seen == nth && verb.at(r)
				done = done || seen < nth && verb.at(r)
				return seen == nth
			})
			err := call(t.Context())
			mutex.Lock()
			over = true
			mutex.Unlock()
			if !trap.Sprung() {
				wantErr(t, "the call repeated", err, nil)
				break
			}
			wantLost(t, err)
			want := map[bool]string{false: verb.before, true: verb.after}[done]
			c.wantState(t, fmt.Sprintf("after request %d was lost", nth), want)
		}
		if !cutThere {
			t.Error("the request that takes effect was not among the lost ones")
		}
		c.wantState(t, "after the call", verb.after)
	})
}

// F5: if the reply to the commit is lost, all was done once, and the call repeated tells so.
func TestVerbs_RepeatedAfterALostReplyTellThatTheyTookPlace(t *testing.T) {
	t.Parallel()
	forEachCut(t, func(
		t *testing.T, verb cutVerb, c *cutStore, call func(context.Context) error,
	) {
		t.Helper()
		trap := c.proxy.Cut(pgcut.AtReply, verb.at)
		wantLost(t, call(t.Context()))
		if !trap.Sprung() {
			t.Fatal("nothing was cut")
		}
		c.wantState(t, "after the reply was lost", verb.after)
		for range 2 {
			verb.wantAgain(t, call(t.Context()))
			c.wantState(t, "after the call was repeated", verb.after)
		}
	})
}

// A request that its client has given up may still arrive, even after its repetition.
func TestVerbs_ArrivingAfterTheirRepetitionChangeNothing(t *testing.T) {
	t.Parallel()
	forEachCut(t, func(
		t *testing.T, verb cutVerb, c *cutStore, call func(context.Context) error,
	) {
		t.Helper()
		if verb.many {
			return // its repetition would wait for the locks of the requests before the last
		}
		trap := c.proxy.Hold(pgcut.AtRequest, verb.at)
		done := hold(t, trap, func() error { return call(t.Context()) })
		trap.Abandon()
		wantLost(t, <-done)
		c.wantState(t, "while the request is under way", verb.before)
		wantErr(t, "the call repeated", call(t.Context()), nil)
		c.wantState(t, "after the call was repeated", verb.after)
		trap.Release()
		<-trap.Answered()
		c.wantState(t, "after the request arrived", verb.after)
	})
}

// 57P01: a server that is shut down says so, and that nothing was done.
func TestVerbs_EndedByTheServerSucceedAgain(t *testing.T) {
	t.Parallel()
	forEachCut(t, func(
		t *testing.T, verb cutVerb, c *cutStore, call func(context.Context) error,
	) {
		t.Helper()
		trap := c.proxy.Hold(pgcut.AtRequest, verb.at)
		done := hold(t, trap, func() error { return call(t.Context()) })
		exec(t, c.truthPool, "SELECT pg_terminate_backend($1)", trap.PID())
		err := <-done
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "57P01" {
			t.Fatalf("the call = %v, want 57P01", err)
		}
		c.wantState(t, "after the session ended", verb.before)
		wantErr(t, "the call repeated", call(t.Context()), nil)
		c.wantState(t, "after the call was repeated", verb.after)
	})
}

// F4: a context that ends ends the call at once, silent though the server may be; the pool is fit
// for use, and nothing is left running.
func TestVerbs_EndWithTheirContext(t *testing.T) { //nolint:paralleltest // looks at all goroutines
	testdb.New(t) // starts the server, which stays
	leaks := goleak.IgnoreCurrent()
	//nolint:paralleltest // the leaks are looked for behind the loop
	for _, at := range []pgcut.Instant{pgcut.AtRequest, pgcut.AtReply} {
		t.Run(at.String(), func(t *testing.T) {
			forEachCut(t, func(
				t *testing.T, verb cutVerb, c *cutStore, call func(context.Context) error,
			) {
				t.Helper()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				trap := c.proxy.Hold(at, verb.at)
				done := hold(t, trap, func() error { return call(ctx) })
				cancel()
				wantErr(t, "the call cancelled", <-done, context.Canceled)
				if at == pgcut.AtRequest {
					c.wantState(t, "after the call was cancelled", verb.before)
					wantErr(t, "the call repeated", call(t.Context()), nil)
				} else {
					c.wantState(t, "after the call was cancelled", verb.after)
					verb.wantAgain(t, call(t.Context()))
				}
				c.wantState(t, "after the call was repeated", verb.after)
			})
		})
	}
	goleak.VerifyNone(t, leaks)
}
