package stint_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// freePlans are the statements that run under the planner's own choice.
var freePlans = []string{"check_parked", "check_store", "schema_version", "unsettled_edges"}

// smallTables have one row, or one per process or action with limits, so they are best scanned.
var smallTables = []string{"sessions", "actors", "pruning", "limits", "supported", "origin"}

// scanned are the tables that a statement reads from end to end, for the reason that it gives.
var scanned = map[string]string{
	"list_problems": "leases", "list_owned": "leases", "list_unwatched": "leases",
}

// isSmallScan reports whether a line of a plan goes through all of a small table.
func isSmallScan(line string) bool {
	return slices.ContainsFunc(smallTables, func(table string) bool {
		return strings.Contains(line, "Seq Scan on "+table) ||
			strings.Contains(line, "Scan using "+table+"_pkey")
	})
}

// plan prepares a statement as the store does and returns its plan.
func plan(t *testing.T, conn *pgxpool.Conn, name, text string) string {
	t.Helper()
	ctx := t.Context()
	var lines []string
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if !slices.Contains(freePlans, name) {
			if _, err := tx.Exec(ctx, statements(t)["set_planner"]); err != nil {
				return err
			}
		}
		if name == "copy_tasks" {
			if _, err := tx.Exec(ctx, statements(t)["copy_tables"]); err != nil {
				return err
			}
		}
		var prepared bool
		err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_prepared_statements "+
			"WHERE name = $1)", name).Scan(&prepared)
		if err != nil {
			return err
		}
		if !prepared {
			if _, err := tx.Exec(ctx, "PREPARE "+name+" AS "+text); err != nil {
				return err
			}
		}
		call := "EXPLAIN (COSTS OFF) EXECUTE " + name
		if args := sample[name].args; args != "" {
			call += "(" + args + ")"
		}
		rows, err := tx.Query(ctx, call)
		if err != nil {
			return err
		}
		lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		t.Fatalf("plan of %s: %v", name, err)
	}
	return strings.Join(lines, "\n")
}

// checkPlans checks that every statement goes along its indexes and nothing is scanned through.
func checkPlans(t *testing.T, conn *pgxpool.Conn, when string) {
	t.Helper()
	first := firstColumns(t, conn)
	for name, text := range statements(t) {
		if name == "listen" || name == "copy_tables" || name == "copies_changed" {
			continue // has no plan, or reads all of tables that were made for it
		}
		got := plan(t, conn, name, text)
		for _, index := range sample[name].indexes {
			if !strings.Contains(got, "using "+index) {
				t.Errorf("%s, %s does not use %s:\n%s", when, name, index, got)
			}
		}
		if slices.Contains(freePlans, name) {
			continue
		}
		isScan := func(line string) bool {
			return strings.Contains(line, "Seq Scan") && !isSmallScan(line) &&
				(scanned[name] == "" || !strings.Contains(line, "Seq Scan on "+scanned[name]))
		}
		if strings.Contains(got, "Gather") {
			t.Errorf("%s, %s takes parallel workers:\n%s", when, name, got)
		}
		if slices.ContainsFunc(strings.Split(got, "\n"), isScan) {
			t.Errorf("%s, %s scans a table:\n%s", when, name, got)
		}
		if index := walked(got, first); index != "" {
			t.Errorf("%s, %s walks all of %s:\n%s", when, name, index, got)
		}
	}
}

// firstColumns returns the first column of each index.
func firstColumns(t *testing.T, conn *pgxpool.Conn) map[string]string {
	t.Helper()
	rows, err := conn.Query(t.Context(), `
		SELECT class.relname, pg_get_indexdef(class.oid, 1, true)
		FROM pg_class AS class
		WHERE class.relkind = 'i' AND class.relnamespace = 'stint'::regnamespace`)
	wantErr(t, "Query", err, nil)
	first := map[string]string{}
	var index, column string
	_, err = pgx.ForEachRow(rows, []any{&index, &column}, func() error {
		first[index] = strings.Trim(column, "()")
		return nil
	})
	wantErr(t, "ForEachRow", err, nil)
	return first
}

// walked returns the index that a plan goes along without a condition on its first column, if there
// is one.
func walked(plan string, first map[string]string) string {
	lines := strings.Split(plan, "\n")
	for i, line := range lines {
		_, index, found := strings.Cut(line, "Index Scan using ")
		if !found {
			_, index, found = strings.Cut(line, "Index Only Scan using ")
		}
		if !found || isSmallScan(lines[i]) {
			continue
		}
		index, _, _ = strings.Cut(index, " ")
		condition := ""
		if i+1 < len(lines) {
			_, condition, _ = strings.Cut(lines[i+1], "Index Cond:")
		}
		if condition == "" || !strings.Contains(condition, first[index]) {
			return index
		}
	}
	return ""
}

// checkPruningReads checks that pruning reads about as many pages as it prunes tasks need, however
// many there are: each with a definition, an edge, and a dependent to look at.
func checkPruningReads(t *testing.T, conn *pgxpool.Conn) {
	t.Helper()
	const spans, pagesEach = 250, 40
	var text string
	err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), statements(t)["set_planner"]); err != nil {
			return err
		}
		err := tx.QueryRow(t.Context(), fmt.Sprintf("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+
			"EXECUTE prune_finished(false, '-infinity', 0, '0', %d, 5000, '{}', '0', '0', '0')",
			spans)).Scan(&text)
		return errors.Join(err, tx.Rollback(t.Context()))
	})
	if err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		t.Fatal(err)
	}
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		t.Fatal(err)
	}
	if got := plans[0].Plan.Hit + plans[0].Plan.Read; got < spans || got > spans*pagesEach {
		t.Errorf("pruning %d spans reads %d pages, want at most %d each", spans, got, pagesEach)
	}
}

// Proves G54, G169, R7.
func TestPlans_GoAlongIndexesWhateverTheStatistics(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	n := max(testrun.Rounds(300_000), 50_000) // fewer are read from end to end, and rightly so
	store, pool := newUncheckedStore(t, stint.Options{})
	for _, table := range []string{
		"ready", "leased", "leases", "tasks", "finished", "scheduled", "edges",
	} {
		exec(t, pool, "ALTER TABLE stint."+table+" SET (autovacuum_enabled = false)")
	}
	old, err := pool.Acquire(t.Context()) // keeps the plans it made when all was empty
	if err != nil {
		t.Fatal(err)
	}
	defer old.Release()
	exec(t, pool, "ANALYZE")
	checkPlans(t, old, "on empty tables")
	for range 7 { // so that the driver's own statement is prepared and planned, too
		own(t, store, 10)
	}
	fill(t, pool, 10)
	exec(t, pool, "ANALYZE")
	single, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer single.Release()
	checkPlans(t, single, "on tables of a row or two")
	emptyTables(t, pool)
	fill(t, pool, n)
	checkPlans(t, single, "prepared on tables of a row or two and full now")
	checkPlans(t, old, "prepared on empty tables and full now")
	fresh, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Release()
	checkPlans(t, fresh, "on full tables with the statistics of empty ones")
	checkPruningReads(t, fresh)
	if got := own(t, store, 10); len(got) != 10 {
		t.Errorf("OwnTasks(10) gave %d tasks", len(got))
	}
	exec(t, pool, "ANALYZE")
	checkPlans(t, fresh, "on full tables")
	checkPruningReads(t, fresh)
	for _, limit := range []int{1, 10, 999} {
		owned, err := store.OwnTasks(
			t.Context(), "actor", limit, []string{"act", "other"}, time.Hour)
		if err != nil || len(owned) != limit {
			t.Errorf("OwnTasks(%d) gave %d tasks, %v", limit, len(owned), err)
		}
	}
	emptyTables(t, pool)
	exec(t, pool, "ANALYZE")
	drained, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer drained.Release()
	checkPlans(t, drained, "on tables that have been emptied")
	exec(t, pool, "VACUUM ANALYZE")
	checkPlans(t, drained, "on tables that have been emptied and vacuumed")
}

// emptyTables deletes all tasks, and what belongs to them.
func emptyTables(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for _, table := range []string{
		"tasks", "ready", "finished", "leased", "leases", "scheduled", "deadlines", "edges",
	} {
		exec(t, pool, "DELETE FROM stint."+table)
	}
}

func TestStatements_AllHaveASampleAndAName(t *testing.T) {
	t.Parallel()
	all := statements(t)
	if len(all) != len(sample) {
		t.Errorf("%d statements, %d samples", len(all), len(sample))
	}
	for name, text := range all {
		if _, ok := sample[name]; !ok {
			t.Errorf("%s has no sample", name)
		}
		if of, ok := variants()[name]; ok { // comes from the same file
			name = of
		}
		if !strings.HasPrefix(text, "-- name: "+name+"\n") {
			t.Errorf("%s does not begin with its name", name)
		}
	}
	named := regexp.MustCompile(`(?m)^-- name: \w+$`)
	inFiles := 0
	for _, pattern := range []string{"sql/*/*.sql", "internal/*/sql/*.sql"} {
		files, err := filepath.Glob(pattern)
		wantErr(t, "Glob "+pattern, err, nil)
		for _, file := range files {
			text, err := os.ReadFile(file)
			wantErr(t, "ReadFile", err, nil)
			if !strings.HasPrefix(file, "internal/doctor/") &&
				!strings.HasPrefix(file, "internal/replay/") {
				inFiles += len(named.FindAllString(string(text), -1))
			}
		}
	}
	if inFiles != len(all)-len(variants()) {
		t.Errorf("%d statements in files, %d in use", inFiles, len(all))
	}
}

// variants are the statements that are others with parts left out.
func variants() map[string]string {
	return map[string]string{
		"own_few": "own_tasks", "own_singly": "own_tasks", "own_at_once": "own_gated",
		"lock_shared": "lock_limits", "queue_shared": "queue_turns",
		"return_final": "return_tasks", "return_large": "return_tasks",
	}
}

// What is common does not pay for what is not: the number of nodes of a plan is what a statement
// costs even where they do nothing.
// Proves G205.
func TestStatements_HaveFewNodesWhereLittleIsAskedFor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	conn, err := testdb.New(t).Acquire(t.Context())
	wantErr(t, "Acquire", err, nil)
	defer conn.Release()
	node := regexp.MustCompile(`(?m)^ *->|^[A-Z]`)
	for name, most := range map[string]int{
		"own_tasks": 74, "own_few": 59, "own_singly": 61, "return_tasks": 65, "return_final": 36,
		"return_large": 65, "lock_limits": 9, "note_limited": 10, "insert_task": 6, "next_due": 20,
		"look_for_work": 41, "ready_actions": 15, "count_action": 3,
	} {
		got := plan(t, conn, name, statements(t)[name])
		if n := len(node.FindAllString(got, -1)); n > most {
			t.Errorf("the plan of %s has %d nodes, want %d at most:\n%s", name, n, most, got)
		} else {
			t.Logf("%s: %d nodes", name, n)
		}
	}
}

// Statements live in sql/, so that each can be read, run and explained by itself.
func TestStatements_AreNotInGoFiles(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pattern := regexp.MustCompile("(?i)[`\"](select|insert into|update|delete from|" +
		`with (recursive )?\w+ (as|\()) `)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") ||
			strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if at := pattern.FindIndex(text); at != nil {
			t.Errorf("%s holds SQL: %.60s", path, text[at[0]:])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// copyTables makes the tables of a dry run for the rest of the session.
func copyTables(t *testing.T) string {
	t.Helper()
	return strings.ReplaceAll(statements(t)["copy_tables"], " ON COMMIT DROP", "")
}

func TestStatements_FitTheMigrations(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	if got, want := migrations.Version(), pg.Of(store).Version; got != want {
		t.Errorf("the migrations go to version %d, the statements want %d", got, want)
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	_, err = conn.Exec(t.Context(), copyTables(t))
	wantErr(t, "copy_tables", err, nil)
	for name, text := range statements(t) {
		if name == "copy_tables" { // several statements
			continue
		}
		if _, err := conn.Conn().Prepare(t.Context(), name, text); err != nil {
			t.Errorf("prepare %s: %v", name, err)
		}
	}
}
