package migrations_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return migrations.MigrateSchema(ctx, conn.Conn(), schema)
}

// columns describes the schema, to compare it.
func columns(t *testing.T, pool *pgxpool.Pool, schema string) string {
	t.Helper()
	var text string
	err := pool.QueryRow(t.Context(), "SELECT coalesce(string_agg(table_name || '.' || "+
		"column_name || ' ' || data_type, ', ' ORDER BY table_name, column_name), '') "+
		"FROM information_schema.columns WHERE table_schema = $1", schema).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestMigrate_ByManyAtOnceMigratesOnce(t *testing.T) {
	t.Parallel()
	pool := testdb.NewEmpty(t)
	const callers = 8
	errs := make(chan error, callers)
	for range callers {
		go func() { errs <- migrate(t.Context(), pool, migrations.DefaultSchema) }()
	}
	for range callers {
		if err := <-errs; err != nil {
			t.Errorf("Migrate = %v", err)
		}
	}
	if got, want := columns(t, pool, "stint"), columns(t, testdb.New(t), "stint"); got != want {
		t.Errorf("migrated by many: %s\nby one: %s", got, want)
	}
}

func TestMigrate_AgainChangesNothing(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	_, err := pool.Exec(t.Context(), "INSERT INTO stint.ready (lo, hi, tries, priority, action) "+
		"VALUES (1, 1, 0, 0, 'kept')")
	if err != nil {
		t.Fatal(err)
	}
	if err := migrate(t.Context(), pool, migrations.DefaultSchema); err != nil {
		t.Fatal(err)
	}
	var kept int
	err = pool.QueryRow(t.Context(), "SELECT count(*) FROM stint.ready").Scan(&kept)
	if err != nil || kept != 1 {
		t.Errorf("%d rows are left of 1, %v", kept, err)
	}
}

func TestMigrateSchema_TakesNamesLiterally(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.NewEmpty(t)
	want := columns(t, testdb.New(t), "stint")
	for _, schema := range []string{
		"other", "Upper Case", `quo"te'd.x`, "select", "sch\u00e9ma", strings.Repeat("x", 63),
		"{{.}}", `"twice"`, "twice", "{{.schema}}",
	} {
		for range 2 {
			if err := migrate(t.Context(), pool, schema); err != nil {
				t.Fatalf("MigrateSchema %q = %v", schema, err)
			}
		}
		if got := columns(t, pool, schema); got != want {
			t.Errorf("schema %q: %s\nwant %s", schema, got, want)
		}
	}
	for _, schema := range []string{"", "a\x00", strings.Repeat("x", 64)} {
		if err := migrate(t.Context(), pool, schema); err == nil {
			t.Errorf("MigrateSchema accepts %q", schema)
		}
	}
}

// Somebody's own tern project keeps its version in a table of its own.
func TestMigrate_LeavesOtherVersionTablesAlone(t *testing.T) {
	t.Parallel()
	pool := testdb.NewEmpty(t)
	_, err := pool.Exec(t.Context(), "CREATE TABLE public.schema_version (version int); "+
		"INSERT INTO public.schema_version VALUES (7)")
	if err != nil {
		t.Fatal(err)
	}
	if err := migrate(t.Context(), pool, migrations.DefaultSchema); err != nil {
		t.Fatal(err)
	}
	var version int
	err = pool.QueryRow(t.Context(), "SELECT version FROM public.schema_version").Scan(&version)
	if err != nil || version != 7 {
		t.Errorf("the other version is %d now, want 7, %v", version, err)
	}
}

func TestMigrate_RefusesANewerSchema(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	_, err := pool.Exec(t.Context(), "UPDATE stint.stint_schema_version SET version = 99")
	if err != nil {
		t.Fatal(err)
	}
	err = migrate(t.Context(), pool, migrations.DefaultSchema)
	if !errors.Is(err, migrations.ErrNewerSchema) {
		t.Errorf("Migrate = %v, want ErrNewerSchema", err)
	}
}

func TestMigrateTo_GoesBackAndForth(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	want := columns(t, pool, "stint")
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, version := range []int32{0, migrations.Version(), 0, 0, migrations.Version()} {
		err := migrations.MigrateTo(t.Context(), conn.Conn(), "stint", version)
		if err != nil {
			t.Fatalf("MigrateTo %d = %v", version, err)
		}
		got, err := migrations.CurrentVersion(t.Context(), conn.Conn(), "stint")
		if err != nil || got != version {
			t.Fatalf("CurrentVersion = %d, %v, want %d", got, err, version)
		}
	}
	if got := columns(t, pool, "stint"); got != want {
		t.Errorf("back and forth: %s\nwant %s", got, want)
	}
}

func TestMigrateTo_RefusesVersionsThatAreNot(t *testing.T) {
	t.Parallel()
	pool := testdb.NewEmpty(t)
	for _, version := range []int32{-1, migrations.Version() + 1} {
		err := pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
			return migrations.MigrateTo(t.Context(), conn.Conn(), "stint", version)
		})
		if err == nil || !strings.Contains(err.Error(), "this release knows") {
			t.Errorf("MigrateTo %d = %v, want it refused", version, err)
		}
	}
	if got := columns(t, pool, "stint"); got != "" {
		t.Errorf("it made %s", got)
	}
}

func TestCurrentVersion_LooksAndMakesNothing(t *testing.T) {
	t.Parallel()
	pool := testdb.NewEmpty(t)
	look := func(schema string) (version int32, err error) {
		err = pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
			version, err = migrations.CurrentVersion(t.Context(), conn.Conn(), schema)
			return err
		})
		return version, err
	}
	const schema = `quo"te'd`
	if got, err := look(schema); err != nil || got != 0 {
		t.Errorf("CurrentVersion of no schema = %d, %v, want 0", got, err)
	}
	if got := columns(t, pool, schema); got != "" {
		t.Errorf("it made %s", got)
	}
	if err := migrate(t.Context(), pool, schema); err != nil {
		t.Fatal(err)
	}
	if got, err := look(schema); err != nil || got != migrations.Version() {
		t.Errorf("CurrentVersion = %d, %v, want %d", got, err, migrations.Version())
	}
	if _, err := look(""); err == nil {
		t.Error("CurrentVersion accepts an empty name")
	}
}

// asRole calls f with a connection that has the rights of a new role.
func asRole(t *testing.T, pool *pgxpool.Pool, grants string, f func(conn *pgx.Conn)) {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	role := "nobody_" + strings.ReplaceAll(pool.Config().ConnConfig.Database, "-", "")
	run := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			if _, err := conn.Exec(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	run("CREATE ROLE "+role, strings.ReplaceAll(grants, "ROLE", role), "SET ROLE "+role)
	f(conn.Conn())
	run("RESET ROLE", "DROP OWNED BY "+role, "DROP ROLE "+role)
}

func TestMigrate_ReportsWhatTheRoleMayNot(t *testing.T) {
	t.Parallel()
	pool := testdb.NewEmpty(t)
	asRole(t, pool, "", func(conn *pgx.Conn) {
		err := migrations.Migrate(t.Context(), conn)
		if err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("Migrate = %v, want permission denied", err)
		}
	})
}

// A service may call it at its start, with no right but to look.
func TestMigrate_WithNothingToDoNeedsNoRightToDoIt(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	grants := "GRANT USAGE ON SCHEMA stint TO ROLE; " +
		"GRANT SELECT ON stint.stint_schema_version TO ROLE"
	asRole(t, pool, grants, func(conn *pgx.Conn) {
		if err := migrations.Migrate(t.Context(), conn); err != nil {
			t.Errorf("Migrate = %v, want nothing to do", err)
		}
		_, err := pool.Exec(t.Context(), "UPDATE stint.stint_schema_version SET version = 0")
		if err != nil {
			t.Fatal(err)
		}
		err = migrations.Migrate(t.Context(), conn)
		if err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("Migrate of an older schema = %v, want permission denied", err)
		}
	})
}

// Statements of stint fail in a schema that Citus distributes, some after they have done harm. What
// it does not distribute is a schema like any other.
// Proves G164.
func TestMigrate_RefusesASchemaThatCitusDistributes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const name = `it's "quoted"`
	empty, migrated := testdb.NewEmpty(t), testdb.NewEmpty(t)
	if _, err := empty.Exec(t.Context(), `CREATE SCHEMA "it's ""quoted"""`); err != nil {
		t.Fatal(err)
	}
	if err := migrate(t.Context(), migrated, name); err != nil {
		t.Fatal(err)
	}
	for _, pool := range []*pgxpool.Pool{empty, migrated} {
		testdb.FakeCitus(t, pool, name)
		err := migrate(t.Context(), pool, name)
		if !errors.Is(err, migrations.ErrDistributed) ||
			!strings.Contains(err.Error(), `citus_schema_undistribute('"it''s ""quoted"""')`) {
			t.Errorf("Migrate = %v, want ErrDistributed", err)
		}
		if err := migrate(t.Context(), pool, "beside"); err != nil {
			t.Errorf("Migrate of another schema = %v", err)
		}
		if version := currentVersion(t, pool, "beside"); version != migrations.Version() {
			t.Errorf("the other schema is at version %d", version)
		}
	}
}

// In another encoding a text that is fine could not be kept, and a return be made impossible (R11).
// Proves G163.
func TestMigrate_RefusesADatabaseThatIsNotInUTF8(t *testing.T) {
	t.Parallel()
	pool := testdb.NewEmpty(t)
	for _, encoding := range []string{"EUC_JP", "SQL_ASCII", "LATIN1"} {
		name := pool.Config().ConnConfig.Database + "_" + strings.ToLower(encoding)
		quoted := pgx.Identifier{name}.Sanitize()
		_, err := pool.Exec(t.Context(), "CREATE DATABASE "+quoted+
			" TEMPLATE template0 ENCODING '"+encoding+"' LOCALE 'C'")
		if err != nil {
			t.Fatal(err)
		}
		config := pool.Config().ConnConfig
		config.Database = name
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		err = migrations.Migrate(t.Context(), conn)
		if !errors.Is(err, migrations.ErrEncoding) || !strings.Contains(err.Error(), encoding) {
			t.Errorf("Migrate in %s = %v, want it refused", encoding, err)
		}
		var made bool
		err = conn.QueryRow(t.Context(), "SELECT to_regnamespace('stint') IS NOT NULL").Scan(&made)
		if err != nil || made {
			t.Errorf("in %s it made the schema: %t, %v", encoding, made, err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := pool.Exec(t.Context(), "DROP DATABASE "+quoted); err != nil {
			t.Error(err)
		}
	}
}

// A service whose role may change nothing learns that it is older than the schema.
func TestMigrate_TellsWhoMayOnlyLookThatTheSchemaIsNewer(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	_, err := pool.Exec(t.Context(), "UPDATE stint.stint_schema_version SET version = 99")
	if err != nil {
		t.Fatal(err)
	}
	grants := "GRANT USAGE ON SCHEMA stint TO ROLE; " +
		"GRANT SELECT ON stint.stint_schema_version TO ROLE"
	asRole(t, pool, grants, func(conn *pgx.Conn) {
		err := migrations.Migrate(t.Context(), conn)
		if !errors.Is(err, migrations.ErrNewerSchema) {
			t.Errorf("Migrate = %v, want ErrNewerSchema", err)
		}
	})
}

// Who migrates finds his connection as it was.
func TestMigrate_LeavesTheSettingsOfTheConnection(t *testing.T) {
	t.Parallel()
	pool := testdb.NewEmpty(t)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	_, err = conn.Exec(t.Context(), "SET search_path = mine; SET work_mem = '1MB'")
	if err != nil {
		t.Fatal(err)
	}
	if err := migrations.Migrate(t.Context(), conn.Conn()); err != nil {
		t.Fatal(err)
	}
	var path, memory string
	err = conn.QueryRow(t.Context(), "SELECT current_setting('search_path'), "+
		"current_setting('work_mem')").Scan(&path, &memory)
	if err != nil || path != "mine" || memory != "1MB" {
		t.Errorf("afterwards the path is %s, work_mem %s, %v", path, memory, err)
	}
}

// What the connection of the caller reads makes no difference, but that a schema is not looked for
// by a name that the server would take for another one.
// Proves G296.
func TestMigrate_WorksWhateverTheConnectionReads(t *testing.T) {
	t.Parallel()
	pool := testdb.NewEmpty(t)
	config := pool.Config().ConnConfig
	config.RuntimeParams["client_encoding"] = "LATIN1"
	config.RuntimeParams["standard_conforming_strings"] = "off"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if err := migrations.Migrate(t.Context(), conn); err != nil {
		t.Errorf("Migrate = %v", err)
	}
	const schema = "größe"
	for what, err := range map[string]error{
		"MigrateSchema":   migrations.MigrateSchema(t.Context(), conn, schema),
		"CurrentVersion":  errOf(migrations.CurrentVersion(t.Context(), conn, schema)),
		"SequencesBehind": errOf(migrations.SequencesBehind(t.Context(), conn, schema)),
	} {
		const want = "client_encoding of the connection is LATIN1"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s of a schema of other letters = %v, want it refused", what, err)
		}
	}
	var schemas string
	err = pool.QueryRow(t.Context(), "SELECT string_agg(nspname, ' ') FROM pg_namespace "+
		"WHERE nspname !~ '^(pg_|information_schema|public)'").Scan(&schemas)
	if err != nil || schemas != "stint" {
		t.Errorf("there are the schemas %q, %v", schemas, err)
	}
}

func errOf[T any](_ T, err error) error { return err }
