//go:build unix && !aix && !solaris

package localpg

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

//go:embed testdata/keep.sql
var keepSQL string

//go:embed testdata/read.sql
var readSQL string

// quick makes test servers start faster; nothing in these tests crashes the machine.
var quick = map[string]string{"fsync": "off"}

const (
	helperEnv    = "STINT_TEST_LOCALPG_HELPER"
	helperDirEnv = "STINT_TEST_LOCALPG_DIR"
)

// TestMain runs the tests, or, in a process that a test started, a program that uses a server.
func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		if err := helper(os.Getenv(helperDirEnv)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	// Temporary servers of other programs are none of our business, nor ours of theirs.
	dir, err := "", testrun.Prepare()
	if err == nil {
		dir, err = os.MkdirTemp("", "localpg-")
	}
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), os.Setenv("TMPDIR", dir))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(code)
}

// helper is a program as the package expects it: it closes its server after Ctrl-C.
func helper(dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	server, err := Start(ctx, Config{Dir: dir, Settings: quick})
	if err != nil {
		return err
	}
	fmt.Println("ready", filepath.Dir(server.socketDir))
	<-ctx.Done()
	if err := connect(context.Background(), server); err != nil {
		return errors.Join(errors.New("the signal reached the server"), err, server.Close())
	}
	fmt.Println("interrupted, and the server still answers")
	if err := server.Close(); err != nil {
		return err
	}
	fmt.Println("closed")
	return nil
}

// process is a running helper, in a process group of its own.
type process struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	dir   string // Of its server.
}

// startHelper returns when the helper's server answers.
func startHelper(t *testing.T, dir string) *process {
	t.Helper()
	cmd := exec.CommandContext(testContext(t), os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"=1", helperDirEnv+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, lines: bufio.NewScanner(out)}
	p.dir = strings.TrimPrefix(p.line(t), "ready ")
	if !filepath.IsAbs(p.dir) {
		t.Fatalf("helper says %q, want the directory of its server", p.dir)
	}
	return p
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	if !p.lines.Scan() {
		t.Fatalf("helper ended: %v", errors.Join(p.lines.Err(), p.cmd.Wait()))
	}
	return p.lines.Text()
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // It says that the process was killed.
}

// testContext ends long before the limit of the whole test binary.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// persistentDir returns a directory that does not exist yet and that the server's account, when the
// tests run as root, could reach. (The parents of t.TempDir are closed to it.)
func persistentDir(t *testing.T) string {
	t.Helper()
	base, err := os.MkdirTemp("", "localpg-test-") //nolint:usetesting // See above.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	base, err = canonical(base)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(base, "server")
}

// mustStart starts a server that the test closes, at the latest when it ends.
func mustStart(t *testing.T, dir string) *Server {
	t.Helper()
	server, err := Start(testContext(t), Config{Dir: dir, Settings: quick})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func mustClose(t *testing.T, server *Server) {
	t.Helper()
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
}

func connect(ctx context.Context, server *Server) error {
	conn, err := pgconn.Connect(ctx, server.URL("postgres"))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// query runs a script and returns the first field of its last result.
func query(t *testing.T, server *Server, script string) string {
	t.Helper()
	ctx := testContext(t)
	conn, err := pgconn.Connect(ctx, server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	results, err := conn.Exec(ctx, script).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	rows := results[len(results)-1].Rows
	if len(rows) == 0 {
		return ""
	}
	return string(rows[0][0])
}

// serverDirOf looks at the directory of a server from outside.
func serverDirOf(t *testing.T, dir string) *serverDir {
	t.Helper()
	a, err := serverAccount(filepath.Join(dir, dataName))
	if err != nil {
		t.Fatal(err)
	}
	return &serverDir{dir: dir, account: a}
}

func pidOf(t *testing.T, dir string) int {
	t.Helper()
	status, err := serverDirOf(t, dir).status()
	if err != nil {
		t.Fatal(err)
	}
	return status.pid
}

// wantNoServer fails the test unless every process of the directory's server is gone.
func wantNoServer(t *testing.T, dir string) {
	t.Helper()
	lock, err := serverDirOf(t, dir).tryServerLock()
	if err != nil {
		t.Fatal(err)
	}
	if lock == nil {
		t.Fatalf("a process of the server in %s is alive, want none", dir)
	}
	if err := unlock(lock); err != nil {
		t.Fatal(err)
	}
}

// wantGone fails the test unless the process is gone. A process whose parent was killed is reaped
// by another one, in its own time.
func wantGone(t *testing.T, pid int) {
	t.Helper()
	err := poll(testContext(t), func() (bool, error) {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH), nil
	})
	if err != nil {
		t.Fatalf("process %d is alive, want it gone: %v", pid, err)
	}
}

// fakePrograms writes programs that a server's account can run; postgres knows its version.
func fakePrograms(t *testing.T, major, initdb, postgres string) string {
	t.Helper()
	dir := persistentDir(t)
	version := "[ \"$1\" = --version ] && exec echo 'postgres (PostgreSQL) " + major + ".1'\n"
	for name, script := range map[string]string{"initdb": initdb, "postgres": version + postgres} {
		if err := makeOpenDirs(dir); err != nil {
			t.Fatal(err)
		}
		text := []byte("#!/bin/sh\n" + script + "\n")
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// realPrograms returns the directory of the programs that Start uses here.
func realPrograms(t *testing.T) binaries {
	t.Helper()
	a, err := serverAccount("")
	if err != nil {
		t.Fatal(err)
	}
	found, err := systemFinder().find(testContext(t), a, "")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// environ is an environment of these variables alone.
func environ(pairs ...string) func(string) string {
	return func(name string) string {
		for _, pair := range pairs {
			if key, value, _ := strings.Cut(pair, "="); key == name {
				return value
			}
		}
		return ""
	}
}

// fifo makes a named pipe that the server's account can write to, and returns a function that waits
// until somebody did.
func fifo(t *testing.T) (path string, wait func()) {
	t.Helper()
	dir := persistentDir(t)
	if err := makeOpenDirs(dir); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "started")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o622); err != nil {
		t.Fatal(err)
	}
	return path, func() {
		if _, err := os.ReadFile(path); err != nil {
			t.Error(err)
		}
	}
}

// bystander starts a process of the server's account that has nothing to do with PostgreSQL.
func bystander(t *testing.T, a account) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	cmd.SysProcAttr = a.attributes()
	cmd.Dir = "/"
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}
