package main

import (
	"context"
	"crypto/sha256"
	_ "embed" // for lock_schemas.sql
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/localpg"
	"github.com/stint-tasks/stint/migrations"
)

// A queue is an open store and what is below it.
type queue struct {
	server *localpg.Server // nil if the database is somebody else's.
	url    string
	pool   *pgxpool.Pool
	store  *stint.Store
}

// openQueue opens the store, after bringing its tables up to date.
func openQueue(ctx context.Context, opts options, stdout io.Writer) (_ *queue, err error) {
	q := &queue{}
	defer func() {
		if err != nil {
			err = errors.Join(err, q.close())
		}
	}()
	q.url = opts.databaseURL
	if q.url == "" {
		if q.server, err = startServer(ctx, opts, stdout); err != nil {
			return q, err
		}
		q.url = q.server.URL("postgres")
	}
	config, err := pgxpool.ParseConfig(q.url)
	if err != nil {
		return q, fmt.Errorf("-database-url: %w", err)
	}
	// Workers spend most of their time on files, so that a great many can share these.
	const connectionsMax = 32
	wanted := opts.workers + opts.branches + 2
	config.MaxConns = int32(min(wanted, connectionsMax)) //nolint:gosec // it fits
	config.ConnConfig.RuntimeParams["application_name"] = "export"
	schemas := opts.schemas()
	config.ConnConfig.RuntimeParams["search_path"] = schemas.application
	if q.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return q, fmt.Errorf("connect: %w", err)
	}
	err = q.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return schemas.migrate(ctx, conn.Conn())
	})
	if err != nil {
		return q, err
	}
	// The report at the end is made from the finished tasks, so they stay.
	q.store, err = stint.New(q.pool, stint.Options{
		Schema:    schemas.tasks,
		Retention: stint.Retention{Completed: stint.KeepForever, Aborted: stint.KeepForever},
		MaxLosses: stint.UnlimitedLosses, // workers are killed on purpose
	})
	return q, err
}

// startServer starts a private PostgreSQL.
func startServer(ctx context.Context, opts options, stdout io.Writer) (*localpg.Server, error) {
	if opts.temporary {
		fmt.Fprintln(stdout, "keeping the tasks in a temporary PostgreSQL")
		return localpg.Start(ctx, localpg.Config{Announce: localpg.Stderr})
	}
	dir, err := localpg.DataDir("export")
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(stdout, "keeping the tasks in a private PostgreSQL in %s\n", dir)
	return localpg.Start(ctx, localpg.Config{Dir: dir, Announce: localpg.Stderr})
}

// schemas are where the tables of the tasks are, and those of the application.
type schemas struct{ tasks, application string }

// schemas are the same for all runs with one destination, so that a database can hold several with
// the same names of branches.
func (o options) schemas() schemas {
	const bytes = 8 // enough to tell apart the destinations of one database
	sum := sha256.Sum256([]byte(o.to))
	name := "export_" + hex.EncodeToString(sum[:bytes])
	return schemas{tasks: name + "_tasks", application: name}
}

//go:embed lock_schemas.sql
var lockSchemas string

func (s schemas) migrate(ctx context.Context, conn *pgx.Conn) error {
	if err := migrations.MigrateSchema(ctx, conn, s.tasks); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Two processes that create a schema at once collide, unless one waits.
		if _, err := tx.Exec(ctx, lockSchemas); err != nil {
			return err
		}
		name := pgx.Identifier{s.application}.Sanitize()
		_, err := tx.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+name)
		return err
	})
}

// close is for a queue that is open half-way as well.
func (q *queue) close() error {
	const closeMax = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), closeMax)
	defer cancel()
	var err error
	if q.store != nil {
		err = q.store.Close(ctx)
	}
	if q.pool != nil {
		q.pool.Close()
	}
	if q.server != nil {
		err = errors.Join(err, q.server.Close())
	}
	return err
}
