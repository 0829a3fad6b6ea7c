package stint_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// Where transactions only read unless they say that they write, those of the store do.
// Proves G90, G161.
func TestVerbs_WriteWhereTransactionsReadByDefault(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	clean := testdb.NewEmpty(t)
	pool := poolOf(t, clean, func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	})
	for range 2 {
		err := pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
			return migrations.Migrate(t.Context(), conn.Conn())
		})
		wantErr(t, "Migrate", err, nil)
	}
	store := openStore(t, pool, stint.Options{})
	everyVerb(t, store, false, "alone ")
	waitingVerbs(t, store, "waited ")
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{AccessMode: pgx.ReadWrite})
	wantErr(t, "BeginTx", err, nil)
	everyVerb(t, store.WithTx(tx), true, "in a transaction ")
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	checkStore(t, clean)
}
