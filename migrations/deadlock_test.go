//go:build unix

package migrations_test

import (
	"context"
	"testing"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// A try that finds that it and others wait for each other ends, and the next one goes on.
func TestMigrateTo_MakesWayForWhoWaitsForIt(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.NewServer(t, "", nil).Pool(t)
	if err := migrations.MigratePool(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	other, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback(context.WithoutCancel(t.Context())) }()
	for _, statement := range []string{
		"SET LOCAL deadlock_timeout = '1h'", // so that it is the migrator that finds it
		"SELECT FROM stint.ready FOR UPDATE",
	} {
		if _, err := other.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- goBack(t.Context(), pool) }()
	awaitTries(t, pool, 1)
	// The migrator has the view by now, and waits for ready.
	if _, err := other.Exec(t.Context(), "SELECT count(*) FROM stint.task_states"); err != nil {
		t.Errorf("the look ended with %v", err)
	}
	if err := other.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("MigrateTo = %v", err)
	}
}
