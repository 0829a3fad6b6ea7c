// Package migrations creates and upgrades the tables that stint keeps tasks in.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/outage"
)

// DefaultSchema is the database schema used by [Migrate] and by a store with zero options.
const DefaultSchema = "stint"

// ErrNewerSchema reports that the database was migrated by a newer release than this one.
var ErrNewerSchema = errors.New("schema is newer than this release of stint")

// ErrEncoding reports that the database is not in UTF-8, so it may not be able to store all texts
// of tasks.
var ErrEncoding = errors.New("database is not in UTF-8")

// ErrDistributed reports that Citus distributes the schema over its nodes, as it does with schemas
// that are made while citus.enable_schema_based_sharding is on. The statements of stint do not work
// there: undo it by citus_schema_undistribute, as docs/operations/scale.md says.
var ErrDistributed = errors.New("schema is distributed by Citus")

func distributed(quoted string) error {
	return fmt.Errorf("%w, which stint does not work with: SELECT citus_schema_undistribute('%s')",
		ErrDistributed, strings.ReplaceAll(quoted, "'", "''"))
}

//go:embed versions/*.sql
var versions embed.FS

//go:embed *.sql
var statements embed.FS

// Migrate brings the schema [DefaultSchema] of the database that conn is connected to up to the
// newest version, creating it if need be.
//
// Every process may call Migrate at every start: concurrent calls wait for one another, and a
// schema that is up to date is left alone. Each version is applied in a transaction of its own; if
// ctx ends in between, the versions applied so far stay, and a later call goes on from there.
//
// Processes may work meanwhile. A new version takes locks on tables that they use, for as long as
// it looks through the tasks that are ready or owned. If others hold a lock on one of the tables,
// such as a dump or a transaction that was left open, Migrate gives up after 1.2 s, so that
// nobody waits behind it for longer, and tries again after a pause of 1 to 10 s, until ctx ends.
// Its error then also is ctx.Err().
//
// Migrate refuses a schema that is newer than this release with [ErrNewerSchema], and a database
// whose encoding is not UTF8 with [ErrEncoding], before it creates anything, and so one that Citus
// distributes with [ErrDistributed]. The role needs CREATE
// on the database the first time, and must own the schema if a later release brings a new version.
// If the schema is up to date, the privileges that [CurrentVersion] needs are enough.
//
// What there is to do is done over a connection of its own, made from the configuration of conn,
// for the same role; conn only looks, and keeps its settings. If a pooler does not pass on the
// settings that a connection begins with, the error is [ErrPooler].
//
// In a database that was filled by logical replication, Migrate sets the sequences right
// ([SequencesBehind]), if its role may look at them; to set them, it needs UPDATE on them.
func Migrate(ctx context.Context, conn *pgx.Conn) error {
	return MigrateSchema(ctx, conn, DefaultSchema)
}

// MigratePool is [Migrate] on a connection of a pool.
func MigratePool(ctx context.Context, pool *pgxpool.Pool) error {
	return pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return Migrate(ctx, conn.Conn())
	})
}

// MigrateSchema is [Migrate] for a schema of any other name, so that one database can hold several
// independent stores. The name is taken literally, upper case and punctuation included.
func MigrateSchema(ctx context.Context, conn *pgx.Conn, schema string) error {
	return MigrateTo(ctx, conn, schema, Version())
}

// MigrateTo is [MigrateSchema] to a version between 0, which has no tables, and [Version].
//
// It can also go back to an earlier version. That drops everything that the later versions added,
// including the tasks in it; version 0 drops all tasks. MigrateTo asks nobody, counts nothing, and
// does not look whether processes work on the schema: it is for callers that have asked, and
// stopped these, as stint migrate --down does. A service that migrates at its start calls [Migrate]
// or [MigrateSchema], which never go back.
func MigrateTo(ctx context.Context, conn *pgx.Conn, schema string, version int32) error {
	quoted, err := quote(schema)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if newest := Version(); version < 0 || version > newest {
		return fmt.Errorf("migrate: version %d: this release knows 0 to %d", version, newest)
	}
	if err := checkEncoding(conn); err != nil && version > 0 {
		return fmt.Errorf("migrate: %w", err)
	}
	// If the schema is up to date, the role needs no more privileges than CurrentVersion does.
	current, err := CurrentVersion(ctx, conn, schema)
	if err == nil && current != version {
		if err = checkNewer(current); err == nil {
			err = migrateTo(ctx, conn, schema, version)
		}
	}
	if err == nil && version == Version() {
		err = raiseSequences(ctx, conn, quoted)
	}
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

func checkNewer(current int32) error {
	if newest := Version(); current > newest {
		return fmt.Errorf("%w: it is at version %d, this release knows %d",
			ErrNewerSchema, current, newest)
	}
	return nil
}

// checkEncoding checks the encoding that the server reported when the connection was made. If a
// pooler does not pass it on, the encoding counts as right.
func checkEncoding(conn *pgx.Conn) error {
	encoding := conn.PgConn().ParameterStatus("server_encoding")
	if encoding == "" || encoding == "UTF8" {
		return nil
	}
	return fmt.Errorf("%w but in %s: make one by "+
		"CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0", ErrEncoding, encoding)
}

// CurrentVersion returns the version that a schema is at, 0 if there is no such schema or it was
// never migrated. It may be newer than [Version]. It changes nothing. The role needs USAGE on the
// schema and SELECT on its table stint_schema_version. Of a schema that Citus distributes the error
// is [ErrDistributed].
func CurrentVersion(ctx context.Context, conn *pgx.Conn, schema string) (int32, error) {
	quoted, err := quote(schema)
	if err == nil {
		err = checkName(conn, schema)
	}
	if err != nil {
		return 0, fmt.Errorf("schema version: %w", err)
	}
	var version int32
	var isDistributed bool
	err = conn.QueryRow(ctx, statement("schema_version", quoted), quoted).
		Scan(&version, &isDistributed)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == codeUndefinedTable {
		return 0, nil
	}
	if err == nil && isDistributed {
		err = distributed(quoted)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = errors.New("the table stint_schema_version is empty, or row level security hides " +
			"its row from this role")
	}
	if err != nil {
		return 0, fmt.Errorf("schema version: %w", outage.Advise(err))
	}
	return version, nil
}

// checkName refuses to look for a schema by a name that the server would take for another one.
func checkName(conn *pgx.Conn, schema string) error {
	encoding := conn.PgConn().ParameterStatus("client_encoding")
	isPlain := !strings.ContainsFunc(schema, func(r rune) bool { return r > unicode.MaxASCII })
	if encoding == "" || encoding == "UTF8" || isPlain {
		return nil
	}
	return fmt.Errorf("the client_encoding of the connection is %s, and the server would take %q "+
		"for another name: connect with client_encoding=UTF8", encoding, schema)
}

// quote checks the name of a schema, and returns it quoted for statements.
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

// statement returns one of the statements in this directory, for a schema.
func statement(name, quoted string) string {
	text, err := statements.ReadFile(name + ".sql")
	if err != nil {
		return "" // cannot be: it is embedded
	}
	return strings.NewReplacer("EXISTS stint\n", "EXISTS "+quoted+"\n", " stint.", " "+quoted+".").
		Replace(string(text))
}
