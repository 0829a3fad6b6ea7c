package testdb

import (
	_ "embed"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed fakes.sql
var fakes string

// Fake makes the schema "evil", full of fakes of PostgreSQL's functions, operators and types. A
// fake that is called warns "diverted: " and its name, and moves the sequence evil.times.
func Fake(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	if _, err := pool.Exec(tb.Context(), fakes); err != nil {
		tb.Fatal(err)
	}
}
