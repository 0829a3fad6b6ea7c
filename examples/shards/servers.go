package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/localpg"
	"github.com/stint-tasks/stint/migrations"
)

// servers are private servers of PostgreSQL with a store each, in a temporary directory.
type servers struct {
	dir     string
	urls    map[string]string
	running map[string]*localpg.Server
}

func startServers(ctx context.Context, names ...string) (*servers, error) {
	dir, err := os.MkdirTemp("", "stint-shards-")
	if err != nil {
		return nil, err
	}
	s := &servers{dir: dir, urls: map[string]string{}, running: map[string]*localpg.Server{}}
	// If this program is root, the servers have another account, which must come through here.
	const passable = 0o711
	if err := os.Chmod(dir, passable); err != nil {
		return nil, errors.Join(err, s.close())
	}
	for _, name := range names {
		if err := s.start(ctx, name); err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.urls[name] = s.running[name].URL("postgres")
		if err := migrate(ctx, s.urls[name]); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

func migrate(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(migrations.Migrate(ctx, conn), conn.Close(ctx))
}

// start starts a server, with the data that it had.
func (s *servers) start(ctx context.Context, name string) error {
	server, err := localpg.Start(ctx, localpg.Config{
		Dir: filepath.Join(s.dir, name), Announce: localpg.Stderr,
	})
	if err != nil {
		return err
	}
	s.running[name] = server
	if url, known := s.urls[name]; known && url != server.URL("postgres") {
		return fmt.Errorf("the server is back at another address: %s", server.URL("postgres"))
	}
	return nil
}

// stop stops a server, and breaks all connections to it.
func (s *servers) stop(name string) error {
	server := s.running[name]
	delete(s.running, name)
	return server.Close()
}

// close stops all servers and removes their data.
func (s *servers) close() error {
	var all error
	for name := range s.running {
		all = errors.Join(all, s.stop(name))
	}
	return errors.Join(all, os.RemoveAll(s.dir))
}
