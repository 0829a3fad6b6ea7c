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

// FakeCitus makes the catalog in which Citus notes the schemas that it distributes, as its version
// 12 and up have it, and notes a schema there, unless it is empty.
func FakeCitus(tb testing.TB, pool *pgxpool.Pool, schema string) {
	tb.Helper()
	_, err := pool.Exec(tb.Context(), `SET allow_system_table_mods = on;
		CREATE TABLE pg_catalog.pg_dist_schema (
			schemaid oid NOT NULL, colocationid int NOT NULL,
			CONSTRAINT pg_dist_schema_pkey PRIMARY KEY (schemaid),
			CONSTRAINT pg_dist_schema_unique_colocationid_index UNIQUE (colocationid)
		);
		GRANT SELECT ON pg_catalog.pg_dist_schema TO public;
		INSERT INTO pg_catalog.pg_dist_schema
		SELECT oid, 1 FROM pg_namespace WHERE nspname = 'public';
		RESET allow_system_table_mods`)
	if err != nil {
		tb.Fatal(err)
	}
	if schema == "" {
		return
	}
	_, err = pool.Exec(tb.Context(), `INSERT INTO pg_catalog.pg_dist_schema
		SELECT oid, 2 FROM pg_namespace WHERE nspname = $1`, schema)
	if err != nil {
		tb.Fatal(err)
	}
}
