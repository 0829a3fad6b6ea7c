//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/chaos/system"
)

func poolerFaults() []Fault {
	needs := []string{poolerProgram}
	return []Fault{
		{
			Name: "pooler-restart", Do: behindPooler((*pooler).restart), Needs: needs,
			Text: "processes reach the server through pgbouncer, a connection for each " +
				"transaction; it restarts",
		},
		{
			Name: "pooler-kill", Do: behindPooler((*pooler).kill), Needs: needs,
			Text: "the same, and pgbouncer is killed and started again",
		},
		{
			Name: "pooler-pause", Do: behindPooler((*pooler).pause), Needs: needs,
			Text: "the same, and pgbouncer pauses: it lets nobody at the server, and resumes",
		},
	}
}

const poolerProgram = "pgbouncer"

// A pooler is a pgbouncer before the server.
type pooler struct {
	s       *system.System
	dir     string
	port    uint16
	process *exec.Cmd
}

// behindPooler is a fault that has all proxies lead to a pooler, which is disturbed several times.
func behindPooler(
	disturb func(*pooler, context.Context, time.Duration) error,
) func(context.Context, *system.System, *rand.Rand, time.Duration) error {
	return func(
		ctx context.Context, s *system.System, r *rand.Rand, d time.Duration,
	) (err error) {
		const shortest, longest = 100 * time.Millisecond, time.Second
		if len(s.Proxies) == 0 {
			return notHere("no process reaches the server through a proxy")
		}
		p, err := newPooler(ctx, s)
		if err != nil {
			return err
		}
		defer heal(ctx, &err, p.end)
		if err := p.start(ctx); err != nil {
			return err
		}
		return leading(ctx, s, p.config(), func(ctx context.Context) error {
			return repeat(ctx, r, d, time.Second, 2*time.Second, func() error {
				pause(ctx, between(r, shortest, longest))
				return disturb(p, ctx, between(r, shortest, longest))
			})
		})
	}
}

// leading calls do while all proxies lead to another server.
func leading(
	ctx context.Context, s *system.System, to *pgx.ConnConfig,
	do func(ctx context.Context) error,
) error {
	back, err := pgx.ParseConfig(s.Server.Address())
	if err != nil {
		return err
	}
	lead := func(to *pgx.ConnConfig) {
		for _, proxy := range s.Proxies {
			proxy.Redirect(to)
			proxy.HangUp()
		}
	}
	lead(to)
	defer lead(back)
	return do(ctx)
}

func newPooler(ctx context.Context, s *system.System) (*pooler, error) {
	dir, err := os.MkdirTemp(s.Dir, "pooler-")
	if err != nil {
		return nil, err
	}
	p := &pooler{s: s, dir: dir}
	if p.port, err = freePort(ctx); err != nil {
		return nil, err
	}
	server, err := pgx.ParseConfig(s.Server.Address())
	if err != nil {
		return nil, err
	}
	const form = `[databases]
* = host=%s port=%d user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 10
max_client_conn = 1000
ignore_startup_parameters = extra_float_digits,search_path,options
`
	text := fmt.Sprintf(form, server.Host, server.Port, server.User, p.port)
	//nolint:gosec // pgbouncer runs as somebody else
	return p, errors.Join(os.Chmod(dir, 0o755), os.WriteFile(p.settings(), []byte(text), 0o644))
}

func (p *pooler) settings() string { return filepath.Join(p.dir, "pgbouncer.ini") }

func (p *pooler) config() *pgx.ConnConfig {
	config, err := pgx.ParseConfig(p.s.Server.Address())
	if err != nil {
		return nil // newPooler has parsed it
	}
	config.Host, config.Port = "127.0.0.1", p.port
	return config
}

// start starts pgbouncer as the account of the server, and waits until it answers.
func (p *pooler) start(ctx context.Context) error {
	program, err := exec.LookPath(poolerProgram)
	if err != nil {
		return err
	}
	account, err := accountOf(p.s.Server)
	if err != nil {
		return err
	}
	//nolint:gosec // pgbouncer
	p.process = exec.CommandContext(context.WithoutCancel(ctx), program, "-q", p.settings())
	p.process.Dir = "/"
	p.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: account}
	if err := p.process.Start(); err != nil {
		return err
	}
	return until(ctx, "pgbouncer answers", func(ctx context.Context) (bool, error) {
		conn, err := pgx.ConnectConfig(ctx, p.config())
		if err != nil {
			return false, err
		}
		return true, conn.Close(ctx)
	})
}

// stop sends pgbouncer a signal that ends it, and waits for its end.
func (p *pooler) stop(signal syscall.Signal) error {
	if p.process == nil || p.process.ProcessState != nil {
		return nil
	}
	if err := p.process.Process.Signal(signal); err != nil {
		return err
	}
	_ = p.process.Wait() // a signal is no success
	return nil
}

func (p *pooler) end(context.Context) error {
	return errors.Join(p.stop(syscall.SIGKILL), os.RemoveAll(p.dir))
}

func (p *pooler) restart(ctx context.Context, after time.Duration) error {
	return p.again(ctx, syscall.SIGTERM, after)
}

func (p *pooler) kill(ctx context.Context, after time.Duration) error {
	return p.again(ctx, syscall.SIGKILL, after)
}

func (p *pooler) again(ctx context.Context, signal syscall.Signal, after time.Duration) error {
	err := p.stop(signal)
	pause(ctx, after)
	ctx, cancel := healing(ctx)
	defer cancel()
	return errors.Join(err, p.start(ctx))
}

// pause tells pgbouncer to pause and to resume, for which it has signals.
func (p *pooler) pause(ctx context.Context, lasts time.Duration) error {
	err := p.process.Process.Signal(syscall.SIGUSR1)
	pause(ctx, lasts)
	return errors.Join(err, p.process.Process.Signal(syscall.SIGUSR2))
}

// accountOf is the account of a server, nil if it is that of the program.
func accountOf(server *system.Server) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // as a process takes it
	}
	info, err := os.Stat(server.Data())
	if err != nil {
		return nil, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, errors.New("the data of the server have no owner")
	}
	return &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}, nil
}

// freePort is a port of 127.0.0.1 at which nobody listens.
func freePort(ctx context.Context) (uint16, error) {
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	_, text, err := net.SplitHostPort(listener.Addr().String())
	if err = errors.Join(err, listener.Close()); err != nil {
		return 0, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	return uint16(port), err
}
