package migrations_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// behind makes the tables of a schema hold keys and positions that its sequences have yet to give
// out. The last position is neither of the last action nor of the first priority.
func behind(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := testdb.New(t)
	for _, statement := range []string{
		`INSERT INTO stint.tasks (key, max_tries, priority, on_abort, post_result, id, action)
		 SELECT block << 10 | 7, 1, 0, 0, false, 'task ' || block, 'a'
		 FROM generate_series(1, 300) AS block`,
		`INSERT INTO stint.ready (position, lo, hi, tries, priority, action)
		 SELECT 10 * n + CASE WHEN n % 50 = 7 THEN 100000 ELSE 0 END, n << 10, n << 10, 0,
		        n % 7 - 3, 'action ' || n % 5
		 FROM generate_series(1, 2000) AS n`,
	} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}

func next(t *testing.T, pool *pgxpool.Pool, sequence string) (value int64) {
	t.Helper()
	err := pool.QueryRow(t.Context(), "SELECT nextval('stint."+sequence+"')").Scan(&value)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func sequencesBehind(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	names, err := migrations.SequencesBehind(t.Context(), conn.Conn(), "stint")
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestMigrate_SetsSequencesBehindTheTables(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := behind(t)
	want := []string{"blocks", "positions"}
	if got := sequencesBehind(t, pool); !slices.Equal(got, want) {
		t.Errorf("behind are %q, want %q", got, want)
	}
	const callers = 8
	errs := make(chan error, callers)
	for range callers {
		go func() { errs <- migrate(t.Context(), pool, "stint") }()
	}
	for range callers {
		if err := <-errs; err != nil {
			t.Errorf("Migrate = %v", err)
		}
	}
	if got := sequencesBehind(t, pool); len(got) != 0 {
		t.Errorf("behind are %q still", got)
	}
	// One call has set them: a second one would have set them further, or back.
	const ahead = 1_000_001
	if got := next(t, pool, "blocks"); got != 300+ahead {
		t.Errorf("the next block is %d", got)
	}
	if got := next(t, pool, "positions"); got != 10*1957+100_000+ahead {
		t.Errorf("the next position is %d", got)
	}
}

// A sequence is right if its next value is the first one that is new.
func TestSequencesBehind_CountsTheNextValue(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := behind(t)
	for statement, want := range map[string][]string{
		"SELECT setval('stint.blocks', 300), setval('stint.positions', 119570)":               nil,
		"SELECT setval('stint.blocks', 301, false), setval('stint.positions', 119571, false)": nil,
		"SELECT setval('stint.blocks', 300, false), setval('stint.positions', 119570, false)": {
			"blocks", "positions",
		},
		"SELECT setval('stint.blocks', 299), setval('stint.positions', 119570)": {"blocks"},
	} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
		if got := sequencesBehind(t, pool); !slices.Equal(got, want) {
			t.Errorf("%s: behind are %q, want %q", statement, got, want)
		}
	}
	if got := sequencesBehind(t, testdb.New(t)); len(got) != 0 {
		t.Errorf("behind are %q in a new schema", got)
	}
}

func TestMigrate_SaysThatItMayNotSetSequences(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := behind(t)
	look := "GRANT USAGE ON SCHEMA stint TO ROLE; " +
		"GRANT SELECT ON ALL TABLES IN SCHEMA stint TO ROLE"
	asRole(t, pool, look, func(conn *pgx.Conn) {
		if err := migrations.Migrate(t.Context(), conn); err != nil {
			t.Errorf("Migrate by a role that may not look at sequences = %v", err)
		}
	})
	look += "; GRANT SELECT ON ALL SEQUENCES IN SCHEMA stint TO ROLE"
	asRole(t, pool, look, func(conn *pgx.Conn) {
		err := migrations.Migrate(t.Context(), conn)
		if err == nil || !strings.Contains(err.Error(), `["blocks" "positions"]`) {
			t.Errorf("Migrate by a role that may only look = %v", err)
		}
	})
}
