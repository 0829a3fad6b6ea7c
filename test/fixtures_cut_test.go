package stint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
)

// expiredOnce is the status of a task of actor's whose lease has expired once, as described.
const expiredOnce = ` "lease expired on try 1 of 25\nits owner actor did not extend it"`

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

// newCutStoreOn returns a store on a database in which there are no tasks.
func newCutStoreOn(t *testing.T, pool *pgxpool.Pool, opts stint.Options) *cutStore {
	t.Helper()
	exec(t, pool, "CREATE TABLE IF NOT EXISTS mine (id text)")
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
		insideOf(*store).LeaveTriesUnnoted()
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
	awaitNotifier(c.Store)
	if err := errOf(c.truth.DeleteTasks(t.Context(), []stint.TaskID{"first"})); err != nil {
		t.Fatalf("DeleteTasks = %v", err)
	}
	return c
}

// emptyCut removes what a cutStore has left in its database. To truncate as many tables would take
// longer, and let every connection plan its statements anew. The locks wait for statements whose
// connection was cut, as to truncate would.
func emptyCut(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	tables := []string{
		"mine", "stint.tasks", "stint.ready", "stint.scheduled", "stint.leases", "stint.leased",
		"stint.finished", "stint.deadlines", "stint.blocked", "stint.edges", "stint.settling",
		"stint.sessions", "stint.actors", "stint.steps", "stint.answer_keys", "stint.tries",
		"stint.losses", "stint.fail_fast",
	}
	// Without arguments they go by the simple protocol, as one transaction.
	exec(t, pool, "CREATE TABLE IF NOT EXISTS mine (id text); LOCK TABLE "+
		strings.Join(tables, ", ")+"; DELETE FROM "+strings.Join(tables, "; DELETE FROM "))
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
	if steps := c.count(t, "SELECT count(*) FROM stint.steps"); steps > 0 {
		texts = append(texts, fmt.Sprintf("%d steps", steps))
	}
	if tries := c.count(t, "SELECT count(*) FROM stint.tries"); tries > 0 {
		texts = append(texts, fmt.Sprintf("%d tries", tries))
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

// succeed completes a task, inserts the next one and writes a row of the caller's own.
func succeed(ctx context.Context, c *cutStore, owned []stint.OwnedTask) error {
	return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		inside := c.WithTx(tx)
		err := inside.InsertTasks(ctx, []stint.Task{{ID: "b", Action: "new"}})
		if err != nil && !errors.Is(err, stint.ErrTaskExists) {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO mine VALUES ('a')"); err != nil {
			return err
		}
		return inside.ReturnTask(ctx, owned[0].ID, owned[0].Token, "said", stint.StatusCompleted)
	})
}
