// Package testserver finds or starts a PostgreSQL server for tests and makes databases on it. It
// knows nothing of containers, so that those who import package stinttest need not.
package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/migrations"
)

// connectionsMax is the size of a test's pool: enough for its goroutines, few enough for many tests
// to share one server.
const connectionsMax = 20

// A Server is the PostgreSQL server that the tests of a binary share. It is found or started when
// it is first asked for something. The zero value is ready for use.
type Server struct {
	// Container starts a server with settings in a container of an image, and returns its address
	// and what removes it; nil if there shall be none.
	Container func(ctx context.Context, image string, settings map[string]string) (
		url string, stop func() error, err error)

	// OfRun lets the binaries that one go test -short starts share a private server, on Linux. In
	// longer runs each has its own: to make a database waits for what others have written.
	OfRun bool

	once  sync.Once
	found *found
	err   error
}

// Main runs the tests of a package, stops the server that they may have started, and exits.
func (s *Server) Main(m *testing.M) { os.Exit(s.Run(m)) }

// Run is [Server.Main] for a TestMain that has more to do: it returns the exit code.
func (s *Server) Run(m *testing.M) int {
	code := m.Run()
	if err := s.close(); err != nil {
		fmt.Fprintln(os.Stderr, "stop test server:", err)
		code = max(code, 1)
	}
	return code
}

// New returns a pool on a new database, migrated to the newest schema or empty, and dropped when
// the test ends.
func (s *Server) New(tb testing.TB, migrated bool) *pgxpool.Pool {
	tb.Helper()
	pool, drop, err := s.Open(tb.Context(), migrated)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := drop(); err != nil {
			tb.Errorf("drop test database: %v", err)
		}
	})
	return pool
}

// Open is [Server.New] for examples, which have no test to end with: the caller calls drop.
func (s *Server) Open(
	ctx context.Context, migrated bool,
) (pool *pgxpool.Pool, drop func() error, err error) {
	server, err := s.get(ctx)
	if err != nil {
		return nil, nil, err
	}
	template := "template0"
	if migrated {
		template = server.template
	}
	name := "stint_test_" + uuid.NewString()
	if err := server.create(ctx, name, template); err != nil {
		return nil, nil, fmt.Errorf("create test database: %w", err)
	}
	config, err := server.config(name)
	if err != nil {
		return nil, nil, fmt.Errorf("test database: %w", err)
	}
	config.MaxConns = connectionsMax
	pool, err = pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to test database: %w", err)
	}
	drop = func() error {
		return errors.Join(closePool(pool), server.drop(context.WithoutCancel(ctx), name))
	}
	return pool, drop, nil
}

// closePool closes a pool. A test that has failed amid a transaction may have left a connection in
// use, for which Close would wait for ever.
func closePool(pool *pgxpool.Pool) error {
	const closeMax = time.Minute
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
		return nil
	case <-time.After(closeMax):
		return fmt.Errorf("connections are in use %v after the test", closeMax)
	}
}

func (s *Server) get(ctx context.Context) (*found, error) {
	s.once.Do(func() {
		// The server outlives the test that happens to ask first.
		s.found, s.err = s.start(context.WithoutCancel(ctx))
	})
	return s.found, s.err
}

func (s *Server) close() error {
	if s.found == nil {
		return nil
	}
	return s.found.stop()
}

func (s *Server) start(ctx context.Context) (*found, error) {
	const startMax = 5 * time.Minute // a download or a pull included
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	server, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	// The pool outlives the start.
	if server.admin, err = pgxpool.New(context.WithoutCancel(ctx), server.url); err != nil {
		return nil, errors.Join(err, server.stop())
	}
	server.template = "stint_template_" + uuid.NewString()
	if err := server.migrate(ctx); err != nil {
		err = fmt.Errorf("make the template of the test databases: %w", err)
		server.admin.Close()
		return nil, errors.Join(err, server.stop())
	}
	stop := server.stop
	server.stop = func() error {
		dropErr := server.drop(context.WithoutCancel(ctx), server.template)
		server.admin.Close()
		if err := stop(); err != nil {
			return err
		}
		return dropErr
	}
	return server, nil
}

// A found server makes databases. Its own is called postgres.
type found struct {
	url      string
	admin    *pgxpool.Pool // on its own database
	template string
	stop     func() error
}

func (f *found) migrate(ctx context.Context) error {
	if err := f.create(ctx, f.template, "template0"); err != nil {
		return err
	}
	config, err := f.config(f.template)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return err
	}
	if err := migrations.Migrate(ctx, conn); err != nil {
		return err
	}
	return conn.Close(ctx)
}

func (f *found) config(database string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(f.url)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.Database = database
	return config, nil
}

func (f *found) create(ctx context.Context, name, template string) error {
	return f.exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+
		" TEMPLATE "+pgx.Identifier{template}.Sanitize()+" ENCODING 'UTF8' STRATEGY FILE_COPY")
}

func (f *found) drop(ctx context.Context, name string) error {
	return f.exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
}

func (f *found) exec(ctx context.Context, statement string) error {
	_, err := f.admin.Exec(ctx, statement)
	return err
}
