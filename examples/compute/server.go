package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/localpg"
)

// A server is a private PostgreSQL that can crash.
type server struct {
	url string
	dir string
	// uses are one for each start; the first one removes the directory at the end.
	uses []*localpg.Server
}

func startServer(ctx context.Context) (*server, error) {
	use, err := localpg.Start(ctx, localpg.Config{Announce: localpg.Stderr})
	if err != nil {
		return nil, err
	}
	s := &server{url: use.URL("postgres"), uses: []*localpg.Server{use}}
	err = s.postmaster(ctx, func(_ *pgx.Conn, _ int, data string) error {
		s.dir = filepath.Dir(data)
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// postmaster calls work with a connection and what the server says of its first process.
func (s *server) postmaster(
	ctx context.Context, work func(conn *pgx.Conn, pid int, data string) error,
) error {
	return withConnection(ctx, s.url, func(conn *pgx.Conn) error {
		var pid int
		var data string
		if err := conn.QueryRow(ctx, statement("postmaster")).Scan(&pid, &data); err != nil {
			return fmt.Errorf("look for the server: %w", err)
		}
		return work(conn, pid, data)
	})
}

// crash stops the server on the spot, as pg_ctl stop -m immediate does: it breaks all connections
// and writes nothing out, so that the next start recovers from the journal. It returns when the
// server does not accept connections any more.
func (s *server) crash(ctx context.Context) error {
	return s.postmaster(ctx, func(conn *pgx.Conn, pid int, _ string) error {
		process, err := os.FindProcess(pid)
		if err != nil {
			return err
		}
		if err := process.Signal(syscall.SIGQUIT); err != nil {
			return fmt.Errorf("stop the server: %w", err)
		}
		const crashMax = 10 * time.Second
		ctx, cancel := context.WithTimeout(ctx, crashMax)
		defer cancel()
		// Nobody notifies this connection, so the wait ends when the server breaks it.
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return ctx.Err()
		}
		return errors.New("a notification that nobody sent")
	})
}

// restart starts the server where it was.
func (s *server) restart(ctx context.Context) error {
	use, err := localpg.Start(ctx, localpg.Config{Dir: s.dir, Announce: localpg.Stderr})
	if err != nil {
		return err
	}
	s.uses = append(s.uses, use)
	if url := use.URL("postgres"); url != s.url {
		return fmt.Errorf("the server is back at another address: %s", url)
	}
	return nil
}

func (s *server) close() error {
	var err error
	for len(s.uses) > 0 {
		last := len(s.uses) - 1
		err = errors.Join(err, s.uses[last].Close())
		s.uses = s.uses[:last]
	}
	return err
}
