package stint_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Behind a pooler that knows no prepared statements, the driver sends its texts in other ways.
// TestVerbs_WorkUnderAnySettings has the other three.
// Proves G90.
func TestStore_WorksInEveryExecMode(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			pool := poolOf(t, testdb.New(t), func(config *pgxpool.Config) {
				config.ConnConfig.DefaultQueryExecMode = mode
			})
			store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
			if err != nil {
				t.Fatal(err)
			}
			wholeLife(t, store, pool)
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			wholeLife(t, store.WithTx(tx), nil)
			if err := tx.Commit(t.Context()); err != nil {
				t.Errorf("Commit = %v", err)
			}
		})
	}
}
