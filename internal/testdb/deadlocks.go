package testdb

import (
	_ "embed" // for the statements
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed other_sessions.sql
var otherSessions string

//go:embed deadlocks.sql
var countDeadlocks string

// IsDeadlock reports whether a call failed since the server resolved a deadlock.
func IsDeadlock(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "40P01"
}

// Deadlocks is how many deadlocks the server has counted in the database of a test, whose
// transactions have all ended. A session reports its counts when it ends at the latest, so all
// sessions of the pool end first.
func Deadlocks(tb testing.TB, pool *pgxpool.Pool) (n int64) {
	tb.Helper()
	conn, err := pgx.ConnectConfig(tb.Context(), pool.Config().ConnConfig)
	if err != nil {
		tb.Fatal(err)
	}
	for others := 1; others > 0; {
		pool.Reset() // a store may have used it since
		err := conn.QueryRow(tb.Context(), otherSessions).Scan(&others)
		if err != nil {
			tb.Fatal(err)
		}
	}
	err = conn.QueryRow(tb.Context(), countDeadlocks).Scan(&n)
	if err != nil {
		tb.Fatal(err)
	}
	if err := conn.Close(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return n
}
