package migrations_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

func functions(t *testing.T, schema string) string {
	t.Helper()
	text, err := migrations.Functions(schema)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func mustExec(t *testing.T, pool *pgxpool.Pool, statement string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestFunctions_ServeSchemasOfAnyName(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.NewEmpty(t)
	for _, schema := range []string{
		"stint", "Upper Case", `quo"te'd.x; --`, "two\n-- lines", "%s", strings.Repeat("x", 63),
	} {
		if err := migrate(t.Context(), pool, schema); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			mustExec(t, pool, functions(t, schema))
		}
		addAndHear(t, pool, schema)
	}
	for _, schema := range []string{
		"", strings.Repeat("x", 64), "a$add_task$b", "$finish_task$",
	} {
		if _, err := migrations.Functions(schema); err == nil {
			t.Errorf("Functions accepts %q", schema)
		}
	}
}

// addAndHear calls the function of a schema, and listens on the channel of that name.
func addAndHear(t *testing.T, pool *pgxpool.Pool, schema string) {
	t.Helper()
	const soon = 2 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	quoted := pgx.Identifier{schema}.Sanitize()
	for _, statement := range []string{
		"INSERT INTO " + quoted + ".sessions (id, grace, topics) VALUES (1, '1 s', '{ready act}')",
		"LISTEN " + quoted,
		"SELECT " + quoted + ".add_task('act')",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	heard, err := conn.Conn().WaitForNotification(ctx)
	if err != nil || heard.Channel != schema || heard.Payload != "ready act" {
		t.Errorf("in the schema %q the function notified %+v, %v", schema, heard, err)
	}
	var inserted int
	err = conn.QueryRow(ctx, "SELECT count(*) FROM "+quoted+".ready").Scan(&inserted)
	if err != nil || inserted != 1 {
		t.Errorf("the schema %q has %d tasks, %v", schema, inserted, err)
	}
}

func TestFunctions_AreTheFiles(t *testing.T) {
	t.Parallel()
	var want string
	for _, name := range []string{"functions.sql", "finish_task.sql"} {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want += string(file)
	}
	got := functions(t, "stint")
	if strings.ReplaceAll(got, `"`, "") != strings.ReplaceAll(want, `"`, "") {
		t.Errorf("Functions returns\n%s", got)
	}
}

func TestFunctions_MayBeMadeByManyAtOnce(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	const callers = 8
	errs := make(chan error, callers)
	text := functions(t, "stint")
	for range callers {
		go func() {
			_, err := pool.Exec(t.Context(), text)
			errs <- err
		}()
	}
	for range callers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// Whoever runs the file, the function is the one of its name, acts as the owner of the tables, and
// may be called by nobody else; and a grant outlasts the next run.
// Proves G16.
func TestFunctions_BelongToTheOwnerOfTheTables(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }() // and with it the roles
	for _, statement := range []string{
		"CREATE ROLE stint_test_tables; CREATE ROLE stint_test_caller",
		"ALTER SCHEMA stint OWNER TO stint_test_tables",
		"ALTER TABLE stint.tasks OWNER TO stint_test_tables",
		functions(t, "stint"),
		"GRANT EXECUTE ON FUNCTION stint.add_task TO stint_test_caller",
		functions(t, "stint"),
	} {
		if _, err := tx.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	var n int
	var owner, callers string
	err = tx.QueryRow(t.Context(), `SELECT count(*), min(proowner::regrole::text), (
			SELECT string_agg(grantee::regrole::text, ' ' ORDER BY grantee::regrole::text)
			FROM pg_proc, aclexplode(proacl) WHERE proname = 'add_task')
		FROM pg_proc WHERE proname = 'add_task'`).Scan(&n, &owner, &callers)
	if err != nil || n != 1 || owner != "stint_test_tables" ||
		callers != "stint_test_caller stint_test_tables" {
		t.Errorf("%d functions of %s, to be called by %s, %v", n, owner, callers, err)
	}
}

// functionsBefore is the text of version 1, as far as PostgreSQL tells functions apart.
func functionsBefore(t *testing.T, schema string) string {
	t.Helper()
	text := functions(t, schema)
	from := strings.Index(text, ",\n    key ") // and all behind it
	newer := text[max(from, 0) : strings.Index(text, "\n)")+1]
	if from < 0 || strings.Count(text, newer) != 1 || strings.Count(text, "-- Version 2 ") != 1 {
		t.Fatal("the function has other parameters than this test thinks")
	}
	made, more, found := strings.Cut(text, "-- CREATE FUNCTION leaves")
	_, behind, alsoFound := strings.Cut(more, "COMMENT ON FUNCTION")
	if !found || !alsoFound {
		t.Fatal("the file does not drop the function of version 1 where this test thinks")
	}
	text = made + "COMMENT ON FUNCTION" + behind
	return strings.NewReplacer(newer, "\n", "-- Version 2 ", "-- Version 1 ").Replace(text)
}

// There is one function afterwards, to be called as before by those who might call the one before,
// and by nobody else.
func TestFunctions_ReplaceThoseOfVersion1(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, schema := range []string{"stint", `Ot"her's; --`} {
		t.Run(schema, func(t *testing.T) {
			t.Parallel()
			pool := testdb.NewEmpty(t)
			if err := migrate(t.Context(), pool, schema); err != nil {
				t.Fatal(err)
			}
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(t.Context()) }() // and with it the roles
			quoted, role := pgx.Identifier{schema}.Sanitize(), "stint_test_"+uuid.NewString()
			owner := pgx.Identifier{role + "_owner"}.Sanitize()
			caller := pgx.Identifier{role + "_caller"}.Sanitize()
			granting := pgx.Identifier{role + "_granting"}.Sanitize()
			for _, statement := range []string{
				"CREATE ROLE " + owner, "CREATE ROLE " + caller, "CREATE ROLE " + granting,
				functionsBefore(t, schema),
				"ALTER FUNCTION " + quoted + ".add_task OWNER TO " + owner,
				"GRANT EXECUTE ON FUNCTION " + quoted + ".add_task TO PUBLIC, " + caller,
				"GRANT EXECUTE ON FUNCTION " + quoted + ".add_task TO " + granting +
					" WITH GRANT OPTION",
				"CREATE FUNCTION " + quoted + ".mine(key text) RETURNS text RETURN key",
				functions(t, schema),
				functions(t, schema),
				"SELECT " + quoted + `.add_task('act', 'body', 'id', 1, 2, NULL, NULL, true,
					'run-anyway', NULL, false)`,
				"SELECT " + quoted + ".add_task('act', id => 'keyed', key => 'k')",
			} {
				if _, err := tx.Exec(t.Context(), statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			var n int
			var callers, keys string
			err = tx.QueryRow(t.Context(), `SELECT count(DISTINCT pg_proc.oid), string_agg(
					coalesce(replace(granted.rolname, $2, ''), 'PUBLIC') || ' ' ||
						is_grantable::text, ', ' ORDER BY granted.rolname),
					(SELECT string_agg(id || ' ' || coalesce(limit_key, '-'), ', ' ORDER BY key)
					FROM `+quoted+`.tasks)
				FROM pg_proc
				JOIN pg_namespace ON pg_namespace.oid = pronamespace AND nspname = $1
				CROSS JOIN aclexplode(proacl)
				LEFT JOIN pg_roles AS granted ON granted.oid = grantee
				WHERE proname = 'add_task' AND grantee <> proowner`,
				schema, role).Scan(&n, &callers, &keys)
			if err != nil || n != 1 || callers != "_caller false, _granting true" ||
				keys != "id -, keyed k" {
				t.Errorf("%d functions, to be called by %s, made the tasks %s, %v", n, callers,
					keys, err)
			}
		})
	}
}

// Who goes back to the release of version 1 drops the function (docs/guides/sql.md), since the file
// of that release makes none beside this one.
func TestFunctions_OfVersion1NeedThisOneDropped(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	mustExec(t, pool, functions(t, "stint"))
	_, err := pool.Exec(t.Context(), functionsBefore(t, "stint"))
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "42725" {
		t.Errorf("the file of version 1 ends with %v, want an ambiguous function", err)
	}
	mustExec(t, pool, "SELECT stint.add_task('act')")
	mustExec(t, pool, "DROP FUNCTION stint.add_task")
	mustExec(t, pool, functionsBefore(t, "stint"))
}
