package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/doctor"
	"github.com/stint-tasks/stint/migrations"
)

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
		Logger: slog.New(slog.DiscardHandler), Environment: os.Getenv(environmentVariable),
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

// withService calls work with a client of the service.
func (p *program) withService(
	ctx context.Context, logger *slog.Logger,
	work func(ctx context.Context, db *database) error,
) (err error) {
	c, err := p.remote.newClient(p.remote.address, logger)
	if err != nil {
		return err
	}
	db := &database{client: c, store: patient{c}, address: p.remote.address}
	defer func() { err = errors.Join(err, db.close(ctx)) }()
	if _, err := c.ServiceInfo(ctx); err != nil { // it is told at once that there is none
		return fmt.Errorf("%s: %w", db.name(), err)
	}
	return work(ctx, db)
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

// withConn calls work with a connection to the database, whatever its schema.
func (p *program) withConn(ctx context.Context, work func(conn *pgxpool.Conn) error) error {
	return p.withDatabase(ctx, func(ctx context.Context, db *database) error {
		return db.pool.AcquireFunc(ctx, work)
	})
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
