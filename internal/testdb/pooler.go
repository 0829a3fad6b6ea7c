//go:build unix

package testdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// StartPooler starts pgbouncer in front of the server of a pool, and returns its port on 127.0.0.1.
// It answers soon, and stops when the test ends. Settings are further lines of its configuration.
func StartPooler(tb testing.TB, pool *pgxpool.Pool, mode string, settings ...string) uint16 {
	tb.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			testrun.Missing(tb, "there is no pgbouncer here: apt-get install pgbouncer")
		}
	}
	command, port, err := poolerCommand(tb, program, pool, mode, settings)
	if err != nil {
		tb.Fatal(err)
	}
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	if err := command.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if tb.Failed() {
			const end = 2000
			tb.Logf("pgbouncer said:\n%s", said.Bytes()[max(0, said.Len()-end):])
		}
	})
	return port
}

func poolerCommand(
	tb testing.TB, program string, pool *pgxpool.Pool, mode string, settings []string,
) (*exec.Cmd, uint16, error) {
	tb.Helper()
	server := pool.Config().ConnConfig
	//nolint:usetesting // tb.TempDir is closed to other accounts
	dir, err := os.MkdirTemp("", "stint-pgbouncer-")
	if err != nil {
		return nil, 0, err
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	port, err := freePort(tb.Context())
	if err != nil {
		return nil, 0, err
	}
	password := ""
	if server.Password != "" {
		password = " password='" + strings.ReplaceAll(server.Password, "'", "''") + "'"
	}
	config := filepath.Join(dir, "pgbouncer.ini")
	//nolint:gosec // for the account that it runs as
	err = errors.Join(os.Chmod(dir, 0o755), os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=%s port=%d user=%s%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = %s
default_pool_size = 10
max_client_conn = 100
%s
`, server.Host, server.Port, server.User, password, port, mode,
		strings.Join(settings, "\n")), 0o600))
	if err != nil {
		return nil, 0, err
	}
	//nolint:gosec // it is pgbouncer
	command := exec.CommandContext(context.WithoutCancel(tb.Context()), program, config)
	command.Dir = "/"
	if os.Geteuid() == 0 { // it refuses to run as root
		uid, gid, err := accountFor(server.Host)
		if err != nil {
			return nil, 0, err
		}
		command.SysProcAttr = &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: uid, Gid: gid},
		}
		if err := os.Chown(config, int(uid), int(gid)); err != nil {
			return nil, 0, err
		}
	}
	return command, port, nil
}

func freePort(ctx context.Context) (uint16, error) {
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		err = errors.New("not a TCP address")
	}
	if err := errors.Join(err, listener.Close()); err != nil {
		return 0, err
	}
	return address.AddrPort().Port(), nil
}

// accountFor is an account that may use the server's socket.
func accountFor(host string) (uid, gid uint32, err error) {
	if strings.HasPrefix(host, "/") {
		info, err := os.Stat(host)
		if err != nil {
			return 0, 0, err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 {
			return stat.Uid, stat.Gid, nil
		}
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return 0, 0, err
	}
	uid64, uidErr := strconv.ParseUint(nobody.Uid, 10, 32)
	gid64, gidErr := strconv.ParseUint(nobody.Gid, 10, 32)
	return uint32(uid64), uint32(gid64), errors.Join(uidErr, gidErr)
}
