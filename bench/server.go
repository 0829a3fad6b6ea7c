package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/localpg"
)

var (
	//go:embed sql/drop_database.sql
	dropDatabaseSQL string
	//go:embed sql/create_database.sql
	createDatabaseSQL string
	//go:embed sql/extension.sql
	extensionSQL string
	//go:embed sql/settings.sql
	settingsSQL string
)

// A server is a private PostgreSQL that nobody else uses.
type server struct {
	local    *localpg.Server
	settings map[string]string
	conn     *pgx.Conn
}

// startServer starts a durable server. Its settings are the defaults but for room: for connections,
// for data in memory, and for WAL, so that few checkpoints fall into measurements. What the caller
// wants otherwise comes last.
func startServer(ctx context.Context, otherwise map[string]string) (*server, error) {
	settings := map[string]string{
		"fsync":              "on",
		"synchronous_commit": "on",
		"max_connections":    "500",
		"shared_buffers":     "2GB",
		"max_wal_size":       "8GB",
	}
	for name, value := range otherwise {
		settings[name] = value
	}
	local, err := localpg.Start(ctx, localpg.Config{Settings: settings, Announce: localpg.Stderr})
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, local.URL("postgres"))
	if err != nil {
		_ = local.Close()
		return nil, err
	}
	return &server{local: local, settings: settings, conn: conn}, nil
}

var errNoExtension = errors.New("no extension")

// needs fails with errNoExtension if an extension cannot be created.
func (s *server) needs(ctx context.Context, extension string) error {
	if extension == "" {
		return nil
	}
	here := false
	err := s.conn.QueryRow(ctx, extensionSQL, extension).Scan(&here)
	if err == nil && !here {
		err = errNoExtension
	}
	return err
}

func (s *server) close(ctx context.Context) error {
	_ = s.conn.Close(ctx) // the server ends anyway
	return s.local.Close()
}

// The database of a measurement, and that of its second shard.
const (
	firstDatabase  = "bench"
	secondDatabase = "bench_2"
)

// newDatabase makes the database anew, empty, and writes everything to the disk that the one before
// may have left to write. A second one is gone with it.
func (s *server) newDatabase(ctx context.Context) (url string, err error) {
	if s.conn.Ping(ctx) != nil { // a measurement has restarted the server
		_ = s.conn.Close(ctx)
		if s.conn, err = pgx.Connect(ctx, s.local.URL("postgres")); err != nil {
			return "", err
		}
	}
	for _, statement := range []string{
		fmt.Sprintf(dropDatabaseSQL, firstDatabase), fmt.Sprintf(dropDatabaseSQL, secondDatabase),
		fmt.Sprintf(createDatabaseSQL, firstDatabase), "CHECKPOINT",
	} {
		if _, err := s.conn.Exec(ctx, statement); err != nil {
			return "", err
		}
	}
	return s.local.URL(firstDatabase), nil
}

// second makes an empty database for a second shard, at its place. The caller calls done when the
// measurement is over.
func (s *server) second(ctx context.Context, at place, settings map[string]string) (
	url string, done func(context.Context) error, err error,
) {
	switch at {
	case sameServer:
		_, err := s.conn.Exec(ctx, fmt.Sprintf(createDatabaseSQL, secondDatabase))
		return s.local.URL(secondDatabase), nothingToDo, err
	case ownServer:
		own, err := startServer(ctx, settings)
		if err != nil {
			return "", nothingToDo, err
		}
		url, err := own.newDatabase(ctx)
		return url, own.close, err
	default:
		return "", nothingToDo, nil
	}
}

func nothingToDo(context.Context) error { return nil }

// A setting is one of PostgreSQL's.
type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}
