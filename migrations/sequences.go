package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const codeInsufficientPrivilege = "42501"

// SequencesBehind returns the names of the sequences of a schema that would give out again what its
// tables hold: after a switchover by logical replication, which leaves sequences out. Tasks cannot
// be inserted then, or are fetched ahead of older ones. [Migrate] sets such sequences right.
//
// The schema must be at [Version]. The role needs SELECT on the tables tasks and ready and on the
// sequences.
func SequencesBehind(ctx context.Context, conn *pgx.Conn, schema string) ([]string, error) {
	quoted, err := quote(schema)
	if err == nil {
		err = checkName(conn, schema)
	}
	if err == nil {
		var behind []string
		if behind, err = sequences(ctx, conn, quoted, false); err == nil {
			return behind, nil
		}
	}
	return nil, fmt.Errorf("look at sequences: %w", err)
}

// raiseSequences sets the sequences right that are behind the tables. A role that may not look at
// them leaves that to others.
func raiseSequences(ctx context.Context, conn *pgx.Conn, quoted string) error {
	behind, err := sequences(ctx, conn, quoted, false)
	var pgErr *pgconn.PgError
	switch {
	case errors.As(err, &pgErr) && pgErr.Code == codeInsufficientPrivilege:
		return nil
	case err == nil && len(behind) > 0:
		_, err = sequences(ctx, conn, quoted, true)
	}
	if err != nil {
		return fmt.Errorf("set the sequences %q behind the tables, as their owner: %w", behind, err)
	}
	return nil
}

// sequences returns the sequences that are behind the tables, and raises them if asked.
func sequences(
	ctx context.Context, conn *pgx.Conn, quoted string, raise bool,
) (behind []string, err error) {
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	ahead := []string{"set_path", "prefer_indexes"}
	if raise {
		options.AccessMode = pgx.ReadWrite
		ahead = append(ahead, "lock_schema")
	}
	err = pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		for _, name := range ahead {
			if _, err := tx.Exec(ctx, statement(name, quoted)); err != nil {
				return err
			}
		}
		rows, err := tx.Query(ctx, statement("raise_sequences", quoted), quoted, raise)
		if err != nil {
			return err
		}
		var name string
		var raised *int64
		_, err = pgx.ForEachRow(rows, []any{&name, &raised}, func() error {
			behind = append(behind, name)
			return nil
		})
		return err
	})
	return behind, err
}
