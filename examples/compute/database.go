package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/migrations"
)

// A database is the store of one run of the program, and its table of results.
type database struct {
	pool  *pgxpool.Pool
	store *stint.Store
}

// openDatabase does not talk to the server. The results are in the schema of that name, the tasks
// in another one.
func openDatabase(ctx context.Context, url, schema string) (*database, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("-database-url: %w", err)
	}
	config.MaxConns = 4
	config.ConnConfig.RuntimeParams["application_name"] = "compute"
	config.ConnConfig.RuntimeParams["search_path"] = schema
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	// As long as a task is kept, its result is there for whoever asks again. Warnings are left out,
	// since this program crashes the server on purpose.
	store, err := stint.New(pool, stint.Options{
		Logger:    slog.New(slog.DiscardHandler),
		Schema:    tasksSchema(schema),
		Retention: stint.Retention{Completed: stint.KeepForever, Aborted: stint.KeepForever},
		MaxLosses: stint.UnlimitedLosses, // workers are killed on purpose
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &database{pool: pool, store: store}, nil
}

func tasksSchema(schema string) string { return schema + "_tasks" }

// close gives what is under way a moment to end.
func (d *database) close() error {
	const closeMax = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), closeMax)
	defer cancel()
	err := d.store.Close(ctx)
	d.pool.Close()
	return err
}

// makeSchemas makes the tables of a run.
func makeSchemas(ctx context.Context, url, schema string) error {
	return withConnection(ctx, url, func(conn *pgx.Conn) error {
		if err := migrations.MigrateSchema(ctx, conn, tasksSchema(schema)); err != nil {
			return err
		}
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			name := pgx.Identifier{schema}.Sanitize()
			for _, sql := range []string{
				"CREATE SCHEMA " + name, "SET LOCAL search_path TO " + name, statement("schema"),
			} {
				if _, err := tx.Exec(ctx, sql); err != nil {
					return fmt.Errorf("make the table of results: %w", err)
				}
			}
			return nil
		})
	})
}

// dropSchemas leaves nothing of a run.
func dropSchemas(ctx context.Context, url, schema string) error {
	return withConnection(ctx, url, func(conn *pgx.Conn) error {
		for _, name := range []string{schema, tasksSchema(schema)} {
			sql := "DROP SCHEMA IF EXISTS " + pgx.Identifier{name}.Sanitize() + " CASCADE"
			if _, err := conn.Exec(ctx, sql); err != nil {
				return fmt.Errorf("drop the tables: %w", err)
			}
		}
		return nil
	})
}

func withConnection(ctx context.Context, url string, work func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return errors.Join(work(conn), conn.Close(ctx))
}

// A result is a row of the table of results.
type result struct {
	Computation stint.TaskID
	Performance string
	Value       string
}

func (d *database) results(ctx context.Context) ([]result, error) {
	rows, err := d.pool.Query(ctx, statement("list_results"))
	if err != nil {
		return nil, fmt.Errorf("read the results: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[result])
}

// keepTrying makes a call again and again while the database is away. The verbs of the store may be
// called again after any failure; so may what is in the transaction of one.
func keepTrying(ctx context.Context, call func() error) error {
	const pause = 50 * time.Millisecond
	for {
		err := call()
		if err == nil || !isAway(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// isAway reports whether a call failed because the server cannot be reached, stops or starts.
func isAway(err error) bool {
	var task *stint.TaskError
	var argument *stint.ArgumentError
	switch {
	case errors.As(err, &task), errors.As(err, &argument),
		errors.Is(err, stint.ErrClosed), errors.Is(err, stint.ErrSchemaVersion):
		return false
	}
	const operatorIntervention, connectionException = "57P", "08"
	var network net.Error
	var refusal *pgconn.PgError
	if errors.As(err, &network) || !errors.As(err, &refusal) {
		return true
	}
	return strings.HasPrefix(refusal.Code, operatorIntervention) ||
		strings.HasPrefix(refusal.Code, connectionException)
}

//go:embed sql/*.sql
var statements embed.FS

// statement is the text of a file in sql/.
func statement(name string) string {
	text, err := statements.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return string(text)
}
