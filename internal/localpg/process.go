//go:build unix && !aix && !solaris

package localpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const pingTimeout = 5 * time.Second

// pidFile is what postmaster.pid says.
type pidFile struct {
	pid       int
	port      int
	socketDir string
	ready     bool
}

func (s *serverDir) status() (pidFile, error) {
	text, err := os.ReadFile(filepath.Join(s.path(dataName), "postmaster.pid"))
	if err != nil {
		return pidFile{}, err
	}
	// The lines: pid, data directory, start time, port, socket directory, listen address, shared
	// memory key, status. The server writes the later ones as it comes to know them.
	lines := append(strings.Split(string(text), "\n"), make([]string, 8)...)
	status := pidFile{socketDir: lines[4], ready: strings.TrimSpace(lines[7]) == "ready"}
	if status.pid, err = strconv.Atoi(lines[0]); err != nil || status.pid < 2 {
		return pidFile{}, fmt.Errorf("postmaster.pid: %q is no process number", lines[0])
	}
	if status.port, err = strconv.Atoi(lines[3]); err != nil {
		status.port = port
	}
	return status, nil
}

// answers reports whether the server accepts connections, and remembers where. An error means that
// it never will.
func (s *serverDir) answers(ctx context.Context) (bool, error) {
	status, err := s.status()
	if err != nil || !status.ready {
		return false, nil //nolint:nilerr // The server has not written it yet.
	}
	err = ping(ctx, status)
	if ctx.Err() == nil {
		s.unanswered = err
	}
	refusal := (*pgconn.PgError)(nil)
	switch {
	case err == nil, errors.As(err, &refusal) && refusal.Code == tooManyConnections:
		s.socketDir = status.socketDir
		return true, nil
	case refusal != nil && strings.HasPrefix(refusal.Code, invalidAuthorization):
		return false, err
	}
	return false, nil
}

// Error codes of PostgreSQL. The other ones come from a server that starts or stops.
const (
	tooManyConnections   = "53300"
	invalidAuthorization = "28" // A class of codes: this is no server that we made.
)

func ping(ctx context.Context, server pidFile) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	conn, err := pgconn.Connect(ctx, socketURL(server.socketDir, server.port, "postgres"))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// removeStalePIDFile removes the file that a crash of the machine left. PostgreSQL would do so too,
// but not if another process has got the process number since. The caller holds serverLock, so none
// of our servers is alive. A server that was started by hand is found by asking it; if that fails,
// PostgreSQL itself refuses to share the data, because of the shared memory.
func (s *serverDir) removeStalePIDFile(ctx context.Context) error {
	status, err := s.status()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && status.socketDir != "" {
		err, refusal := ping(ctx, status), (*pgconn.PgError)(nil)
		if err == nil || errors.As(err, &refusal) {
			return fmt.Errorf("process %d, a server that was started otherwise, uses %s: stop it",
				status.pid, s.path(dataName))
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return os.Remove(filepath.Join(s.path(dataName), "postmaster.pid"))
}

// child is a process that we started.
type child struct {
	process *os.Process
	exited  chan struct{}
	err     error // Set when exited is closed.
}

// spawn starts a program as the server's account. The goroutine that waits for it ends with it,
// which may be after our Close if the server has other users.
func (s *serverDir) spawn(program string, args []string, lock, log *os.File) (*child, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = s.dir
	cmd.Env = environment(os.Environ())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = s.account.attributes()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run as user %d: %w", s.account.uid, err)
	}
	s.inherited = true
	c := &child{process: cmd.Process, exited: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

// end ends the process, by force if it takes long. Its own children end on their own soon after.
func (c *child) end() {
	_ = c.process.Signal(syscall.SIGQUIT) // An error means that it has exited.
	timer := time.NewTimer(endTimeout)
	defer timer.Stop()
	select {
	case <-c.exited:
	case <-timer.C:
		_ = c.process.Kill()
		<-c.exited
	}
}

// environment removes what would change how PostgreSQL behaves from one user to the next.
func environment(environ []string) []string {
	environ = slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		return strings.HasPrefix(entry, "PG")
	})
	return append(environ, "LC_ALL=C")
}
