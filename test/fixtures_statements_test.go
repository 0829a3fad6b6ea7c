package stint_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/pg"
)

// statements returns the texts of all statements, as a store sends them.
func statements(t *testing.T) map[string]string {
	t.Helper()
	texts, err := readStatements()
	wantErr(t, "the texts of all statements", err, nil)
	return texts
}

// readStatements returns them once: tests ask for them for each plan.
var readStatements = sync.OnceValues(func() (map[string]string, error) {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://127.0.0.1:1/nobody") // it does not connect
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	if err != nil {
		return nil, err
	}
	return pg.Of(store).Texts(), store.Close(ctx)
})

// fill makes the tables look like those of a busy queue of n tasks.
func fill(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	for _, statement := range []string{
		`INSERT INTO stint.tasks (key, id, action, priority, max_tries, on_abort, post_result)
		 SELECT k, 'task' || k, CASE WHEN k % 100 = 0 THEN 'other' ELSE 'act' END, 0, 3, 0, false
		 FROM generate_series(1, $1) k`,
		`INSERT INTO stint.ready (lo, hi, tries, priority, action)
		 SELECT k, k, 0, 0, CASE WHEN k % 100 = 0 THEN 'other' ELSE 'act' END
		 FROM generate_series(1, $1 / 2) k`,
		`INSERT INTO stint.finished (lo, hi, tries, cause)
		 SELECT k, k, 1, 0 FROM generate_series($1 / 2 + 1, $1 * 8 / 10) k`,
		`INSERT INTO stint.edges (after, run)
		 SELECT k, (k / 300 + 1) * 300
		 FROM generate_series($1 / 2 + 1, $1 * 8 / 10) k
		 WHERE k % 300 <> 0 AND (k / 300 + 1) * 300 <= $1 * 8 / 10`,
		`INSERT INTO stint.leased (lo, hi, claim, tries)
		 SELECT k, k, (k - 1) / 100, 1 FROM generate_series($1 * 8 / 10 + 1, $1 * 9 / 10) k`,
		`INSERT INTO stint.leases (claim, actor, deadline, size, spans)
		 SELECT (k - 1) / 100, 'actor', statement_timestamp() + '1 h', 100,
		        (SELECT array_agg(ARRAY[one, one]) FROM generate_series(k, k + 99) one)
		 FROM generate_series($1 * 8 / 10 + 1, $1 * 9 / 10, 100) k`,
		`INSERT INTO stint.scheduled (key, not_before, tries)
		 SELECT k, statement_timestamp() + '1 h', 0 FROM generate_series($1 * 9 / 10 + 1, $1) k`,
		`INSERT INTO stint.deadlines (key, deadline)
		 SELECT k, statement_timestamp() + '1 h' FROM generate_series(1, $1) k`,
	} {
		exec(t, pool, strings.ReplaceAll(statement, "$1", fmt.Sprint(n)+"::bigint"))
	}
	// New keys must not meet these.
	exec(t, pool, "SELECT setval('stint.blocks', 1000000)")
}

// pages returns how many pages of the store's tables and indexes work reads, however often it reads
// the same one. All of it is undone.
func pages(t *testing.T, pool *pgxpool.Pool, work func(*stint.Store)) int64 {
	t.Helper()
	store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	tx := begin(t, pool)
	before := fetched(t, tx)
	work(store.WithTx(tx))
	read := fetched(t, tx) - before
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	return read
}

// fetched is how many pages of the store's tables and indexes were read so far.
func fetched(t *testing.T, tx pgx.Tx) (pages int64) {
	t.Helper()
	err := tx.QueryRow(t.Context(), `SELECT sum(pg_stat_get_xact_blocks_fetched(oid))::bigint
		FROM pg_class
		WHERE relnamespace IN ('stint'::regnamespace, 'pg_toast'::regnamespace)`).Scan(&pages)
	if err != nil {
		t.Fatal(err)
	}
	return pages
}
