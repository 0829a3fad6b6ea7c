package command

import (
	"context"
	_ "embed" // for the statements
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/migrations"
)

// demoSchemaName is the schema that stint demo works in, unless --schema names another one.
const demoSchemaName = "stint_demo"

//go:embed sql/lock_demo.sql
var lockDemo string

//go:embed sql/demo_schema.sql
var findDemoSchema string

//go:embed sql/create_demo_schema.sql
var createDemoSchema string

//go:embed sql/mark_demo_schema.sql
var markDemoSchema string

//go:embed sql/drop_demo_schema.sql
var dropDemoSchema string

// withDemoSchema makes a schema with the tables of stint, calls work, and drops the schema unless
// it is to be kept. A schema that an earlier demo has left is replaced.
func (p *program) withDemoSchema(
	ctx context.Context, db *database, keep bool, work func(ctx context.Context) error,
) (err error) {
	// The lock is held for long, so its connection is not one of the pool's.
	conn, err := pgx.ConnectConfig(ctx, db.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	const endMax = 15 * time.Second
	atEnd := func(do func(ctx context.Context) error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endMax)
		defer cancel()
		err = errors.Join(err, do(ctx))
	}
	defer atEnd(conn.Close)
	if err := p.makeDemoSchema(ctx, conn); err != nil {
		return err
	}
	if !keep {
		defer atEnd(func(ctx context.Context) error { return p.dropDemoSchema(ctx, conn) })
	}
	if err := migrations.MigrateSchema(ctx, conn, p.schema); err != nil {
		return err
	}
	return work(ctx)
}

// makeDemoSchema makes an empty schema with the mark of stint demo.
func (p *program) makeDemoSchema(ctx context.Context, conn *pgx.Conn) error {
	if err := p.lockDemoSchema(ctx, conn); err != nil {
		return err
	}
	var exists bool
	var says string
	name := pgx.Identifier{p.schema}.Sanitize()
	if err := conn.QueryRow(ctx, findDemoSchema, name).Scan(&exists, &says); err != nil {
		return fmt.Errorf("look for schema %q: %w", p.schema, err)
	}
	switch {
	case exists && !strings.Contains(markDemoSchema, "'"+says+"'"):
		return fmt.Errorf("%w: there is one named %q that stint demo did not make; "+
			"name another one with --schema", errTaken, p.schema)
	case exists:
		if err := p.dropDemoSchema(ctx, conn); err != nil {
			return err
		}
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, statement := range []string{createDemoSchema, markDemoSchema} {
			if _, err := tx.Exec(ctx, p.inDemoSchema(statement)); err != nil {
				return fmt.Errorf("create schema %q: %w", p.schema, err)
			}
		}
		return nil
	})
}

// lockDemoSchema makes sure that no other demo works in the schema. The session of a demo that has
// just ended, or that was killed, holds the lock until the server notices.
func (p *program) lockDemoSchema(ctx context.Context, conn *pgx.Conn) error {
	const tries, pause = 50, 100 * time.Millisecond
	for try := 1; ; try++ {
		var mine bool
		if err := conn.QueryRow(ctx, lockDemo, p.schema).Scan(&mine); err != nil {
			return fmt.Errorf("lock schema %q: %w", p.schema, err)
		}
		switch {
		case mine:
			return nil
		case try == tries:
			return fmt.Errorf("%w: another stint demo works in %q", errTaken, p.schema)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *program) dropDemoSchema(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, p.inDemoSchema(dropDemoSchema)); err != nil {
		return fmt.Errorf("drop schema %q: %w", p.schema, err)
	}
	return nil
}

// inDemoSchema is a statement about the schema that --schema names.
func (p *program) inDemoSchema(statement string) string {
	const about = " SCHEMA "
	return strings.Replace(statement, about+demoSchemaName,
		about+pgx.Identifier{p.schema}.Sanitize(), 1)
}
