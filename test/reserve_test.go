package stint_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// reserved returns a pool with one connection, and counts its uses of the hooks of connections that
// are acquired. While full is true, the server has no room for another connection.
func reserved(
	t *testing.T, direct *pgxpool.Pool,
) (pool *pgxpool.Pool, full *atomic.Bool, prepared, released *atomic.Int64) {
	t.Helper()
	full, prepared, released = &atomic.Bool{}, &atomic.Int64{}, &atomic.Int64{}
	pool = poolOf(t, direct, func(config *pgxpool.Config) {
		config.MaxConns = 1
		config.ConnConfig.RuntimeParams["application_name"] = "reserved"
		config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
			// The pool may make its own anew.
			if full.Load() && pool.Stat().TotalConns() > pool.Stat().ConstructingConns() {
				return errNoServer
			}
			return nil
		}
		config.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) {
			prepared.Add(1)
			return true, nil
		}
		config.AfterRelease = func(*pgx.Conn) bool {
			released.Add(1)
			return true
		}
	})
	return pool, full, prepared, released
}

// holdPool takes the only connection of a pool.
func holdPool(t *testing.T, pool *pgxpool.Pool) *pgxpool.Conn {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	wantErr(t, "Acquire", err, nil)
	t.Cleanup(conn.Release)
	return conn
}

// Whatever holds the pool, the verbs of owners do not wait for it.
// Proves G106.
func TestOwners_DoNotWaitForThePool(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, pollOnly := range map[string]bool{"listening": false, "poll only": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := testdb.New(t)
			pool, _, prepared, released := reserved(t, direct)
			logger, logged := record()
			store := openStore(t, pool, stint.Options{
				Maintenance: stint.MaintainNever, PollOnly: pollOnly, Logger: logger,
			})
			insert(t, store, numbered("task", 8)...)
			owned := own(t, store, 8)
			held := holdPool(t, pool)
			prepared.Store(0)
			released.Store(0)
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			kept, err := store.ExtendTasksOwnership(ctx, "actor", owned, time.Hour)
			if wantErr(t, "ExtendTasksOwnership", err, nil); len(kept) != 8 || !kept[7] {
				t.Errorf("kept %v", kept)
			}
			wantErr(t, "SetStatus", store.SetStatus(ctx, owned[0], "half-way", 0.5), nil)
			_, err = store.RecordStep(ctx, owned[0], "step", []byte("done"))
			wantErr(t, "RecordStep", err, nil)
			_, err = store.Steps(ctx, owned[0])
			wantErr(t, "Steps", err, nil)
			_, err = store.Inputs(ctx, owned[0])
			wantErr(t, "Inputs", err, nil)
			wantErr(t, "ReturnTask", store.ReturnTask(ctx, owned[0].ID, owned[0].Token, "",
				stint.StatusCompleted), nil)
			verdicts, _, err := store.ReturnAndOwnTasks(ctx, completed(owned[1:3]), stint.Want{})
			wantErr(t, "ReturnAndOwnTasks", errors.Join(append(verdicts, err)...), nil)
			// In the transaction that holds the connection, a return keeps no neighbour waiting.
			tx, err := held.Begin(ctx)
			wantErr(t, "Begin", err, nil)
			wantErr(t, "ReturnTask in the transaction", store.WithTx(tx).ReturnTask(ctx,
				owned[3].ID, owned[3].Token, "", stint.StatusCompleted), nil)
			verdicts, err = store.ReturnTasks(ctx, completed(owned[4:]))
			wantErr(t, "ReturnTasks", errors.Join(append(verdicts, err)...), nil)
			wantErr(t, "Commit", tx.Commit(ctx), nil)
			if prepared.Load() == 0 || released.Load() < prepared.Load() {
				t.Errorf("hooks: %d prepared, %d released", prepared.Load(), released.Load())
			}
			if text := logged.String(); !strings.Contains(text, "all 1 connections of the pool") {
				t.Errorf("the log does not name the pool:\n%s", text)
			}
			held.Release()
			wantChecked(t, openStore(t, direct, stint.Options{}))
			wantErr(t, "Close", store.Close(t.Context()), nil)
			pool.Reset()
			eventually(t, soon, "no connection is left", func() bool {
				return yields[int](t, direct, `SELECT count(*) FROM pg_stat_activity
					WHERE datname = current_database() AND application_name = 'reserved'`) <= 1
			})
		})
	}
}

// Where the server has no room for another connection, heartbeats that give up and are made again
// keep their place among those who wait for the pool.
// Proves G106.
func TestOwners_KeepTheirPlaceInThePool(t *testing.T) {
	t.Parallel()
	direct := testdb.New(t)
	pool, full, _, _ := reserved(t, direct)
	store := openStore(t, pool, stint.Options{
		Maintenance: stint.MaintainNever, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	insert(t, store, after("task"))
	owned := own(t, store, 1)
	full.Store(true)
	held := holdPool(t, pool)
	beat := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		return errOf(store.ExtendTasksOwnership(ctx, "actor", owned, time.Hour))
	}
	err := beat()
	wantErr(t, "heartbeat", err, context.DeadlineExceeded)
	if !strings.Contains(err.Error(), "all 1 connections of the pool are in use") {
		t.Errorf("the error does not name the pool: %v", err)
	}
	// Somebody is always ahead of a heartbeat that begins to wait now.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 5 {
		go func() {
			for ctx.Err() == nil {
				_, _ = pool.Exec(ctx, "SELECT pg_sleep(0.1)")
			}
		}()
	}
	eventually(t, soon, "others wait", func() bool { return pool.Stat().EmptyAcquireCount() > 2 })
	held.Release()
	eventually(t, soon, "a heartbeat gets through", func() bool { return beat() == nil })
}

// A call that waits for a lock holds up no heartbeat.
// Proves G106.
func TestOwners_WaitForLocksApart(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	direct := testdb.New(t)
	pool, _, _, _ := reserved(t, direct)
	store := openStore(t, pool, stint.Options{
		Maintenance: stint.MaintainNever, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	insert(t, store, after("locked"))
	locked := own(t, store, 1)
	insert(t, store, after("free"))
	free := own(t, store, 1)
	tx := begin(t, direct)
	wantErr(t, "HoldOwnership", store.WithTx(tx).HoldOwnership(t.Context(), locked), nil)
	holdPool(t, pool)
	returned := start(func() (struct{}, error) {
		return struct{}{}, store.ReturnTask(t.Context(), "locked", locked[0].Token, "",
			stint.StatusCompleted)
	})
	eventually(t, soon, "the return waits for the lock", func() bool {
		return yields[int](t, direct, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	})
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	wantErr(t, "ExtendTasksOwnership",
		errOf(store.ExtendTasksOwnership(ctx, "actor", free, time.Hour)), nil)
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	wantErr(t, "ReturnTask", (<-returned).err, nil)
}

// A reserve that the server has ended while nobody used it is opened anew. The pool would close it
// at its age, and the end of the store closes it in any case.
func TestOwners_UseNoReserveThatIsGone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	direct := testdb.New(t)
	pool, _, _, _ := reserved(t, direct)
	store := openStore(t, pool, stint.Options{
		Maintenance: stint.MaintainNever, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	insert(t, store, after("task"))
	owned := own(t, store, 1)
	held := holdPool(t, pool)
	beat := func() (pid int) {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		wantErr(t, "ExtendTasksOwnership",
			errOf(store.ExtendTasksOwnership(ctx, "actor", owned, time.Hour)), nil)
		return yields[int](t, direct, `SELECT max(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'reserved'
				AND pid <> $1`, held.Conn().PgConn().PID())
	}
	first := beat()
	if again := beat(); again != first {
		t.Errorf("the reserve is opened for each call")
	}
	exec(t, direct, "SELECT pg_terminate_backend($1, 10000)", first)
	if again := beat(); again == first {
		t.Errorf("the reserve is used after its end")
	}
}
