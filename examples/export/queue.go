package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/localpg"
	"github.com/stint-tasks/stint/migrations"
)

// A queue is an open store and what is below it.
type queue struct {
	server *localpg.Server // nil if the database is somebody else's.
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
	url := opts.databaseURL
	if url == "" {
		dir, err := localpg.DataDir("export")
		if err != nil {
			return q, err
		}
		fmt.Fprintf(stdout, "keeping the tasks in a private PostgreSQL in %s\n", dir)
		if q.server, err = localpg.Start(ctx, localpg.Config{Dir: dir}); err != nil {
			return q, err
		}
		url = q.server.URL("postgres")
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return q, fmt.Errorf("-database-url: %w", err)
	}
	// Workers spend most of their time copying, so that a great many can share these.
	const connectionsMax = 32
	config.MaxConns = int32(min(opts.workers+2, connectionsMax)) //nolint:gosec // it fits
	config.ConnConfig.RuntimeParams["application_name"] = "export"
	if q.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return q, fmt.Errorf("connect: %w", err)
	}
	err = q.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return migrations.Migrate(ctx, conn.Conn())
	})
	if err != nil {
		return q, err
	}
	// The finished tasks are the memory of what was copied, so they stay.
	q.store, err = stint.New(q.pool, stint.Options{
		Retention: stint.Retention{Completed: stint.KeepForever, Aborted: stint.KeepForever},
	})
	return q, err
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
