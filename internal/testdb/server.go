//go:build unix

package testdb

import (
	"context"
	_ "embed" // for the statement
	"fmt"
	"os"
	"os/exec"
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

//go:embed program_dir.sql
var programDir string

// A Server is a private PostgreSQL of a test's own, which can crash and be moved. Its directory
// stays until the test ends.
type Server struct {
	url, dir string
	stop     func() error
}

// NewServer starts a server with settings on a directory. If that is empty, it makes one, and the
// server is empty. It stops when the test ends.
func NewServer(tb testing.TB, dir string, settings map[string]string) *Server {
	tb.Helper()
	s := &Server{dir: dir}
	if dir == "" {
		s.dir = NewDir(tb, "")
	}
	s.start(tb, localpg.Config{Dir: s.dir, Settings: settings})
	return s
}

// NewDir makes a directory that lasts until the test ends. It belongs to the account that owns a
// path, or to this one.
func NewDir(tb testing.TB, like string) string {
	tb.Helper()
	//nolint:usetesting // tb.TempDir is closed to other accounts, and too long for sockets
	dir, err := os.MkdirTemp("", "stint-server-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	if like != "" {
		own(tb, dir, like)
	}
	return dir
}

// own gives a file to the account that owns another one.
func own(tb testing.TB, path, like string) {
	tb.Helper()
	uid, gid := ownerOf(tb, like)
	if err := os.Chown(path, int(uid), int(gid)); err != nil {
		tb.Fatal(err)
	}
}

// Own gives a file to the account of the server.
func (s *Server) Own(tb testing.TB, path string) {
	tb.Helper()
	own(tb, path, s.Data())
}

// Dir is the directory of the server.
func (s *Server) Dir() string { return s.dir }

// Data is the directory that holds the data.
func (s *Server) Data() string { return filepath.Join(s.dir, "data") }

// Stop stops the server, which breaks its connections. What was committed stays.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	if err := s.stop(); err != nil {
		tb.Fatal(err)
	}
}

// Address is how libpq names a database of the server.
func (s *Server) Address(tb testing.TB, database string) string {
	tb.Helper()
	config, err := pgx.ParseConfig(s.url)
	if err != nil {
		tb.Fatal(err)
	}
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s", config.Host, config.Port, config.User,
		database)
}

// Bin is the directory of the server's programs. If one of those that a test wants is not there,
// the test is skipped.
func (s *Server) Bin(tb testing.TB, programs ...string) string {
	tb.Helper()
	var bin string
	if err := s.connect(tb).QueryRow(tb.Context(), programDir).Scan(&bin); err != nil {
		tb.Fatal(err)
	}
	for _, name := range programs {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			tb.Skipf("there is no %s here to test with: install PostgreSQL's packages", name)
		}
	}
	return bin
}

// Exec runs a program as the account of the server.
func (s *Server) Exec(tb testing.TB, program string, args ...string) {
	tb.Helper()
	//nolint:gosec // a program of PostgreSQL
	command := exec.CommandContext(tb.Context(), program, args...)
	command.Dir = NewDir(tb, s.Data())
	if os.Geteuid() == 0 {
		uid, gid := ownerOf(tb, s.Data())
		command.SysProcAttr = &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: uid, Gid: gid},
		}
	}
	if said, err := command.CombinedOutput(); err != nil {
		tb.Fatalf("%s: %v\n%s", filepath.Base(program), err, said)
	}
}

func ownerOf(tb testing.TB, path string) (uid, gid uint32) {
	tb.Helper()
	info, err := os.Stat(path)
	if err != nil {
		tb.Fatal(err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		tb.Fatalf("%s has no owner", path)
	}
	return stat.Uid, stat.Gid
}

// NewCrashServer starts a server that writes out what is committed as late as it can, unless a
// commit waits for it. It stops when the test ends.
func NewCrashServer(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{}
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
// of [Server.PoolThatNeedNotWait]. It stops when the test ends.
func NewLonelyServer(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{}
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
func (s *Server) PoolThatNeedNotWait(tb testing.TB) *pgxpool.Pool {
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

func (s *Server) start(tb testing.TB, config localpg.Config) {
	tb.Helper()
	config.Announce = tb.Logf
	use, err := localpg.Start(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := use.Close(); err != nil {
			tb.Errorf("stop the server: %v", err)
		}
	})
	s.url, s.stop = use.URL("postgres"), use.Close
}

func (s *Server) connect(tb testing.TB) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), s.url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) })
	return conn
}

// Pool returns a pool on the server, closed when the test ends.
func (s *Server) Pool(tb testing.TB) *pgxpool.Pool {
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
func (s *Server) Crash(tb testing.TB) {
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
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	s.start(tb, localpg.Config{Dir: s.dir})
}
