package pg_test

import (
	"testing"

	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A pool that was closed never opens again: that is no outage, which may end.
func TestIsAway_NotIfThePoolIsClosed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	pool.Close()
	_, err := pool.Exec(t.Context(), "SELECT 1")
	if !pg.IsPoolClosed(err) || pg.IsAway(err) {
		t.Errorf("%v: closed %t, away %t", err, pg.IsPoolClosed(err), pg.IsAway(err))
	}
}
