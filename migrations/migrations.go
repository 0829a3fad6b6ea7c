// Package migrations creates and upgrades the tables that stint keeps tasks in.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/tern/v2/migrate"
)

// DefaultSchema is the database schema used by [Migrate] and by a store with zero options.
const DefaultSchema = "stint"

// ErrNewerSchema reports that the database was migrated by a newer release than this one.
var ErrNewerSchema = errors.New("schema is newer than this release of stint")

//go:embed versions/*.sql
var versions embed.FS

//go:embed create_schema.sql
var createSchema string

//go:embed lock_schema.sql
var lockSchema string

//go:embed schema_exists.sql
var schemaExists string

//go:embed schema_version.sql
var schemaVersion string

const codeUndefinedTable = "42P01"

// Migrate brings the schema [DefaultSchema] of the database that conn is connected to up to the
// newest version, creating it if need be.
//
// It is safe to call at every start of every process: calls made at once wait for one another, and
// a schema that is up to date is left alone. Each version is applied in a transaction of its own;
// if ctx ends in between, the versions applied so far stay, and a later call goes on from there.
// Session settings of conn are reset, unless the schema is up to date.
//
// A schema that is newer than this release is refused with [ErrNewerSchema]. The role needs CREATE
// on the database the first time, and to own the schema where a later release brings a new version.
// If the schema is up to date, what [CurrentVersion] needs is enough.
func Migrate(ctx context.Context, conn *pgx.Conn) error {
	return MigrateSchema(ctx, conn, DefaultSchema)
}

// MigrateSchema is [Migrate] for a schema of any other name, so that one database can hold several
// independent stores. The name is taken literally, upper case and punctuation included.
func MigrateSchema(ctx context.Context, conn *pgx.Conn, schema string) error {
	return MigrateTo(ctx, conn, schema, Version())
}

// MigrateTo is [MigrateSchema] to a version between 0, which has no tables, and [Version].
//
// It also goes back, which drops what the later versions added, with the tasks that are in it. The
// processes that work on the schema should be stopped before.
func MigrateTo(ctx context.Context, conn *pgx.Conn, schema string, version int32) error {
	quoted, err := quote(schema)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if newest := Version(); version < 0 || version > newest {
		return fmt.Errorf("migrate: version %d: this release knows 0 to %d", version, newest)
	}
	// Who has nothing to do need not be allowed to, which the migrator would ask for.
	current, err := CurrentVersion(ctx, conn, schema)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if current == version {
		return nil
	}
	if err := makeSchema(ctx, conn, quoted); err != nil {
		return fmt.Errorf("migrate: create schema %s: %w", quoted, err)
	}
	migrator, err := migrate.NewMigrator(ctx, conn, quoted+".stint_schema_version")
	if err != nil {
		return fmt.Errorf("migrate: open version table: %w", err)
	}
	migrator.Data["schema"] = quoted
	migrator.Data["schemaText"] = strings.ReplaceAll(quoted, "'", "''")
	steps, err := fs.Sub(versions, "versions")
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if err := migrator.LoadMigrations(steps); err != nil {
		return fmt.Errorf("migrate: load versions: %w", err)
	}
	if current, err = migrator.GetCurrentVersion(ctx); err != nil {
		return fmt.Errorf("migrate: read version: %w", err)
	}
	if newest := Version(); current > newest {
		return fmt.Errorf("migrate: %w: it is at version %d, this release knows %d",
			ErrNewerSchema, current, newest)
	}
	if err := migrator.MigrateTo(ctx, version); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// CurrentVersion returns the version that a schema is at, 0 if there is no such schema or it was
// never migrated. It may be newer than [Version]. It changes nothing. The role needs USAGE on the
// schema and SELECT on its table stint_schema_version.
func CurrentVersion(ctx context.Context, conn *pgx.Conn, schema string) (int32, error) {
	quoted, err := quote(schema)
	if err != nil {
		return 0, fmt.Errorf("schema version: %w", err)
	}
	var version int32
	statement := strings.Replace(schemaVersion, "FROM stint.", "FROM "+quoted+".", 1)
	err = conn.QueryRow(ctx, statement).Scan(&version)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == codeUndefinedTable {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("schema version: %w", err)
	}
	return version, nil
}

// quote checks the name of a schema, and returns it as it stands in statements.
func quote(schema string) (string, error) {
	const bytesMax = 63
	if schema == "" || len(schema) > bytesMax || strings.ContainsRune(schema, 0) {
		return "", fmt.Errorf("schema name %q: want 1 to %d bytes without NUL", schema, bytesMax)
	}
	return pgx.Identifier{schema}.Sanitize(), nil
}

// Version is the version of the schema that [Migrate] migrates to.
func Version() int32 {
	files, err := versions.ReadDir("versions")
	if err != nil {
		return 0 // cannot be: the directory is embedded
	}
	return int32(len(files)) //nolint:gosec // there are few
}

func makeSchema(ctx context.Context, conn *pgx.Conn, quoted string) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockSchema); err != nil {
			return err
		}
		var exists bool
		if err := tx.QueryRow(ctx, schemaExists, quoted).Scan(&exists); err != nil || exists {
			return err
		}
		statement := strings.Replace(createSchema, "EXISTS stint", "EXISTS "+quoted, 1)
		_, err := tx.Exec(ctx, statement)
		return err
	})
}
