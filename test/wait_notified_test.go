package stint_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Who waits again after a fetch that took all that was ready looks at the queues again only if
// somebody tells of tasks, or ten times a second.
// Proves G207.
func TestWaitToOwnTasks_LooksSeldomInVain(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, others := range map[string]int{"alone": 0, "with others": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHeardStore(t, stint.Options{})
			for range others { // so the server tells this process, too, of what it has inserted
				addListener(t, h)
			}
			wantFewLooks(t, h)
		})
	}
}

// addListener opens another store that hears of tasks with action "act", and of those that finish.
func addListener(t *testing.T, h *heardStore) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	awaiting := newHeardStoreOn(t, h.pool, stint.Options{}).await(ctx, t, 1)
	eventually(t, soon, "both sessions listen", func() bool {
		return listeners(t, h.pool, "ready act") == 2 && listeners(t, h.pool, "finished") == 2
	})
	leave()
	_, err := ends(t, "WaitToOwnTasks", awaiting)
	wantErr(t, "WaitToOwnTasks", err, context.Canceled)
}

func wantFewLooks(t *testing.T, h *heardStore) {
	t.Helper()
	const rounds, every = 200, 100 * time.Millisecond
	began, looked := time.Now(), h.spy.count("next_due")
	for i := range rounds {
		id := stint.TaskID(fmt.Sprint(i))
		awaiting := start(func() ([]stint.OwnedTask, error) {
			return h.WaitToOwnTasks(t.Context(), "actor", 10, []string{"act"}, time.Hour)
		})
		for range 3 { // meanwhile it would look
			exec(t, h.pool, "SELECT pg_sleep(0.001)")
		}
		insert(t, h.Store, after(id))
		wantOwned(t, awaiting, id)
	}
	// Some are told again of tasks that they have just been given.
	most := int(time.Since(began)/every) + rounds/10
	if looks := h.spy.count("next_due") - looked; looks > most {
		t.Errorf("%d looks in vain in %d waits, want %d at most", looks, rounds, most)
	}
}

// Who waits in the process that inserts is woken by the commit: the server sends nothing to it.
// Others hear of the tasks.
// Proves G207.
func TestWaitToOwnTasks_IsWokenByTheCommitOfItsOwnProcess(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const rounds = 20
	h := newHeardStore(t, stint.Options{})
	conn, err := pgx.ConnectConfig(t.Context(), h.pool.Config().ConnConfig)
	wantErr(t, "Connect", err, nil)
	defer conn.Close(context.WithoutCancel(t.Context()))
	_, err = conn.Exec(t.Context(), "LISTEN stint")
	wantErr(t, "LISTEN", err, nil)
	inserts := func(prefix string) {
		for i := range rounds {
			awaiting := h.await(t.Context(), t, 1)
			id := stint.TaskID(prefix + fmt.Sprint(i))
			insert(t, h.Store, after(id))
			wantOwned(t, awaiting, id)
		}
	}
	heard := func() (n int) {
		_, err := conn.Exec(t.Context(), "NOTIFY stint, 'last'")
		wantErr(t, "NOTIFY", err, nil)
		for {
			notification, err := conn.WaitForNotification(t.Context())
			wantErr(t, "WaitForNotification", err, nil)
			switch notification.Payload {
			case "ready act":
				n++
			case "last":
				return n
			}
		}
	}
	inserts("alone ")
	if n := heard(); n > 0 {
		t.Errorf("the server sent %d notifications, though nobody else listens", n)
	}
	addListener(t, h)
	inserts("two ")
	if n := heard(); n == 0 {
		t.Error("the server sent nothing to another process that listens")
	}
}

// A call that fails has sent nothing, so the session passes over nothing that comes later.
// Proves G207.
func TestWaitToOwnTasks_HearsOfATransactionBehindCallsThatFailed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool := poolOf(t, testdb.New(t), func(config *pgxpool.Config) { config.MaxConns = 1 })
	options := stint.Options{PollInterval: pollNever, Maintenance: stint.MaintainNever}
	store := openStore(t, pool, options)
	insert(t, store, after("a"))
	own(t, store, 1)
	awaiting := start(func() ([]stint.OwnedTask, error) {
		return store.WaitToOwnTasks(ctx, "actor", 1, []string{"act"}, time.Hour)
	})
	eventually(t, soon, "the session listens", func() bool {
		return listeners(t, pool, "ready act") == 1
	})
	for range 3 {
		awaitNotifier(store) // so that the next notification goes along
		err := store.InsertTasks(ctx, []stint.Task{after("b"), after("a")})
		wantErr(t, "InsertTasks", err, stint.ErrTaskExists)
	}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		return store.WithTx(tx).InsertTasks(ctx, []stint.Task{after("c")})
	})
	wantErr(t, "the transaction", err, nil)
	wantOwned(t, awaiting, "c")
}

// A notification takes effect with the commit that it tells of, unless another commit is about to
// notify, which it would wait for.
// Proves G207.
func TestWaitToOwnTasks_HearsOfACommitWithItOrBehindIt(t *testing.T) {
	t.Parallel()
	for name, locked := range map[string]bool{"with it": false, "behind it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			waits := newHeardStore(t, stint.Options{})
			inserts := newHeardStoreOn(t, waits.pool, stint.Options{})
			awaiting := waits.await(t.Context(), t, 1)
			if locked {
				tx, err := waits.pool.Begin(t.Context())
				wantErr(t, "Begin", err, nil)
				defer func() {
					wantErr(t, "Rollback", tx.Rollback(context.WithoutCancel(t.Context())), nil)
				}()
				_, err = tx.Exec(t.Context(),
					"SELECT pg_advisory_xact_lock('stint.sessions'::regclass::oid::integer, 0)")
				wantErr(t, "the lock", err, nil)
			}
			awaitNotifier(inserts.Store)
			along, behind := inserts.spy.count("notify_along"), inserts.spy.count("notify")
			insert(t, inserts.Store, after("a"))
			wantOwned(t, awaiting, "a")
			if locked {
				behind++
				inserts.spy.sees(t, "notify", behind)
			}
			wantErr(t, "Close", inserts.Close(t.Context()), nil) // sends what is left
			if n := inserts.spy.count("notify_along") - along; n != 1 {
				t.Errorf("%d statements notified with the commit", n)
			}
			if n := inserts.spy.count("notify") - behind; n != 0 {
				t.Errorf("%d more notified behind it", n)
			}
		})
	}
}

// A transaction tells nothing to a store that begins to listen before its commit. The store looks
// again soon, and has the tasks then.
// Proves G207.
func TestWaitToOwnTasks_LooksAgainForCommitsThatDidNotKnowOfIt(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	options := stint.Options{PollInterval: pollNever, Maintenance: stint.MaintainNever}
	const attempts = 10 // the commit comes too late if the machine takes a second for it
	for i := range attempts {
		action, id := fmt.Sprint("act ", i), stint.TaskID(fmt.Sprint(i))
		waits := openStore(t, pool, options)
		tx, err := pool.Begin(t.Context())
		wantErr(t, "Begin", err, nil)
		err = waits.WithTx(tx).InsertTasks(t.Context(), []stint.Task{{ID: id, Action: action}})
		wantErr(t, "InsertTasks", err, nil)
		ctx, leave := context.WithCancel(t.Context())
		awaiting := start(func() ([]stint.OwnedTask, error) {
			return waits.WaitToOwnTasks(ctx, "actor", 1, []string{action}, time.Hour)
		})
		eventually(t, soon, "the session listens", func() bool {
			return listeners(t, pool, "ready "+action) == 1
		})
		exec(t, pool, "SELECT pg_sleep(0.3)") // meanwhile it looks for the first time
		wantErr(t, "Commit", tx.Commit(t.Context()), nil)
		select {
		case done := <-awaiting:
			wantErr(t, "WaitToOwnTasks", done.err, nil)
			leave()
			return
		case <-time.After(5 * time.Second):
			leave()
			<-awaiting
		}
	}
	t.Errorf("a store missed each of %d tasks", attempts)
}
