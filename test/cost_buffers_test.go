package stint_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Each page that a statement looks at is one that every verb pays for, also for what it does not
// use: limits, dependents, retries, results. The figures do not depend on the machine, and little
// on the version of PostgreSQL.
// Proves G205, L7.
func TestCost_PagesPerStatement(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, numbered("t", 2000)...)
	owned := own(t, store, 1)
	exec(t, pool, "VACUUM ANALYZE stint.tasks, stint.ready, stint.leased, stint.leases")
	of := yields[string](t, pool, `SELECT format(
			'''{%s}'', ''{%1$s}'', ''{%s}'', ''{0}'', ''{f}'', ''{NULL}'', ''{NULL}'', true',
			lo, claim)
		FROM stint.leased`)
	own := func(claim, n int, action string) string {
		return fmt.Sprintf(`%d, 'actor', %d, '{%s}', '1 h', NULL, '{0}', '{%d}', false, false, `+
			`8388608, 4194304, 2048`, claim, n, action, uint64(1)<<63-1)
	}
	most := map[string]struct {
		args string
		hits int
	}{
		"own_few":      {own(1, 1, "act"), 16},
		"own_singly":   {own(2, 16, "act"), 16},
		"return_final": {of, 12},
		"return_tasks": {of + ", '{NULL}', true, true, 1, 1", 12},
		"next_due":     {"'{none}', 3, '{0}', '{9}', true, true", 12},
	}
	for name, want := range most {
		hits := pagesOf(t, pool, name, want.args)
		t.Logf("%s: %d pages", name, hits)
		if hits > want.hits {
			t.Errorf("%s looks at %d pages, want %d at most", name, hits, want.hits)
		}
	}
	hits := pagesOf(t, pool, "own_few", own(4, 10, "none"))
	t.Logf("a look in vain: %d pages", hits)
	if hits > 4 {
		t.Errorf("a look in vain looks at %d pages, want 4 at most", hits)
	}
	complete(t, store, owned...)
}

// pagesOf returns how many pages a statement looks at when it is executed, and undoes it.
func pagesOf(t *testing.T, pool *pgxpool.Pool, name, args string) int {
	t.Helper()
	ctx := t.Context()
	tx, err := pool.Begin(ctx)
	wantErr(t, "Begin", err, nil)
	defer func() { wantErr(t, "Rollback", tx.Rollback(ctx), nil) }()
	for _, statement := range []string{
		statements(t)["set_planner"], "PREPARE counted AS " + statements(t)[name],
	} {
		_, err = tx.Exec(ctx, statement)
		wantErr(t, name, err, nil)
	}
	defer func() {
		_, err := tx.Exec(ctx, "DEALLOCATE counted")
		wantErr(t, "DEALLOCATE", err, nil)
	}()
	least := 0
	for round := range 3 { // the first also fills caches of the catalog
		_, err = tx.Exec(ctx, "SAVEPOINT round")
		wantErr(t, "SAVEPOINT", err, nil)
		rows, err := tx.Query(ctx, "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) "+
			"EXECUTE counted("+args+")")
		wantErr(t, "EXPLAIN", err, nil)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		wantErr(t, "EXPLAIN", err, nil)
		_, err = tx.Exec(ctx, "ROLLBACK TO round")
		wantErr(t, "ROLLBACK TO", err, nil)
		pages := 0
		found := regexp.MustCompile(`Buffers: shared hit=(\d+)(?: read=(\d+))?`).
			FindStringSubmatch(strings.Join(lines, "\n"))
		for _, number := range found[1:] {
			n, _ := strconv.Atoi(number)
			pages += n
		}
		if round == 0 || pages < least {
			least = pages
		}
	}
	return least
}
