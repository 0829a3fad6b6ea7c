//go:build linux

package faults

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/chaos/system"
)

// A spare is a second server beside the first, with a copy of its data.
type spare struct {
	s         *system.System
	dir, data string
	runs      bool
	used      bool // the first server has its data now
	pool      *pgxpool.Pool
}

// spareName is that of a spare which is a standby.
const spareName = "spare"

// newSpare copies the data of the server while it works.
func newSpare(ctx context.Context, s *system.System, args ...string) (*spare, error) {
	// Beside the log of the first: there all is owned by the account of the servers.
	dir, err := os.MkdirTemp(s.Server.Dir(), "s")
	if err != nil {
		return nil, err
	}
	p := &spare{s: s, dir: dir, data: filepath.Join(dir, "data")}
	account, err := accountOf(s.Server)
	if err == nil && account != nil {
		err = os.Chown(dir, int(account.Uid), int(account.Gid))
	}
	if err == nil {
		err = s.Server.Exec(ctx, "pg_basebackup", append([]string{
			"--pgdata", p.data, "--dbname", s.Server.Address(), "--checkpoint", "fast",
			"--no-manifest", "--no-sync",
		}, args...)...)
	}
	if err != nil {
		return nil, errors.Join(err, p.end(ctx))
	}
	return p, nil
}

// config is how clients reach the spare.
func (p *spare) config() (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(p.s.Server.Address())
	if err == nil {
		config.Host = p.dir
	}
	return config, err
}

// start starts the spare on a socket of its own, and waits until it answers.
func (p *spare) start(ctx context.Context) error {
	options := "-c listen_addresses= -c unix_socket_directories='" + p.dir + "' " +
		"-c cluster_name=" + spareName
	p.runs = true
	err := p.s.Server.Exec(ctx, "pg_ctl", "--pgdata", p.data, "--log", filepath.Join(p.dir, "log"),
		"--wait", "--timeout", strconv.Itoa(int(healingLasts.Seconds())),
		"--options", options, "start")
	if err != nil {
		return err
	}
	config, err := p.config()
	if err != nil {
		return err
	}
	pooled := p.s.Server.Pool().Config().Copy()
	pooled.ConnConfig = config
	p.pool, err = pgxpool.NewWithConfig(ctx, pooled)
	return err
}

func (p *spare) stop(ctx context.Context) error {
	if p.pool != nil {
		p.pool.Close()
	}
	if !p.runs {
		return nil
	}
	p.runs = false
	return p.s.Server.Exec(ctx, "pg_ctl", "--pgdata", p.data, "--wait", "--mode", "fast", "stop")
}

// promote makes a standby a primary.
func (p *spare) promote(ctx context.Context) error {
	return p.s.Server.Exec(ctx, "pg_ctl", "--pgdata", p.data, "--wait", "promote")
}

// takeOver makes the first server go on with the data of the spare. Both are stopped.
func (p *spare) takeOver(ctx context.Context) error {
	before := p.s.Server.Data()
	p.s.Server.Use(p.data)
	p.used = true
	return errors.Join(p.s.Server.Start(ctx), os.RemoveAll(before))
}

// end stops the spare and removes its data, unless they are those of the first server now.
func (p *spare) end(ctx context.Context) error {
	err := p.stop(ctx)
	if p.used {
		return err
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}
