package migrations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/tern/v2/migrate"
)

// ErrPooler reports that a pooler does not pass on the settings that a connection begins with, so
// tables cannot be made or changed over it. Migrate over a connection to the server itself.
var ErrPooler = errors.New("a pooler such as PgBouncer does not pass on the settings that a " +
	"connection begins with: migrate over a connection to the server itself")

// safePath is the path of the migrating connection: defaults, checks and indexes hold on to the
// functions and operators that are found when they are made. They are PostgreSQL's own, whatever
// else of their names somebody has made in a schema of the caller's path. tern's own statements
// need it, too.
const safePath = "pg_catalog, pg_temp"

// PostgreSQL's codes for the errors that the migrator treats specially.
const (
	codeUndefinedTable    = "42P01"
	codeLockNotAvailable  = "55P03"
	codeDeadlockDetected  = "40P01"
	codeProtocolViolation = "08P01" // by which PgBouncer refuses settings
	codeNotSupported      = "0A000" // other poolers
)

// migrateTo is migrateOnce, again and again for as long as others hold locks.
func migrateTo(ctx context.Context, like *pgx.Conn, schema string, version int32) error {
	const first, longest = time.Second, 10 * time.Second
	for pause := first; ; pause = min(2*pause, longest) {
		err := migrateOnce(ctx, like, schema, version)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) ||
			pgErr.Code != codeLockNotAvailable && pgErr.Code != codeDeadlockDetected {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// migrateOnce brings a schema to a version, over a connection of its own, which ends with it, and
// with it all locks.
func migrateOnce(ctx context.Context, like *pgx.Conn, schema string, version int32) error {
	conn, err := connect(ctx, like)
	if err != nil {
		return err
	}
	defer func() {
		const enough = 5 * time.Second
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), enough)
		defer cancel()
		_ = conn.Close(ctx) // what was committed stays, whatever it says
	}()
	quoted := pgx.Identifier{schema}.Sanitize()
	if _, err := conn.Exec(ctx, statement("hold_schema", quoted)); err != nil {
		return fmt.Errorf("wait for others who migrate: %w", err)
	}
	current, err := CurrentVersion(ctx, conn, schema) // by now another process may have migrated
	if err != nil || current == version {
		return err
	}
	if err := checkNewer(current); err != nil {
		return err
	}
	if current == 0 {
		if err := makeSchema(ctx, conn, quoted); err != nil {
			return fmt.Errorf("create schema %s: %w", quoted, err)
		}
	}
	migrator, err := load(ctx, conn, quoted)
	if err != nil {
		return err
	}
	return migrator.MigrateTo(ctx, version)
}

// connect opens a connection like another one, on which tern may work. Between versions tern does
// RESET ALL, which brings back the settings that the connection was made with. So it is made with
// all that matters.
func connect(ctx context.Context, like *pgx.Conn) (*pgx.Conn, error) {
	var user, role string
	err := like.QueryRow(ctx, statement("identity", "")).Scan(&user, &role)
	if err != nil {
		return nil, fmt.Errorf("ask who migrates: %w", err)
	}
	config := like.Config()
	for name, value := range map[string]string{
		"search_path":                   safePath,
		"default_transaction_isolation": "read committed",
		"default_transaction_read_only": "off",
		// The names of schemas and roles are sent in UTF-8, and literals without escapes.
		"client_encoding":             "UTF8",
		"standard_conforming_strings": "on",
		// Whoever asks for a table that the migrator waits for waits behind it, so it gives up and
		// asks again later, as long as others hold a lock. It waits for longer than
		// deadlock_timeout, 1 s by default: that is when autovacuum makes way, and when the
		// migrator finds that it stands in others' way for good.
		"lock_timeout": "1200ms",
	} {
		config.RuntimeParams[name] = value
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) &&
		(pgErr.Code == codeProtocolViolation || pgErr.Code == codeNotSupported) {
		return nil, fmt.Errorf("%w: %w", ErrPooler, err)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to migrate: %w", err)
	}
	_, err = conn.Exec(ctx, statement("reset", ""))
	var path string
	if err == nil {
		err = conn.QueryRow(ctx, statement("path", "")).Scan(&path)
	}
	if err == nil && path != safePath {
		err = ErrPooler
	}
	if err == nil {
		_, err = conn.Exec(ctx, statement("act_as", ""), user, role)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

// makeSchema makes the schema and the table that holds its version, unless they exist.
//
// tern makes the table, too, but not the schema; and it looks for the table by the name as it is
// quoted, so another schema might stand in for this one.
func makeSchema(ctx context.Context, conn *pgx.Conn, quoted string) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var exists, isDistributed bool
		err := tx.QueryRow(ctx, statement("schema_exists", quoted), quoted).
			Scan(&exists, &isDistributed)
		if err != nil {
			return err
		}
		if isDistributed {
			return distributed(quoted)
		}
		if !exists {
			if _, err := tx.Exec(ctx, statement("create_schema", quoted)); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, statement("create_version", quoted)); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, statement("set_version", quoted), 0)
		return err
	})
}

// load returns tern with the statements of all versions for a schema; without a connection, for
// the statements alone.
func load(ctx context.Context, conn *pgx.Conn, quoted string) (*migrate.Migrator, error) {
	files, err := fs.Sub(versions, "versions")
	if err != nil {
		return nil, err
	}
	migrator, err := migrate.NewMigrator(ctx, conn, quoted+".stint_schema_version")
	if err != nil {
		return nil, err
	}
	migrator.Data["schema"] = quoted
	migrator.Data["schemaText"] = strings.ReplaceAll(quoted, "'", "''")
	if err := migrator.LoadMigrations(files); err != nil {
		return nil, err
	}
	return migrator, nil
}
