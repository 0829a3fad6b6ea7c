//go:build unix

package moves_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A pair is a primary and a standby that was left behind, and an address that leads to one of them.
type pair struct {
	primary, standby *testdb.Server
	host             atomic.Value
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{primary: testdb.NewServer(t, "", nil)}
	bin := p.primary.Bin(t, "pg_basebackup")
	migrate(t, p.primary.Pool(t))
	dir := testdb.NewDir(t, p.primary.Data())
	data := filepath.Join(dir, "data")
	p.primary.Exec(t, filepath.Join(bin, "pg_basebackup"), "--checkpoint", "fast",
		"--no-manifest", "--pgdata", data, "--dbname", p.primary.Address(t, "postgres"))
	signal := filepath.Join(data, "standby.signal")
	wantErr(t, "WriteFile", os.WriteFile(signal, nil, 0o600), nil)
	p.primary.Own(t, signal)
	p.standby = testdb.NewServer(t, dir, nil)
	return p
}

// leads makes the address lead to a server. Connections that were made before stay where they are.
func (p *pair) leads(t *testing.T, to *testdb.Server) {
	t.Helper()
	p.host.Store(to.Pool(t).Config().ConnConfig.Host)
}

// pool returns a pool on the address.
func (p *pair) pool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	config := p.primary.Pool(t).Config()
	config.MaxConns = 6
	config.BeforeConnect = func(_ context.Context, conn *pgx.ConnConfig) error {
		conn.Host, _ = p.host.Load().(string)
		return nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	wantErr(t, "NewWithConfig", err, nil)
	t.Cleanup(pool.Close)
	return pool
}

// fill makes all connections of a pool.
func fill(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for range pool.Config().MaxConns {
		conn, err := pool.Acquire(t.Context())
		wantErr(t, "Acquire", err, nil)
		defer conn.Release()
	}
}

// A lockedBuffer is what a logger has written.
type lockedBuffer struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.Write(text)
}

func (b *lockedBuffer) count(part string) int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return strings.Count(b.text.String(), part)
}

// Connections to a standby, made while the address led there, are given up by the first call that
// needs a primary, all that are idle at once, and the call is none the wiser.
// Proves G297.
func TestFailover_GivesUpConnectionsToAStandby(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	p := newPair(t)
	for _, pollOnly := range []bool{true, false} {
		p.leads(t, p.standby)
		pool, log := p.pool(t), &lockedBuffer{}
		fill(t, pool)
		store, err := stint.New(pool, stint.Options{
			PollOnly: pollOnly, PollInterval: 20 * time.Millisecond,
			Maintenance: stint.MaintainNever, Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		wantErr(t, "New", err, nil)
		defer func() { wantErr(t, "Close", store.Close(context.WithoutCancel(t.Context())), nil) }()
		_, err = store.ListTasks(t.Context(), stint.Filter{})
		wantErr(t, "ListTasks at a standby", err, nil)
		err = store.InsertTasks(t.Context(), named("at the standby", 1))
		if err == nil || !strings.Contains(err.Error(), "target_session_attrs=read-write") {
			t.Errorf("InsertTasks at a standby = %v, want what to do", err)
		}
		fill(t, pool)

		p.leads(t, p.primary)
		few := named(fmt.Sprint("few ", pollOnly), 2)
		many := named(fmt.Sprint("many ", pollOnly), 100)
		calls := map[string]func() error{
			"InsertTasks": func() error { return store.InsertTasks(t.Context(), few) },
			"InsertTasks of many": func() error {
				return store.InsertTasks(t.Context(), many)
			},
			"OwnTasks": func() error {
				_, err := store.OwnTasks(t.Context(), "a", 1, []string{"bulk"}, time.Hour)
				return err
			},
			"Maintain": func() error { return store.Maintain(t.Context()) },
			"Prune":    func() error { _, err := store.Prune(t.Context()); return err },
		}
		for name, call := range calls {
			p.leads(t, p.standby)
			pool.Reset()
			fill(t, pool)
			p.leads(t, p.primary)
			wantErr(t, name, call(), nil)
			for _, conn := range pool.AcquireAllIdle(t.Context()) {
				if conn.Conn().PgConn().ParameterStatus("in_hot_standby") == "on" {
					t.Errorf("behind %s the pool still has connections to the standby", name)
				}
				conn.Release()
			}
		}
		if log.count("leads to a standby") == 0 || log.count("works again") == 0 {
			t.Errorf("the log does not say so: %s", log.text.String())
		}
	}
}

// Who waits goes on when the address leads to a primary again: to own tasks, and for tasks.
// Proves G297.
func TestFailover_WaitsGoOnAtThePrimary(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, pollOnly := range []bool{true, false} {
		p := newPair(t)
		p.leads(t, p.primary)
		pool := p.pool(t)
		store, err := stint.New(pool, stint.Options{
			PollOnly: pollOnly, PollInterval: 20 * time.Millisecond,
			Maintenance: stint.MaintainNever,
		})
		wantErr(t, "New", err, nil)
		defer func() { wantErr(t, "Close", store.Close(context.WithoutCancel(t.Context())), nil) }()
		wantErr(t, "InsertTasks", store.InsertTasks(t.Context(), []stint.Task{
			{ID: "waited", Action: "waited", PostResult: true},
		}), nil)
		finished, owned := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := store.WaitForTask(t.Context(), "waited")
			finished <- err
		}()
		go func() {
			for {
				tasks, err := store.WaitToOwnTasks(
					t.Context(), "a", 1, []string{"later"}, time.Hour)
				if len(tasks) > 0 || t.Context().Err() != nil {
					owned <- err
					return
				}
			}
		}()
		other := openStore(t, p.primary.Pool(t))
		eventually(t, "both wait", func() bool { return pool.Stat().AcquireCount() > 10 })
		p.leads(t, p.standby)
		pool.Reset()
		fill(t, pool)
		before := pool.Stat().AcquireCount()
		eventually(t, "both have looked", func() bool {
			return pool.Stat().AcquireCount() > before+10
		})
		p.leads(t, p.primary)
		tasks, err := other.OwnTasks(t.Context(), "b", 1, []string{"waited"}, time.Hour)
		if wantErr(t, "OwnTasks", err, nil); len(tasks) != 1 {
			t.Fatalf("OwnTasks = %v", tasks)
		}
		wantErr(t, "ReturnTask", other.ReturnTask(t.Context(), "waited", tasks[0].Token, "",
			stint.StatusCompleted), nil)
		wantErr(t, "InsertTasks", other.InsertTasks(t.Context(), []stint.Task{
			{ID: "later", Action: "later"},
		}), nil)
		for what, ended := range map[string]chan error{
			"WaitForTask": finished, "WaitToOwnTasks": owned,
		} {
			select {
			case err := <-ended:
				wantErr(t, what, err, nil)
			case <-time.After(2 * time.Minute):
				t.Fatalf("%s goes on waiting at a standby (polls only: %t)", what, pollOnly)
			}
		}
	}
}

// The pool is the caller's, and so are transactions that they begin there: when a verb has met a
// standby in one, the next ones are begun at the primary, with nobody else using the store.
// Proves G297.
func TestFailover_GivesUpConnectionsOfTheCallersTransactions(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	p := newPair(t)
	p.leads(t, p.standby)
	pool := p.pool(t)
	fill(t, pool)
	p.leads(t, p.primary)
	store, err := stint.New(pool, stint.Options{PollOnly: true, Maintenance: stint.MaintainNever})
	wantErr(t, "New", err, nil)
	defer func() { wantErr(t, "Close", store.Close(context.WithoutCancel(t.Context())), nil) }()
	failures := 0
	eventually(t, "a transaction at the primary", func() bool {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return store.WithTx(tx).InsertTasks(t.Context(), named("in", 2))
		})
		if err != nil && failures == 0 && !strings.Contains(err.Error(), "standby") {
			t.Errorf("InsertTasks in a transaction at a standby = %v", err)
		}
		failures++
		return err == nil
	})
}
