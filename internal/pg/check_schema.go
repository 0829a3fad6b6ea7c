package pg

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// CheckOpen returns an error if the transaction is missing, the context has ended or the DB is
// closed. It does not ask the database.
func (db *DB) CheckOpen(ctx context.Context) error {
	if db.refused != nil {
		return db.refused
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if db.closed.Load() && !db.afterClose {
		return ErrClosed
	}
	return nil
}

// CheckUsable returns an error if no statement may run, because of the context, the DB or the
// schema.
func (db *DB) CheckUsable(ctx context.Context) error {
	if err := db.CheckOpen(ctx); err != nil || db.Version == 0 || db.checked.Load() {
		return err
	}
	if err := db.checkSchema(ctx); err != nil {
		return err
	}
	db.checked.Store(true)
	return nil
}

func (db *DB) checkSchema(ctx context.Context) error {
	var version, since int32
	var encoding string
	var distributed bool
	schema := pgx.Identifier{db.Schema}.Sanitize()
	err := db.within(ctx, pgx.ReadCommitted, "", func(tx pgx.Tx) error {
		if err := db.set(ctx, tx, "set_path"); err != nil {
			return err
		}
		return tx.QueryRow(ctx, db.text("schema_version"), schema).
			Scan(&version, &since, &encoding, &distributed)
	})
	switch {
	case IsCode(err, CodeUndefinedTable):
		return fmt.Errorf("%w: no tables of Stint in the schema %q: create them by "+
			"migrations.Migrate, or the command stint migrate", ErrSchemaVersion, db.Schema)
	case err != nil:
		return err
	case encoding != "UTF8":
		return fmt.Errorf("%w: the database is in %s, which may not be able to store all texts: "+
			"make one by CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0",
			ErrSchemaVersion, encoding)
	case distributed:
		return fmt.Errorf("%w: %q is distributed by Citus, which Stint does not work with: SELECT "+
			"citus_schema_undistribute('%s')", ErrSchemaVersion, db.Schema,
			strings.ReplaceAll(schema, "'", "''"))
	case version < db.Version:
		return fmt.Errorf("%w: %q is at version %d, this release works with %d and up: migrate it",
			ErrSchemaVersion, db.Schema, version, db.Version)
	case since > db.Version:
		return fmt.Errorf("%w: %q is at version %d, which works with releases for %d and up, "+
			"this one is for %d", ErrSchemaVersion, db.Schema, version, since, db.Version)
	}
	return nil
}
