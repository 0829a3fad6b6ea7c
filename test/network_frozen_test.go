package stint_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// idledTooLong is PostgreSQL's code for a session that ends since its transaction did not go on.
const idledTooLong = "25P03"

// frozenVerbs are the verbs that look at answers while they hold locks, and the statement before
// which each is stopped.
var frozenVerbs = map[string]struct {
	before string
	call   func(context.Context, *stint.Store) error
}{
	"AddDependencies": {"existing_edges", func(ctx context.Context, store *stint.Store) error {
		return store.AddDependencies(ctx, []stint.Dependency{{Predecessor: "a", Dependent: "b"}})
	}},
	"InsertTasks": {"edges_ahead", func(ctx context.Context, store *stint.Store) error {
		n := after("n", "a")
		n.ToSignalAfter = []stint.TaskID{"b"}
		return store.InsertTasks(ctx, []stint.Task{n})
	}},
	"InsertTasks by COPY": {"edges_ahead", func(ctx context.Context, store *stint.Store) error {
		return store.InsertTasks(ctx, manyBetween("a", "b"))
	}},
	"ReplaceTasks": {"drop_definitions", func(ctx context.Context, store *stint.Store) error {
		return store.ReplaceTasks(ctx, []stint.Task{after("b", "a")})
	}},
	"RetryTasks": {"edges_of", func(ctx context.Context, store *stint.Store) error {
		return errOf(store.RetryTasks(ctx, []stint.TaskID{"done"}))
	}},
	"AbortTasks": {"end_tasks", func(ctx context.Context, store *stint.Store) error {
		return errOf(store.AbortTasks(ctx, []stint.TaskID{"a", "b"}, ""))
	}},
	"DeleteTasks": {"drop_definitions", func(ctx context.Context, store *stint.Store) error {
		return errOf(store.DeleteTasks(ctx, []stint.TaskID{"b"}))
	}},
}

// manyBetween are so many tasks that they go by COPY, the first behind one task, the last ahead of
// another.
func manyBetween(before, behind stint.TaskID) []stint.Task {
	tasks := numbered("many", 100)
	tasks[0].After = []stint.TaskID{before}
	tasks[99].ToSignalAfter = []stint.TaskID{behind}
	return tasks
}

// A process that is stopped amid a verb holds others up for seconds, not for as long as its
// connection seems to live; when it goes on, the verb has done nothing, says so, and may be called
// again.
// Proves G102.
func TestFrozenProcess_HoldsNobodyUpForLong(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, verb := range frozenVerbs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCutStore(t, stint.Options{})
			insert(t, c.truth, stint.Task{ID: "done", Action: "act"})
			finish(t, c.truth, "done", stint.StatusCompleted)
			insert(t, c.truth, after("a"), after("b"), after("x"), after("y"))
			trap := c.proxy.Hold(pgcut.AtRequest, pgcut.Executes(verb.before))
			frozen := make(chan error, 1)
			go func() { frozen <- verb.call(t.Context(), c.Store) }()
			<-trap.Reached()
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			// Of what the verbs hold, this needs all: both tasks, and the row of networks.
			err := c.truth.AddDependencies(ctx, []stint.Dependency{
				{Predecessor: "a", Dependent: "x"}, {Predecessor: "b", Dependent: "y"},
			})
			wantErr(t, "AddDependencies of somebody else", err, nil)
			var refused *pgconn.PgError
			if err := <-frozen; !errors.As(err, &refused) || refused.Code != idledTooLong {
				t.Errorf("%s = %v, want that its transaction was ended", name, err)
			}
			want := "a ready, b ready, done completed try 1, x blocked, y blocked"
			if got := c.state(t); got != want {
				t.Errorf("it is %s, want %s", got, want)
			}
			wantErr(t, name+" again", verb.call(t.Context(), c.Store), nil)
		})
	}
}

// A stallingConn stops for good amid a COPY, as the connection of a process does that is stopped.
type stallingConn struct {
	net.Conn
	once             sync.Once
	stalled, resumed chan struct{}
}

func (c *stallingConn) Write(b []byte) (int, error) {
	const copyData = 'd'
	if len(b) > 0 && b[0] == copyData {
		c.once.Do(func() {
			close(c.stalled)
			<-c.resumed
		})
	}
	return c.Conn.Write(b)
}

// The server does not see that a process is stopped while it copies, so nothing that others need is
// held by then.
// Proves G102.
func TestFrozenProcess_HoldsNobodyUpWhileItCopies(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	truth, pool := newStoreAndPool(t, stint.Options{})
	stalled, resumed := make(chan struct{}), make(chan struct{})
	store := openStore(t, poolOf(t, pool, func(config *pgxpool.Config) {
		dial := config.ConnConfig.DialFunc
		config.MaxConns = 1
		config.ConnConfig.DialFunc = func(
			ctx context.Context, network, address string,
		) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return &stallingConn{Conn: conn, stalled: stalled, resumed: resumed}, err
		}
	}), stint.Options{Maintenance: stint.MaintainNever})
	insert(t, truth, after("a"), after("b"))
	done := make(chan error, 1)
	go func() { done <- store.InsertTasks(t.Context(), manyBetween("a", "b")) }()
	<-stalled
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	insert(t, truth, after("c"))
	err := truth.AddDependencies(ctx, []stint.Dependency{{Predecessor: "a", Dependent: "b"}})
	wantErr(t, "AddDependencies", err, nil)
	err = truth.AddDependencies(ctx, []stint.Dependency{{Predecessor: "b", Dependent: "c"}})
	wantErr(t, "AddDependencies", err, nil)
	close(resumed)
	wantErr(t, "InsertTasks", <-done, nil)
	wantState(t, truth, stint.StateBlocked, "b", "c", "many000000")
}

// A stream lasts as long as its sequence takes.
// Proves G102.
func TestInsertTasksFrom_MayRest(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	_, err := store.InsertTasksFrom(t.Context(), func(yield func(stint.Task, error) bool) {
		if yield(after("a"), nil) {
			eventually(t, soon, "more than five seconds have passed", func() bool {
				return yields[int](t, pool, `SELECT count(*) FROM pg_stat_activity
					WHERE state = 'idle in transaction' AND datname = current_database()
					  AND state_change > clock_timestamp() - interval '5500 ms'`) == 0
			})
			yield(after("b"), nil)
		}
	})
	wantErr(t, "InsertTasksFrom", err, nil)
	wantState(t, store, stint.StateReady, "a", "b")
}

// The caller's transaction is left as it is, and a server that is stricter, too.
// Proves G102.
func TestIdling_IsLimitedWhereTheSettingsDoNot(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	tx := begin(t, pool)
	show := func() (limit string) {
		t.Helper()
		err := tx.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&limit)
		wantErr(t, "SHOW", err, nil)
		return limit
	}
	insert(t, store.WithTx(tx), after("a"), after("b"))
	wantErr(t, "AddDependencies", addDependency(t, store.WithTx(tx), "a", "b"), nil)
	if got := show(); got != "0" {
		t.Errorf("it is %s in the caller's transaction", got)
	}
	const timeout = "idle_in_transaction_session_timeout"
	together := &pgx.Batch{} // so that the session does not idle amid it
	for set, want := range map[string]string{
		"0": "5s", "300": "300ms", "4999ms": "4999ms", "1min": "5s", "2h": "5s", "2d": "5s",
	} {
		together.Queue("SET " + timeout + " = '" + set + "'")
		together.Queue(statements(t)["limit_idling"])
		together.Queue("SHOW " + timeout).QueryRow(func(row pgx.Row) error {
			var got string
			err := row.Scan(&got)
			if got != want {
				t.Errorf("with %s it is %s, want %s", set, got, want)
			}
			return err
		})
	}
	together.Queue("SET " + timeout + " = 0")
	wantErr(t, "SET and SHOW", tx.SendBatch(t.Context(), together).Close(), nil)
}
