// Package testdb gives each test a database of its own.
package testdb

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testserver"
)

//nolint:gochecknoglobals // one server for all tests of a binary
var shared = testserver.Server{Container: startContainer, OfRun: true}

// Main runs the tests of a package and then stops the server that [New] may have started. Call it
// from TestMain and nothing else.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is [Main] for a TestMain that has more to do: it returns the exit code.
func Run(m *testing.M) int {
	if err := testrun.Prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return shared.Run(m)
}

// New returns a pool on a new database, migrated to the newest schema and dropped when the test
// ends. The server is the one named by STINT_TEST_DATABASE_URL, whose role must be allowed to
// create databases; else one in a container of the image that STINT_TEST_CONTAINER names; else a
// private one, of PostgreSQL programs on this machine or, where there are none, downloaded ones. If
// there is no server the test fails and says how to get one.
func New(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	return shared.New(tb, true)
}

// NewEmpty is [New] without the schema.
func NewEmpty(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	return shared.New(tb, false)
}

// Open is [New] for examples, which have no test to end with: the caller calls drop.
func Open(ctx context.Context) (pool *pgxpool.Pool, drop func() error, err error) {
	return shared.Open(ctx, true)
}
