package doctor

import (
	"context"
	_ "embed" // for the statements
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/set_path.sql
var setPath string

//go:embed sql/read_texts.sql
var readTexts string

//go:embed sql/clock.sql
var clock string

//go:embed sql/system_identifier.sql
var systemIdentifier string

// A Conn begins transactions: a connection, or a pool of them.
type Conn interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// InTx calls work in a transaction, under a search path of its own, so that nobody's functions and
// operators take the place of PostgreSQL's. Its statements are prepared after the path is set.
func InTx(ctx context.Context, conn Conn, work func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, setPath); err != nil {
			return err
		}
		return work(tx)
	})
}

// ReadTexts makes the server read texts of a connection as the driver sends them, if it does not.
// It is for AfterConnect of a pool of the program's own.
func ReadTexts(ctx context.Context, conn *pgx.Conn) error {
	encoding := conn.PgConn().ParameterStatus("client_encoding")
	literals := conn.PgConn().ParameterStatus("standard_conforming_strings")
	if (encoding == "" || encoding == "UTF8") && literals != "off" {
		return nil
	}
	_, err := conn.Exec(ctx, readTexts)
	return err
}

// SystemIdentifier is a number that only those know who reach the server or its standbys.
func SystemIdentifier(ctx context.Context, tx pgx.Tx) (int64, error) {
	var number int64
	if err := tx.QueryRow(ctx, systemIdentifier).Scan(&number); err != nil {
		return 0, fmt.Errorf("read the system identifier: %w", err)
	}
	return number, nil
}

// Now is the time on the database's clock.
func Now(ctx context.Context, tx pgx.Tx) (time.Time, error) {
	var now time.Time
	if err := tx.QueryRow(ctx, clock).Scan(&now); err != nil {
		return now, fmt.Errorf("read the clock: %w", err)
	}
	return now, nil
}
