//go:build unix

package testdb

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/localpg"
	"github.com/stint-tasks/stint/migrations"
)

// A CrashServer is a private PostgreSQL that can crash, with the tables of Stint.
type CrashServer struct{ url, dir string }

// NewCrashServer starts a server that writes out what is committed as late as it can, unless a
// commit waits for it. It stops when the test ends.
func NewCrashServer(tb testing.TB) *CrashServer {
	tb.Helper()
	s := &CrashServer{}
	s.start(tb, localpg.Config{
		Settings: map[string]string{"wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"},
	})
	conn := s.connect(tb)
	var data string
	if err := conn.QueryRow(tb.Context(), "SHOW data_directory").Scan(&data); err != nil {
		tb.Fatal(err)
	}
	s.dir = filepath.Dir(data)
	if err := migrations.Migrate(tb.Context(), conn); err != nil {
		tb.Fatal(err)
	}
	return s
}

// NewLonelyServer starts a server whose commits wait for a standby that there is not, except those
// of [CrashServer.PoolThatNeedNotWait]. It stops when the test ends.
func NewLonelyServer(tb testing.TB) *CrashServer {
	tb.Helper()
	s := &CrashServer{}
	s.start(tb, localpg.Config{Settings: map[string]string{
		"synchronous_standby_names": "nobody",
	}})
	pool := s.PoolThatNeedNotWait(tb)
	err := pool.AcquireFunc(tb.Context(), func(conn *pgxpool.Conn) error {
		return migrations.Migrate(tb.Context(), conn.Conn())
	})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// PoolThatNeedNotWait returns a pool whose commits wait for no standby, closed when the test ends.
func (s *CrashServer) PoolThatNeedNotWait(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	config, err := pgxpool.ParseConfig(s.url)
	if err != nil {
		tb.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "local"
	pool, err := pgxpool.NewWithConfig(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

func (s *CrashServer) start(tb testing.TB, config localpg.Config) {
	tb.Helper()
	use, err := localpg.Start(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := use.Close(); err != nil {
			tb.Errorf("stop the server: %v", err)
		}
	})
	s.url = use.URL("postgres")
}

func (s *CrashServer) connect(tb testing.TB) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), s.url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) })
	return conn
}

// Pool returns a pool on the server, closed when the test ends.
func (s *CrashServer) Pool(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	pool, err := pgxpool.New(tb.Context(), s.url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

// Crash stops the server on the spot, as pg_ctl stop -m immediate does: it writes nothing out. It
// returns when the server has broken its connections.
func (s *CrashServer) Crash(tb testing.TB) {
	tb.Helper()
	const late = 2 * time.Minute
	conn := s.connect(tb)
	text, err := os.ReadFile(filepath.Join(s.dir, "data", "postmaster.pid"))
	if err != nil {
		tb.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		tb.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), late)
	defer cancel()
	// Nobody notifies this connection, so the wait ends when the server breaks it.
	_, _ = conn.WaitForNotification(ctx)
	if err := ctx.Err(); err != nil {
		tb.Fatalf("the wait for the end of the server: %v", err)
	}
}

// Restart starts the server again, with the usual settings.
func (s *CrashServer) Restart(tb testing.TB) {
	tb.Helper()
	s.start(tb, localpg.Config{Dir: s.dir})
}
