package stinttest

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testserver"
	"github.com/stint-tasks/stint/migrations"
)

var shared testserver.Server //nolint:gochecknoglobals // one server for all tests of a binary

// Main runs the tests of a package, stops the server that [New] may have started, and exits. Call
// it from TestMain. Without it, a private server keeps running until other tests start one.
func Main(m *testing.M) { shared.Main(m) }

// A Store is a [stint.Store] for one test.
type Store struct {
	*stint.Store

	// Pool is the pool of the store, on which a test may make tables of its own.
	Pool *pgxpool.Pool

	options stint.Options
}

// New returns a store on a new database, migrated to the newest schema. When the test ends, the
// store is closed and the database dropped; the test must have released connections of the pool by
// then. If there is no server, the test fails and says how to get one.
//
// With [stint.MaintainWhenOwning], which is the default, the store does not maintain the schema, so
// that nothing happens that the test does not ask for: [stint.Store.Maintain] maintains it, and the
// functions of this package call Maintain if need be.
func New(tb testing.TB, options stint.Options) *Store {
	tb.Helper()
	pool := shared.New(tb, true)
	if options.Schema != "" && options.Schema != migrations.DefaultSchema {
		err := pool.AcquireFunc(tb.Context(), func(conn *pgxpool.Conn) error {
			return migrations.MigrateSchema(tb.Context(), conn.Conn(), options.Schema)
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	return NewOn(tb, pool, options)
}

// NewOn is [New] on a database of the caller. Its schema must have been migrated, and the role of
// the pool must own the schema. The store is closed when the test ends; the pool stays open.
func NewOn(tb testing.TB, pool *pgxpool.Pool, options stint.Options) *Store {
	tb.Helper()
	if options.Schema == "" {
		options.Schema = migrations.DefaultSchema
	}
	if options.Maintenance == stint.MaintainWhenOwning {
		options.Maintenance = stint.MaintainNever
	}
	store, err := stint.New(pool, options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := store.Close(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
	})
	return &Store{Store: store, Pool: pool, options: options}
}

// in returns a statement for the schema of the store.
func (s *Store) in(statement string) string {
	schema := pgx.Identifier{s.options.Schema}.Sanitize()
	return strings.ReplaceAll(statement, "stint.", schema+".")
}
