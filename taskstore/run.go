package taskstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/sqlfile"
)

//go:embed sql/*.sql
var statementFiles embed.FS

// loadStatements reads the statements for a schema, by file name without its ending.
func loadStatements(schema string) (map[string]string, error) {
	files, err := statementFiles.ReadDir("sql")
	if err != nil {
		return nil, err
	}
	qualifier := pgx.Identifier{schema}.Sanitize() + "."
	qualify := strings.NewReplacer(
		"'stint.", "'"+strings.ReplaceAll(qualifier, "'", "''"), "stint.", qualifier)
	loaded := make(map[string]string, len(files))
	for _, file := range files {
		text, err := statementFiles.ReadFile(path.Join("sql", file.Name()))
		if err != nil {
			return nil, err
		}
		statement := sqlfile.InFull(sqlfile.Statement(string(text)))
		loaded[strings.TrimSuffix(file.Name(), ".sql")] = qualify.Replace(statement)
	}
	return loaded, nil
}

// A query is a statement with its parameters.
type query struct {
	name   string
	args   []any
	writes bool
	// commit is the statement that says how the transaction commits, empty if the server's own
	// setting is right.
	commit string
	read   func(pgx.Rows) error
}

// run executes a query in a transaction of its own, in one round trip. If that fails in the middle,
// the pool closes the connection, which undoes the transaction.
func (s *Store) run(ctx context.Context, q query) error {
	batch := &pgx.Batch{}
	begin := "begin isolation level read committed"
	if q.writes {
		begin += " read write" // whatever the default
	}
	batch.Queue(begin)
	batch.Queue(s.statements["settings"])
	if q.commit != "" {
		batch.Queue(s.statements[q.commit])
	}
	batch.Queue(s.statements[q.name], q.args...).Query(q.read)
	batch.Queue("commit")
	err := s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return conn.SendBatch(ctx, batch).Close()
	})
	var pgErr *pgconn.PgError
	const undefinedTable = "42P01"
	if errors.As(err, &pgErr) && pgErr.Code == undefinedTable {
		return fmt.Errorf("%w: no tables of the task store in the schema %q: create them by "+
			"migrations.Migrate, or the command stint migrate", stint.ErrSchemaVersion, s.schema)
	}
	return err
}

// change runs a statement that gives out IDs, and reads the one row of its answer. If too few IDs
// were reserved, the statement has done nothing: change reserves more and runs it again.
func (s *Store) change(ctx context.Context, name string, args []any, answer ...any) error {
	commit := ""
	if s.durability == stint.Opportunistic {
		commit = "commit_early"
	}
	const attempts = 100 // others use up what is reserved, too
	for range attempts {
		var upto *int64
		err := s.run(ctx, query{
			name: name, args: args, writes: true, commit: commit,
			read: row(append([]any{&upto}, answer...)...),
		})
		if err != nil || upto == nil {
			return err
		}
		err = s.run(ctx, query{
			name: "reserve_ids", args: []any{*upto}, writes: true, commit: "commit_late",
			read: row(new(int64)),
		})
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
