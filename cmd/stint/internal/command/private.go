package command

import (
	"context"
	_ "embed" // for the statements
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/localpg"
)

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
	return localpg.Start(ctx, localpg.Config{
		Dir: dir,
		Settings: map[string]string{
			"idle_in_transaction_session_timeout": "1h", // for users who type tasks slowly
		},
		Announce: func(format string, args ...any) { // also where p.quiet
			fmt.Fprintf(p.stderr, format+"\n", args...)
		},
	})
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
