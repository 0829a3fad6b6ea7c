package taskstore

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/safely"
)

//go:embed sql/*.sql
var files embed.FS

//nolint:gochecknoglobals // never changes
var statements = pg.NewStatements(files)

// open returns the database of a store. Its statements find out themselves that tables are missing,
// so the version of the schema is not checked.
func open(pool *pgxpool.Pool, schema string, durability stint.Durability) (*pg.DB, error) {
	return pg.New(pg.Config{
		Pool: pool, Schema: schema, Statements: []*pg.Statements{statements},
		CommitEarly: durability == stint.Opportunistic, PollOnly: true,
		Logger: safely.LoggerOr(nil),
	})
}

// run executes steps in a transaction of their own, in one round trip.
func run(ctx context.Context, db *pg.DB, steps ...pg.Step) error {
	err := db.Run(ctx, steps...)
	if pg.IsCode(err, pg.CodeUndefinedTable) {
		return fmt.Errorf("%w: no tables of the task store in the schema %q: create them by "+
			"migrations.Migrate, or the command stint migrate", stint.ErrSchemaVersion, db.Schema)
	}
	return err
}

// change runs a statement that gives out IDs, and reads the one row of its answer. If too few IDs
// were reserved, the statement has done nothing: change reserves more and runs it again.
func (s *Store) change(ctx context.Context, name string, args []any, answer ...any) error {
	const attempts = 100 // others use up what is reserved, too
	for range attempts {
		var upto *int64
		err := run(ctx, s.db, pg.Step{
			Name: name, Args: args, Read: row(append([]any{&upto}, answer...)...),
		})
		if err != nil || upto == nil {
			return err
		}
		err = run(ctx, s.strict, pg.Step{Name: "wait_for_disk"},
			pg.Step{Name: "reserve_ids", Args: []any{*upto}, Read: row(new(int64))})
		if err != nil {
			return fmt.Errorf("reserve IDs: %w", err)
		}
	}
	return errors.New("others have used up all IDs that were reserved: call again")
}

// row reads the last row of an answer.
func row(into ...any) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, into, func() error { return nil })
		return err
	}
}
