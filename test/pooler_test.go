//go:build unix

package stint_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// behindPooler starts pgbouncer and returns a pool of up to conns connections through it to the
// database of a pool.
func behindPooler(t *testing.T, pool *pgxpool.Pool, mode string, conns int32) *pgxpool.Pool {
	t.Helper()
	port := testdb.StartPooler(t, pool, mode)
	pooled := poolOf(t, pool, func(config *pgxpool.Config) {
		config.MaxConns = conns
		config.ConnConfig.Host, config.ConnConfig.Port = "127.0.0.1", port
		config.ConnConfig.TLSConfig, config.ConnConfig.Fallbacks = nil, nil
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	})
	eventually(t, soon, "the pooler answers", func() bool {
		return pooled.Ping(t.Context()) == nil
	})
	return pooled
}

// Behind a pooler that gives each transaction another connection, everything works.
// Proves G158, R20.
func TestPooler_PollOnlyDoesEverything(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, mode := range []string{"transaction", "session"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			direct := testdb.New(t)
			t.Cleanup(func() { checkStore(t, direct) })
			exec(t, direct, `DO $$BEGIN EXECUTE format(
				'ALTER DATABASE %I SET synchronous_commit = local', current_database()); END$$`)
			pool := behindPooler(t, direct, mode, 8)
			store := openStore(t, pool, stint.Options{
				PollOnly: true, PollInterval: 50 * time.Millisecond,
				Durability: stint.Opportunistic, // which must not leak to other clients
			})
			//nolint:paralleltest // one after the other, for the log
			t.Run("every verb", func(t *testing.T) {
				wholeLife(t, store, nil)
				tx := begin(t, pool)
				inside := store.WithTx(tx)
				insert(t, inside, stint.Task{ID: "inside", Action: "inside"})
				wantErr(t, "Commit", tx.Commit(t.Context()), nil)
				wantState(t, store, stint.StateReady, "inside")
			})
			//nolint:paralleltest // as above
			t.Run("waiting", func(t *testing.T) { poolerWaits(t, store) })
			//nolint:paralleltest // as above
			t.Run("load", func(t *testing.T) { poolerLoad(t, store) })
			//nolint:paralleltest // as above
			t.Run("expiry", func(t *testing.T) {
				insert(t, store, stint.Task{ID: "short", Action: "short"})
				for try := 1; try <= 2; try++ {
					owned, err := ends(t, "the wait", start(func() ([]stint.OwnedTask, error) {
						return store.WaitToOwnTasks(
							t.Context(), "actor", 1, []string{"short"}, 100*time.Millisecond)
					}))
					if err != nil || len(owned) != 1 || owned[0].Try != try {
						t.Fatalf("WaitToOwnTasks = %v, %v", owned, err)
					}
				}
			})
			if n := yields[int](t, direct, "SELECT count(*) FROM stint.sessions"); n > 0 {
				t.Errorf("%d sessions, want none", n)
			}
			for range 20 { // whichever connection of the pooler this is
				if got := yields[string](t, pool, "SHOW synchronous_commit"); got != "local" {
					t.Fatalf("synchronous_commit is %s afterwards, want local", got)
				}
			}
		})
	}
}

// poolerWaits waits for a network of tasks, and for tasks to become ready.
func poolerWaits(t *testing.T, store *stint.Store) {
	t.Helper()
	ctx := t.Context()
	last := stint.Task{
		ID: "last", Action: stint.Spontaneous, PostResult: true, After: []stint.TaskID{"m", "n"},
	}
	await := func() ([]stint.OwnedTask, error) {
		return store.WaitToOwnTasks(ctx, "actor", 1, []string{"wait"}, time.Hour)
	}
	awaiting := start(await)
	insert(t, store, stint.Task{ID: "m", Action: "wait"}, last, stint.Task{
		ID: "n", Action: "wait", After: []stint.TaskID{"m"}, PostResult: true,
	})
	waiting := start(func() ([]stint.TaskInfo, error) {
		return store.WaitForTasks(ctx, []stint.TaskID{"last", "n"})
	})
	for _, id := range []stint.TaskID{"m", "n"} {
		owned, err := ends(t, "WaitToOwnTasks", awaiting)
		if err != nil || len(owned) != 1 || owned[0].ID != id {
			t.Fatalf("WaitToOwnTasks = %v, %v, want %s", owned, err, id)
		}
		wantGoingOn(t, "WaitForTasks", waiting)
		lost, done := store.OwnershipContext(ctx, owned[0])
		wantOwning(lost, t, "at first")
		done()
		kept, err := store.ExtendTasksOwnership(ctx, "actor", owned, 2*time.Hour)
		if err != nil || !kept[0] {
			t.Errorf("ExtendTasksOwnership = %v, %v", kept, err)
		}
		returnWith(t, store, owned[0], stint.Return{
			Code: stint.StatusCompleted, Result: []byte(id),
		})
		if id == "m" {
			awaiting = start(await)
		}
	}
	infos, err := ends(t, "WaitForTasks", waiting)
	if err != nil || infos[0].State != stint.StateCompleted || string(infos[1].Result) != "n" {
		t.Errorf("WaitForTasks = %+v, %v", infos, err)
	}
	insert(t, store, stint.Task{ID: "o", Action: "wait"})
	owned, err := ends(t, "the wait", start(await))
	wantErr(t, "WaitToOwnTasks", err, nil)
	lost, done := store.OwnershipContext(ctx, owned[0])
	defer done()
	wantErr(t, "AbortTasks", errOf(store.AbortTasks(ctx, []stint.TaskID{"o"}, "")), nil)
	wantLoss(lost, t, "o")
}

// poolerLoad has many callers own and return one task at a time.
func poolerLoad(t *testing.T, store *stint.Store) {
	t.Helper()
	const tasks, goroutines = 1000, 50
	batch := numbered("load", tasks)
	for i := range batch {
		batch[i].Action = "load"
	}
	insert(t, store, batch...)
	var mutex sync.Mutex
	seen := map[stint.TaskID]bool{}
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			for {
				owned, err := store.OwnTasks(t.Context(), "actor", 1, []string{"load"}, time.Hour)
				if err != nil {
					t.Errorf("OwnTasks = %v", err)
				}
				if err != nil || len(owned) == 0 {
					return
				}
				mutex.Lock()
				if seen[owned[0].ID] {
					t.Errorf("%s was given twice", owned[0].ID)
				}
				seen[owned[0].ID] = true
				mutex.Unlock()
				verdicts, err := store.ReturnTasks(t.Context(), completed(owned))
				if err := errors.Join(append(verdicts, err)...); err != nil {
					t.Errorf("ReturnTasks = %v", err)
				}
			}
		})
	}
	group.Wait()
	if len(seen) < tasks*9/10 { // a caller may have found nothing while others held what was left
		t.Errorf("%d of %d tasks were performed", len(seen), tasks)
	}
}

// A store that was not told of the pooler notices: it polls, and binds no actor to a session that
// there cannot be, so nothing is handed on while its owner lives.
// Proves R20.
func TestPooler_IsNoticed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, mode := range []string{"transaction", "session"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			direct := testdb.New(t)
			t.Cleanup(func() { checkStore(t, direct) })
			var log lockedBuffer
			store := openStore(t, behindPooler(t, direct, mode, 8), stint.Options{
				PollInterval: 50 * time.Millisecond, Grace: time.Millisecond,
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			_, err := ends(t, "RegisterActor", start(func() (struct{}, error) {
				return struct{}{}, store.RegisterActor(t.Context(), "actor", []string{"act"})
			}))
			wantErr(t, "RegisterActor", err, nil)
			poolerWaits(t, store)
			insert(t, store, numbered("t", 20)...)
			owned := ownAs(t, store, "actor", 20)
			_, spy := watches(t, direct)
			looksAgain(t, spy)
			wantState(t, store, stint.StateInProgress, idsOf(owned)...)
			verdicts, err := store.ReturnTasks(t.Context(), completed(owned))
			if err := errors.Join(append(verdicts, err)...); err != nil {
				t.Errorf("ReturnTasks = %v", err)
			}
			wantErr(t, "UnregisterActor", store.UnregisterActor(t.Context(), "actor"), nil)
			if !strings.Contains(log.String(), "pooler") {
				t.Errorf("the log does not tell of the pooler: %s", log.String())
			}
			if n := strings.Count(log.String(), "\n"); n > 5 {
				t.Errorf("%d lines in the log:\n%s", n, log.String())
			}
			wantErr(t, "Close", store.Close(t.Context()), nil)
			looksAgain(t, spy)
			if n := yields[int](t, direct, "SELECT count(*) FROM pg_locks "+
				"WHERE locktype = 'advisory' AND mode = 'ShareLock' AND database = (SELECT oid "+
				"FROM pg_database WHERE datname = current_database())"); n > 0 {
				t.Errorf("%d advisory locks are left on the pooler's connections", n)
			}
		})
	}
}

// The pooler's connections are used by others afterwards, who want them as they were.
func TestPooler_ConnectionsStayAsTheyWere(t *testing.T) {
	t.Parallel()
	direct := testdb.New(t)
	exec(t, direct, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET idle_session_timeout = %L',"+
		" current_database(), '1h'); END $$")
	pool := behindPooler(t, direct, "transaction", 2)
	setting := func() string {
		t.Helper()
		return yields[string](t, pool, "SHOW idle_session_timeout")
	}
	if got := setting(); got != "1h" {
		t.Fatalf("idle_session_timeout is %s, want what the database has", got)
	}
	store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	wantErr(t, "RegisterActor", store.RegisterActor(t.Context(), "actor", []string{"act"}), nil)
	if got := setting(); got != "1h" {
		t.Errorf("idle_session_timeout is %s, want what the database has", got)
	}
}

// Behind a pooler that knows no prepared statements, the driver as it is set up by default fails,
// and the error says which setting helps, which does.
// Proves R20.
func TestPooler_WithoutPreparedStatementsIsNamed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	direct := testdb.New(t)
	t.Cleanup(func() { checkStore(t, direct) })
	pool := behindPooler(t, direct, "transaction", 4)
	byDefault := poolOf(t, pool, func(config *pgxpool.Config) {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	})
	store := openStore(t, byDefault, stint.Options{
		PollOnly: true, Maintenance: stint.MaintainNever,
	})
	var failed error
	// Until two calls meet on one connection.
	for i, begun := 0, time.Now(); failed == nil && time.Since(begun) < soon; i++ {
		calls := make([]<-chan outcome[any], 4)
		for k := range calls {
			task := stint.Task{ID: stint.TaskID(fmt.Sprint(i, " ", k)), Action: "act"}
			calls[k] = start(func() (any, error) {
				return nil, store.ReplaceTasks(t.Context(), []stint.Task{task})
			})
		}
		for _, call := range calls {
			if _, err := ends(t, "ReplaceTasks", call); err != nil {
				failed = err
			}
		}
	}
	if failed == nil || !strings.Contains(failed.Error(), "default_query_exec_mode=exec") {
		t.Errorf("ReplaceTasks = %v", failed)
	}
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		advised := poolOf(t, pool, func(config *pgxpool.Config) {
			config.ConnConfig.DefaultQueryExecMode = mode
		})
		store := openStore(t, advised, stint.Options{
			PollOnly: true, Maintenance: stint.MaintainNever,
		})
		everyVerb(t, store, false, mode.String())
	}
}

// A pooler passes on what a connection reads, and keeps it from other connections.
// Proves G296.
func TestPooler_KeepsTextsWhateverTheConnectionReads(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, name := range testrun.Some([]string{
		"LATIN1 of the database", "WIN1251 of the role", "LATIN1 of the URL",
	}) {
		clean := testdb.New(t)
		r := readings()[name]
		if r.set != nil {
			r.set(t, clean, r.setting, r.value)
		}
		pooled := poolOf(t, behindPooler(t, clean, "transaction", 4), func(config *pgxpool.Config) {
			if r.change != nil {
				r.change(config, r.setting, r.value)
			}
		})
		utf8 := utf8Pool(t, clean)
		store := openStore(t, pooled, stint.Options{
			PollOnly: true, PollInterval: 50 * time.Millisecond, Maintenance: stint.MaintainNever,
		})
		plain := openStore(t, utf8, stint.Options{Maintenance: stint.MaintainNever})
		storesTexts(t, store, plain, foreign+"a ")
		storesTexts(t, plain, store, foreign+"b ")
		everyVerb(t, store, false, foreign+"alone ")
		tx := begin(t, pooled)
		everyVerb(t, store.WithTx(tx), true, foreign+"in a transaction ")
		wantErr(t, "Commit", tx.Commit(t.Context()), nil)
		wantForeign(t, utf8)
		checkStore(t, utf8)
	}
}
