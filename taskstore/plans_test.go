package taskstore_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/taskstore"
)

const pkey, order = "taskstore_tasks_pkey", "taskstore_tasks_order"

// sample gives each statement arguments for EXPLAIN, and names the indexes it must go along.
var sample = map[string]struct {
	args    string
	indexes []string
}{
	"wait_for_disk": {"", nil},
	"reserve_ids":   {"0", nil},
	"update": {
		"7, '{g}', '{x}', '{0}', '{5,70}', '{x,y}', '{0,0}', '{6}', '{8}'", []string{pkey},
	},
	"claim":       {"7, 'g', 1000, '{5,70}', 60", []string{pkey, order}},
	"get_tasks":   {"'{5,70}'", []string{pkey}},
	"group_tasks": {"'g', 10, false", []string{order}},
	"list_groups": {"", []string{order}},
}

func statements(t *testing.T) map[string]string {
	t.Helper()
	texts, err := taskstore.Texts()
	wantErr(t, "Texts", err, nil)
	return texts
}

// explain prepares a statement as the store does and returns the lines of its plan. If it executes
// the statement, that is undone.
func explain(t *testing.T, conn *pgxpool.Conn, name, args, options string) []string {
	t.Helper()
	ctx := t.Context()
	tx, err := conn.Begin(ctx)
	wantErr(t, "Begin", err, nil)
	defer func() { wantErr(t, "Rollback", tx.Rollback(ctx), nil) }()
	run := func(statement string) []string {
		t.Helper()
		rows, err := tx.Query(ctx, statement)
		wantErr(t, statement, err, nil)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		wantErr(t, statement, err, nil)
		return lines
	}
	run(statements(t)["set_planner"])
	if len(run("SELECT name FROM pg_prepared_statements WHERE name = '"+name+"'")) == 0 {
		run("PREPARE " + name + " AS " + statements(t)[name])
	}
	if args != "" {
		args = "(" + args + ")"
	}
	return run("EXPLAIN (" + options + ") EXECUTE " + name + args)
}

// checkPlans checks that every statement goes along its indexes, each with a condition, and that no
// table is scanned but that of one row.
func checkPlans(t *testing.T, conn *pgxpool.Conn, when string) {
	t.Helper()
	for name := range sample {
		lines := explain(t, conn, name, sample[name].args, "COSTS OFF")
		text := strings.Join(lines, "\n")
		for _, index := range sample[name].indexes {
			if !strings.Contains(text, "using "+index) {
				t.Errorf("%s, %s does not use %s:\n%s", when, name, index, text)
			}
		}
		for i, line := range lines {
			walks := strings.Contains(line, "using taskstore_tasks") &&
				(i+1 == len(lines) || !strings.Contains(lines[i+1], "Index Cond:"))
			if strings.Contains(line, "Seq Scan on taskstore_tasks") || walks {
				t.Errorf("%s, %s goes through all tasks:\n%s", when, name, text)
			}
		}
	}
}

// fill adds n tasks of a group, of which all but a few are owned, and some others.
func fill(t *testing.T, pool *pgxpool.Pool, n, available int) {
	t.Helper()
	exec(t, pool, `INSERT INTO stint.taskstore_tasks (id, available, owner, group_name, data)
		SELECT 1000000 + k, CASE WHEN k <= $2 THEN 1 ELSE 4102444800000 + k END, 1,
		       CASE WHEN k > $1 THEN 'other' || k % 100 ELSE 'g' END, 'data'
		FROM generate_series(1, $1 * 11 / 10) k`, n, available)
}

// Proves G133.
func TestPlans_GoAlongIndexesWhateverTheStatistics(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const available = 3
	n := max(testrun.Rounds(1_000_000), 100_000)
	store, pool := newStore(t)
	exec(t, pool, "ALTER TABLE stint.taskstore_tasks SET (autovacuum_enabled = false)")
	acquire := func() *pgxpool.Conn {
		conn, err := pool.Acquire(t.Context())
		wantErr(t, "Acquire", err, nil)
		t.Cleanup(conn.Release)
		return conn
	}
	exec(t, pool, "ANALYZE")
	old := acquire() // keeps the plans it made when all was empty
	checkPlans(t, old, "on empty tables")
	fill(t, pool, n, available)
	checkPlans(t, old, "prepared on empty tables and full now")
	fresh := acquire()
	checkPlans(t, fresh, "on full tables with the statistics of empty ones")
	exec(t, pool, "ANALYZE")
	checkPlans(t, acquire(), "on full tables")

	// A claim, and a list of what is available, read little of a group of which all tasks, or all
	// but a few, are owned.
	for left := available; left >= 0; left -= available {
		for name, args := range map[string]string{
			"claim": "7, 'g', 1000, '{}', 60", "group_tasks": "'g', NULL, false",
		} {
			const pagesMax = 500 // 64 look-ups in an index of three or four levels
			if got := pages(t, fresh, name, args); got > pagesMax {
				t.Errorf("with %d of %d tasks available, %s reads %d pages, want at most %d",
					left, n, name, got, pagesMax)
			}
		}
		for range left {
			mustClaim(t, store, ann, "g")
		}
		if _, found := claim(t, store, ann, "g"); found {
			t.Error("a task that is owned was claimed")
		}
	}
}

// pages is how many pages a statement reads, however often the same one.
func pages(t *testing.T, conn *pgxpool.Conn, name, args string) int {
	t.Helper()
	text := explain(t, conn, name, args, "ANALYZE, BUFFERS, FORMAT JSON")
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	wantErr(t, "Unmarshal", json.Unmarshal([]byte(strings.Join(text, "")), &plans), nil)
	return plans[0].Plan.Hit + plans[0].Plan.Read
}

func TestStatements_AllHaveASampleAndAName(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir("sql")
	wantErr(t, "ReadDir", err, nil)
	if len(files) != len(sample) {
		t.Errorf("%d statements, %d samples", len(files), len(sample))
	}
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".sql")
		if _, ok := sample[name]; !ok {
			t.Errorf("%s has no sample", name)
		}
		if !strings.HasPrefix(statements(t)[name], "-- name: "+name+"\n") {
			t.Errorf("%s does not begin with its name", name)
		}
	}
}
