package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/localpg"
)

var (
	//go:embed sql/own_xid.sql
	ownXidSQL string
	//go:embed sql/count_rows.sql
	countRowsSQL string
	//go:embed sql/end_backends.sql
	endBackendsSQL string
)

// A disturbance is a phase of the public harness, which lasts as long as the job says.
type disturbance struct {
	id, title string
	disturb   func(ctx context.Context, s *scene) error
}

func disturbances() []disturbance {
	return []disturbance{
		{"W19-clean", "nothing", func(ctx context.Context, s *scene) error {
			return pause(ctx, s.Lasts)
		}},
		{"W19-idle", "another transaction is idle", holdTransaction},
		{"W19-readers", "four sessions count the table", readAlong},
		{"W19-load", "half as many tasks more", insertMore},
		{"W19-kill", "a worker is killed, another starts later", killWorker},
		{"W19-kills", "a worker is killed again and again", killOften},
		{"W19-restart", "the server is down for half of the time", restartServer},
		{"W19-backends", "busy sessions are ended twice a second", endBackends},
		{"W19-connections", "few connections are left", holdConnections},
	}
}

// holdTransaction keeps a transaction open that has changed something.
func holdTransaction(ctx context.Context, s *scene) error {
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, ownXidSQL); err != nil {
		return err
	}
	return errors.Join(pause(ctx, s.Lasts), tx.Rollback(context.WithoutCancel(ctx)))
}

// readAlong counts the rows of the table of tasks in transactions that see what there was at first.
func readAlong(ctx context.Context, s *scene) error {
	const readers, rest = 4, 100 * time.Millisecond
	ending := now().Add(s.Lasts)
	return inParallel(ctx, readers, func(ctx context.Context, _ int) error {
		conn, err := pgx.Connect(ctx, s.URL)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			return err
		}
		for now().Before(ending) {
			if _, err := tx.Exec(ctx, fmt.Sprintf(countRowsSQL, s.table)); err != nil {
				return err
			}
			if err := pause(ctx, rest); err != nil {
				return err
			}
		}
		return tx.Rollback(ctx)
	})
}

func insertMore(ctx context.Context, s *scene) error {
	s.locked(func() { s.rate = s.PerSecond * 3 / 2 })
	defer s.locked(func() { s.rate = s.PerSecond })
	return pause(ctx, s.Lasts)
}

func killWorker(ctx context.Context, s *scene) error {
	return errors.Join(s.workers[0].kill(), pause(ctx, s.Lasts/2), s.startWorker(ctx, 0),
		pause(ctx, s.Lasts/2))
}

func killOften(ctx context.Context, s *scene) error {
	const often = 6
	for range often {
		period := s.Lasts / often
		err := errors.Join(pause(ctx, period/2), s.workers[0].kill(), pause(ctx, period/20),
			s.startWorker(ctx, 0), pause(ctx, period/2-period/20))
		if err != nil {
			return err
		}
	}
	return nil
}

// restartServer shuts the server down, as "pg_ctl stop" does, and starts it later.
func restartServer(ctx context.Context, s *scene) error {
	var data string
	if err := s.observer.QueryRow(ctx, "SHOW data_directory").Scan(&data); err != nil {
		return err
	}
	file := filepath.Join(data, "postmaster.pid")
	content, err := os.ReadFile(file) //nolint:gosec // The server says where.
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return err
	}
	postmaster, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	if err := postmaster.Signal(os.Interrupt); err != nil {
		return err
	}
	if err := pause(ctx, s.Lasts/2); err != nil {
		return err
	}
	server, err := localpg.Start(ctx, localpg.Config{
		Dir: filepath.Dir(data), Settings: s.Settings, Announce: localpg.Stderr,
	})
	if err != nil {
		return err
	}
	_ = s.observer.Close(ctx) // the server did so
	s.observer, err = pgx.Connect(ctx, s.URL)
	return errors.Join(err, pause(ctx, s.Lasts/2), server.Close()) // others use it
}

func endBackends(ctx context.Context, s *scene) error {
	const period = time.Second / 2
	for ending := now().Add(s.Lasts); now().Before(ending); {
		if _, err := s.count(ctx, endBackendsSQL); err != nil {
			return err
		}
		if err := pause(ctx, period); err != nil {
			return err
		}
	}
	return nil
}

// holdConnections leaves as many as the public harness does, which holds 300 of 400.
func holdConnections(ctx context.Context, s *scene) error {
	const left = 100
	limit, err := strconv.Atoi(s.Settings["max_connections"])
	if err != nil {
		return err
	}
	for range limit - left {
		conn, err := pgx.Connect(ctx, s.URL)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	}
	return pause(ctx, s.Lasts)
}
