// Package testdb gives each test a database of its own.
package testdb

import (
	"context"
	"errors"
	"flag"
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

// Main runs the tests of a package and then stops the server that [New] may have started. Call it
// from TestMain and nothing else.
func Main(m *testing.M) {
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, "stop test server:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// New returns a pool on a new database, migrated to the newest schema and dropped when the test
// ends. The server is the one named by STINT_TEST_DATABASE_URL, whose role must be allowed to
// create databases; else a private one, started from PostgreSQL programs on this machine; else a
// container. If none of them is to be had the test fails and says how to get one.
func New(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	return forTest(tb, true)
}

// NewEmpty is [New] without the schema.
func NewEmpty(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	return forTest(tb, false)
}

func forTest(tb testing.TB, migrated bool) *pgxpool.Pool {
	tb.Helper()
	pool, drop, err := open(tb.Context(), migrated)
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

// Open is [New] for examples, which have no test to end with: the caller calls drop.
func Open(ctx context.Context) (pool *pgxpool.Pool, drop func() error, err error) {
	return open(ctx, true)
}

func open(ctx context.Context, migrated bool) (*pgxpool.Pool, func() error, error) {
	server, err := shared.get(ctx)
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
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to test database: %w", err)
	}
	drop := func() error {
		pool.Close()
		return server.drop(context.WithoutCancel(ctx), name)
	}
	return pool, drop, nil
}

// shared is the one server of a test binary.
var shared lazyServer //nolint:gochecknoglobals // one server for all tests of a binary

type lazyServer struct {
	once   sync.Once
	server *server
	err    error
}

func (l *lazyServer) get(ctx context.Context) (*server, error) {
	l.once.Do(func() {
		// The server outlives the test that happens to ask first.
		l.server, l.err = start(context.WithoutCancel(ctx))
	})
	return l.server, l.err
}

func (l *lazyServer) close() error {
	if l.server == nil {
		return nil
	}
	return l.server.stop()
}

// A server makes databases. Its own is called postgres.
type server struct {
	url      string
	template string
	stop     func() error
}

func start(ctx context.Context) (*server, error) {
	const startMax = 5 * time.Minute // a download or a pull included
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	server, err := find(ctx)
	if err != nil {
		return nil, err
	}
	server.template = "stint_template_" + uuid.NewString()
	if err := server.migrate(ctx); err != nil {
		err = fmt.Errorf("make the template of the test databases: %w", err)
		return nil, errors.Join(err, server.stop())
	}
	stop := server.stop
	server.stop = func() error {
		dropErr := server.drop(context.WithoutCancel(ctx), server.template)
		if err := stop(); err != nil {
			return err
		}
		return dropErr
	}
	return server, nil
}

func (s *server) migrate(ctx context.Context) error {
	if err := s.create(ctx, s.template, "template0"); err != nil {
		return err
	}
	config, err := s.config(s.template)
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

func (s *server) config(database string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(s.url)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.Database = database
	return config, nil
}

func (s *server) create(ctx context.Context, name, template string) error {
	return s.exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+
		" TEMPLATE "+pgx.Identifier{template}.Sanitize()+" ENCODING 'UTF8'")
}

func (s *server) drop(ctx context.Context, name string) error {
	return s.exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
}

func (s *server) exec(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, statement); err != nil {
		return err
	}
	return conn.Close(ctx)
}

// benchmarking reports whether the binary was asked for benchmarks, which want a durable server.
func benchmarking() bool {
	bench := flag.Lookup("test.bench")
	return bench != nil && bench.Value.String() != ""
}
