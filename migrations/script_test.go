package migrations_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// runScript sends a script as psql or a migration tool does.
func runScript(t *testing.T, pool *pgxpool.Pool, schema string, from, to int32) {
	t.Helper()
	script, err := migrations.SQL(schema, from, to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), script); err != nil {
		t.Fatalf("the script from %d to %d: %v", from, to, err)
	}
}

func currentVersion(t *testing.T, pool *pgxpool.Pool, schema string) (version int32) {
	t.Helper()
	err := pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) (err error) {
		version, err = migrations.CurrentVersion(t.Context(), conn.Conn(), schema)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return version
}

func TestSQL_MakesWhatMigrateMakes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.NewEmpty(t)
	want := columns(t, testdb.New(t), "stint")
	for _, schema := range []string{"stint", `quo"te'd; --`, "two\n-- lines"} {
		runScript(t, pool, schema, 0, migrations.Version())
		if got := columns(t, pool, schema); got != want {
			t.Errorf("the script makes %s, want %s", got, want)
		}
		if got := currentVersion(t, pool, schema); got != migrations.Version() {
			t.Errorf("the schema is at version %d, want %d", got, migrations.Version())
		}
		if err := migrate(t.Context(), pool, schema); err != nil {
			t.Errorf("Migrate = %v", err)
		}
		store, err := stint.New(pool, stint.Options{Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		err = store.InsertTasks(t.Context(), []stint.Task{{ID: "a", Action: "act"}})
		if err != nil {
			t.Errorf("InsertTasks = %v", err)
		}
		if err := store.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestSQL_GoesBackAndForth(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	want := columns(t, pool, "stint")
	newest := migrations.Version()
	runScript(t, pool, "stint", newest, 0)
	if got := currentVersion(t, pool, "stint"); got != 0 {
		t.Errorf("the schema is at version %d, want 0", got)
	}
	if got := columns(t, pool, "stint"); got != "stint_schema_version.version integer" {
		t.Errorf("left is %s", got)
	}
	for version := range newest {
		runScript(t, pool, "stint", version, version+1)
	}
	if got := columns(t, pool, "stint"); got != want {
		t.Errorf("back and forth: %s\nwant %s", got, want)
	}
}

// Tools run a migration in a transaction of theirs, and write into a table of theirs behind it.
func TestSQL_FitsIntoATransactionOfATool(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.NewEmpty(t)
	ctx := t.Context()
	script, err := migrations.SQL("stint", 0, migrations.Version())
	if err != nil {
		t.Fatal(err)
	}
	control := regexp.MustCompile(`(?im)^\s*(begin|commit|rollback|start|end|savepoint)\b`)
	if found := control.FindString(script); found != "" || strings.Contains(script, "$$") {
		t.Errorf("the script holds %q, or a function", found)
	}
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	_, err = tx.Exec(ctx, "CREATE SCHEMA tool; SET search_path = tool; CREATE TABLE done (n int)")
	if err != nil {
		t.Fatal(err)
	}
	// Line by line, as tools do that know no SQL: a statement ends with the line that ends so.
	var part strings.Builder
	for line := range strings.Lines(script) {
		code, _, _ := strings.Cut(line, "--")
		part.WriteString(line)
		if strings.HasSuffix(strings.TrimSpace(code), ";") {
			if _, err := tx.Exec(ctx, part.String()); err != nil {
				t.Fatalf("%s: %v", part.String(), err)
			}
			part.Reset()
		}
	}
	if left := strings.TrimSpace(part.String()); left != "" {
		t.Errorf("no statement is %q", left)
	}
	if _, err := tx.Exec(ctx, "INSERT INTO done VALUES (1)"); err != nil {
		t.Errorf("the tool finds its table no more: %v", err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if got := currentVersion(t, pool, "stint"); got != migrations.Version() {
		t.Errorf("the schema is at version %d", got)
	}
}

// Whoever sends statement by statement without a transaction gets the same tables and keeps the
// path, and functions of the path take nobody's place.
func TestSQL_PinsThePathWithoutATransaction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.NewEmpty(t)
	ctx := t.Context()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	_, err = conn.Exec(ctx, "CREATE SCHEMA mine; SET search_path = mine, pg_catalog; "+
		"CREATE FUNCTION mine.octet_length(text) RETURNS integer IMMUTABLE LANGUAGE sql "+
		"AS 'SELECT 9'")
	if err != nil {
		t.Fatal(err)
	}
	script, err := migrations.SQL("stint", 0, migrations.Version())
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range strings.SplitAfter(script, ";\n") {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	var path string
	var depends int
	err = conn.QueryRow(ctx, "SELECT current_setting('search_path'), (SELECT count(*) "+
		"FROM pg_depend WHERE refobjid = 'mine.octet_length(text)'::regprocedure)").
		Scan(&path, &depends)
	if err != nil || path != "mine, pg_catalog" || depends != 0 {
		t.Errorf("the path is %q, %d objects hold on to the function, %v", path, depends, err)
	}
}

func TestSQL_RefusesWhatIsNot(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		schema   string
		from, to int32
		want     string
	}{
		{"stint", -1, 1, "this release knows"},
		{"stint", 0, migrations.Version() + 1, "this release knows"},
		{"stint", 1, 1, "nothing to do"},
		{"", 0, 1, "schema name"},
	} {
		_, err := migrations.SQL(test.schema, test.from, test.to)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("SQL(%q, %d, %d) = %v", test.schema, test.from, test.to, err)
		}
	}
}

// A tool does not try again by itself, so the text says what to set.
func TestSQL_SuggestsALockTimeoutWhereTablesAre(t *testing.T) {
	t.Parallel()
	for from, want := range []bool{false, true} {
		script, err := migrations.SQL("stint", int32(from), migrations.Version())
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(script, "lock_timeout"); got != want {
			t.Errorf("from version %d it speaks of lock_timeout: %t, want %t", from, got, want)
		}
	}
}
