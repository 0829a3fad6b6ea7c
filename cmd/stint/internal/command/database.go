package command

import (
	"context"
	_ "embed" // for the statements
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/doctor"
	"github.com/stint-tasks/stint/internal/localpg"
	"github.com/stint-tasks/stint/migrations"
)

// A database is what a sub-command works on.
type database struct {
	server *localpg.Server // nil if the database is the user's own.
	pool   *pgxpool.Pool
	direct *stint.Store // nil if only connect was asked for.

	// client is nil unless a service is worked on, and not on a database.
	client  *client.Client
	address string

	store allVerbs // direct or client; nil with shards

	shards *sharded // nil unless shards are worked on
}

// tasks are the verbs for tasks that are there.
func (db *database) tasks() taskVerbs {
	if db.shards != nil {
		return db.shards
	}
	return db.store
}

// withStore calls work with a client of the service, or with a store on the database, whose schema
// has a version that this release works with. On the private PostgreSQL it migrates the schema
// first.
func (p *program) withStore(
	ctx context.Context, work func(ctx context.Context, db *database) error,
) error {
	return p.withStoreOf(ctx, p.storeOptions(), work)
}

// storeOptions are the options of most sub-commands. One that waits can do so for the next poll, so
// it needs no session, and works through any pooler; the others tell those who listen what they
// did. They do not maintain, since they do not know how long tasks are to be kept. They log
// nothing: the sub-command says what came of it.
func (p *program) storeOptions() stint.Options {
	const pollInterval = 250 * time.Millisecond
	return stint.Options{
		PollOnly: p.waits, PollInterval: pollInterval, Maintenance: stint.MaintainNever,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// withStoreOf is withStore for a store with these options, and with the schema of the command line.
// Of the options, a service has the logger only.
func (p *program) withStoreOf(
	ctx context.Context, options stint.Options,
	work func(ctx context.Context, db *database) error,
) error {
	remote, err := p.onService()
	switch {
	case err != nil:
		return err
	case remote:
		return p.withService(ctx, options.Logger, work)
	}
	return p.withDirectStore(ctx, options, work)
}

// withDirectStore is withStoreOf for what needs the database itself.
func (p *program) withDirectStore(
	ctx context.Context, options stint.Options,
	work func(ctx context.Context, db *database) error,
) error {
	options.Schema = p.schema
	return p.withDatabase(ctx, func(ctx context.Context, db *database) (err error) {
		if err := db.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
			if db.server == nil || p.schema != schemaDefault { // another one may be misspelt
				return p.checkSchema(ctx, conn.Conn())
			}
			err := migrations.MigrateSchema(ctx, conn.Conn(), p.schema)
			if errors.Is(err, migrations.ErrNewerSchema) {
				return nil // the store decides whether it works with this version
			}
			return err
		}); err != nil {
			return err
		}
		if err := db.open(options); err != nil {
			return err
		}
		return work(ctx, db)
	})
}

// open makes the store.
func (db *database) open(options stint.Options) (err error) {
	if db.direct, err = stint.New(db.pool, options); err == nil {
		db.store = db.direct
	}
	return err
}

// withDatabase calls work with the database, without a store and whatever its schema.
func (p *program) withDatabase(
	ctx context.Context, work func(ctx context.Context, db *database) error,
) (err error) {
	if err := p.onDatabase(); err != nil {
		return err
	}
	db := &database{}
	defer func() { err = errors.Join(err, db.close(ctx)) }()
	if err := p.connect(ctx, db); err != nil {
		return err
	}
	return work(ctx, db)
}

func (p *program) connect(ctx context.Context, db *database) error {
	url := p.databaseURL
	if url == "" {
		var err error
		if db.server, err = p.usePrivate(ctx); err != nil {
			return fmt.Errorf("%w: %w", errUnreachable, err)
		}
		url = db.server.URL(privateDatabase)
	}
	if !isDatabaseURL(url) { // the flag was looked at before
		return said(errInput, "invalid %s %s: %s", urlVariable, shownURL(url), wantURL)
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "stint"
	}
	config.AfterConnect = doctor.ReadTexts
	if p.connections > 0 && !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = p.connections
	}
	if db.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	err = db.pool.Ping(ctx)
	if db.server != nil && !p.completing && isCode(err, codeInvalidCatalogName) {
		if err := createPrivate(ctx, db.server.URL("postgres")); err != nil {
			return fmt.Errorf("create database %s: %w", privateDatabase, err)
		}
		err = db.pool.Ping(ctx)
	}
	return inFewerWords(err)
}

const privateDatabase = "stint"

// usePrivate starts the private PostgreSQL of this user, or joins it.
func (p *program) usePrivate(ctx context.Context) (*localpg.Server, error) {
	dir, err := localpg.DataDir("postgres")
	if err != nil {
		return nil, err
	}
	if p.completing {
		return localpg.Join(ctx, dir)
	}
	if !p.quiet {
		fmt.Fprintln(p.stderr, "using the private PostgreSQL; --database-url or "+urlVariable+
			" names another")
	}
	return localpg.Start(ctx, localpg.Config{Dir: dir, Settings: map[string]string{
		"idle_in_transaction_session_timeout": "1h", // for users who type tasks slowly
	}})
}

//go:embed sql/lock_databases.sql
var lockDatabases string

//go:embed sql/database_exists.sql
var databaseExists string

//go:embed sql/create_database.sql
var createDatabase string

// createPrivate creates the database, unless somebody else does at the same time.
func createPrivate(ctx context.Context, url string) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if _, err := conn.Exec(ctx, lockDatabases); err != nil {
		return err
	}
	var exists bool
	err = conn.QueryRow(ctx, databaseExists, privateDatabase).Scan(&exists)
	if err != nil || exists {
		return err
	}
	_, err = conn.Exec(ctx, createDatabase)
	return err
}

// checkSchema says what to do about a schema that is missing or old. The store decides whether it
// works with a newer one.
func (p *program) checkSchema(ctx context.Context, conn *pgx.Conn) error {
	current, err := migrations.CurrentVersion(ctx, conn, p.schema)
	if err != nil {
		return err
	}
	switch newest := migrations.Version(); {
	case current == 0:
		return said(stint.ErrSchemaVersion, "no Stint tables in schema %q; create them with: %s",
			p.schema, p.migrateLine())
	case current < newest:
		return said(stint.ErrSchemaVersion, "schema %q is at version %d, this release works "+
			"with %d; bring it up to date with: %s", p.schema, current, newest, p.migrateLine())
	}
	return nil
}

// migrateLine is the command line that migrates the schema of the database at hand.
func (p *program) migrateLine() string { return "stint migrate" + p.flagsLine() }

// flagsLine are the flags by which a command that is printed, to be copied, finds the same tasks:
// those that were given, without passwords.
func (p *program) flagsLine() string {
	line := ""
	if p.schema != schemaDefault {
		line = " --schema " + display.Word(p.schema)
	}
	switch {
	case p.topology != "":
		line += " --topology " + shownURL(p.topology)
	case p.remote.address != "" && p.remote.address != os.Getenv(serverVariable):
		line += " --server " + display.Word(p.remote.address)
		for _, flag := range []struct{ name, value string }{
			{"token-file", p.remote.tokenFile},
			{"server-ca", p.remote.authority},
			{"client-cert", p.remote.cert},
			{"client-key", p.remote.key},
		} {
			if flag.value != "" {
				line += " --" + flag.name + " " + display.Word(flag.value)
			}
		}
	case p.remote.address == "" && p.databaseURL != os.Getenv(urlVariable):
		line += " --database-url " + shownURL(p.databaseURL)
	}
	return line
}

// The codes of PostgreSQL's errors that this package treats specially.
const (
	codeInvalidCatalogName    = "3D000"
	codeInsufficientPrivilege = "42501"
)

func isCode(err error, code string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == code
}

// close also closes a database that was opened only in part. An interruption does not end it early.
func (db *database) close(ctx context.Context) error {
	const closeMax = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeMax)
	defer cancel()
	var err error
	if db.store != nil {
		err = db.store.Close(ctx)
	}
	if db.shards != nil {
		err = db.shards.Close(ctx)
	}
	if db.pool != nil {
		db.pool.Close()
	}
	if db.server != nil {
		err = errors.Join(err, db.server.Close())
	}
	return err
}

// now is the time on the database's clock.
func (db *database) now(ctx context.Context) (now time.Time, err error) {
	switch {
	case db.shards != nil:
		return time.Now(), nil //nolint:forbidigo // each shard has another, and this is for people
	case db.client != nil:
		info, err := db.client.ServiceInfo(ctx)
		return info.Now, err
	}
	err = doctor.InTx(ctx, db.pool, func(tx pgx.Tx) error {
		now, err = doctor.Now(ctx, tx)
		return err
	})
	return now, err
}
