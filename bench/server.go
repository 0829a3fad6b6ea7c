package main

import (
	"context"
	_ "embed"

	"github.com/jackc/pgx/v5"
	"github.com/stint-tasks/stint/internal/localpg"
)

var (
	//go:embed sql/drop_database.sql
	dropDatabaseSQL string
	//go:embed sql/create_database.sql
	createDatabaseSQL string
	//go:embed sql/settings.sql
	settingsSQL string
)

// A server is a private PostgreSQL that nobody else uses.
type server struct {
	local *localpg.Server
	conn  *pgx.Conn
}

// startServer starts a durable server. Its settings are the defaults but for room: for connections,
// for data in memory, and for WAL, so that few checkpoints fall into measurements. What the caller
// wants otherwise comes last.
func startServer(ctx context.Context, otherwise map[string]string) (*server, error) {
	settings := map[string]string{
		"fsync":              "on",
		"synchronous_commit": "on",
		"max_connections":    "300",
		"shared_buffers":     "2GB",
		"max_wal_size":       "8GB",
	}
	for name, value := range otherwise {
		settings[name] = value
	}
	local, err := localpg.Start(ctx, localpg.Config{Settings: settings})
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, local.URL("postgres"))
	if err != nil {
		_ = local.Close()
		return nil, err
	}
	return &server{local: local, conn: conn}, nil
}

func (s *server) close(ctx context.Context) error {
	_ = s.conn.Close(ctx) // the server ends anyway
	return s.local.Close()
}

// newDatabase makes the database anew, empty, and writes everything to the disk that the one before
// may have left to write.
func (s *server) newDatabase(ctx context.Context) (url string, err error) {
	for _, statement := range []string{dropDatabaseSQL, createDatabaseSQL, "CHECKPOINT"} {
		if _, err := s.conn.Exec(ctx, statement); err != nil {
			return "", err
		}
	}
	return s.local.URL("bench"), nil
}

// A setting is one of PostgreSQL's.
type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}
