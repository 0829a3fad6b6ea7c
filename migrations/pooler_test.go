//go:build unix

package migrations_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// PgBouncer refuses the path as a setting that a connection begins with, or drops it if told so.
// Either way nothing is made; and a service may migrate at its start where nothing is to do.
func TestMigrate_SaysThatAPoolerLosesThePath(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const drop = "ignore_startup_parameters = search_path, lock_timeout, " +
		"default_transaction_read_only, default_transaction_isolation"
	for name, settings := range map[string][]string{"refused": nil, "dropped": {drop}} {
		for _, mode := range []string{"session", "transaction"} {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				direct := testdb.NewEmpty(t)
				port := testdb.StartPooler(t, direct, mode, settings...)
				pool := poolLike(t, direct, func(config *pgx.ConnConfig) {
					config.Host, config.Port = "127.0.0.1", port
					config.TLSConfig, config.Fallbacks = nil, nil
					config.DefaultQueryExecMode = pgx.QueryExecModeExec
				})
				const late = 2 * time.Minute
				ctx, cancel := context.WithTimeout(t.Context(), late)
				defer cancel()
				for pool.Ping(ctx) != nil && ctx.Err() == nil {
					<-time.After(10 * time.Millisecond)
				}
				err := migrate(ctx, pool, "stint")
				if !errors.Is(err, migrations.ErrPooler) {
					t.Errorf("Migrate = %v, want ErrPooler", err)
				}
				if got := currentVersion(t, direct, "stint"); got != 0 {
					t.Errorf("the schema is at version %d", got)
				}
				if err := migrate(ctx, direct, "stint"); err != nil {
					t.Fatal(err)
				}
				if err := migrate(ctx, pool, "stint"); err != nil {
					t.Errorf("Migrate with nothing to do = %v", err)
				}
			})
		}
	}
}
