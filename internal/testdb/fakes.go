package testdb

import (
	_ "embed"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	//go:embed fakes.sql
	fakes string
	//go:embed fake_citus.sql
	fakeCitus string
	//go:embed fake_citus_schema.sql
	fakeCitusSchema string
)

// Fake makes the schema "evil", full of fakes of PostgreSQL's functions, operators and types. A
// fake that is called warns "diverted: " and its name, and moves the sequence evil.times.
func Fake(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	if _, err := pool.Exec(tb.Context(), fakes); err != nil {
		tb.Fatal(err)
	}
}

// FakeCitus makes the catalog in which Citus notes the schemas that it distributes, as its version
// 12 and up have it, and notes a schema there, unless it is empty.
func FakeCitus(tb testing.TB, pool *pgxpool.Pool, schema string) {
	tb.Helper()
	_, err := pool.Exec(tb.Context(), fakeCitus)
	if err != nil {
		tb.Fatal(err)
	}
	if schema == "" {
		return
	}
	_, err = pool.Exec(tb.Context(), fakeCitusSchema, schema)
	if err != nil {
		tb.Fatal(err)
	}
}
