package migrations_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// poolLike returns a pool like another one, but for what change does.
func poolLike(t *testing.T, pool *pgxpool.Pool, change func(config *pgx.ConnConfig)) *pgxpool.Pool {
	t.Helper()
	config := pool.Config()
	change(config.ConnConfig)
	other, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	return other
}

// tables names the tables and views of a schema.
func tables(t *testing.T, pool *pgxpool.Pool, schema string) (names string) {
	t.Helper()
	err := pool.QueryRow(t.Context(), "SELECT coalesce(string_agg(table_name::text, ' '), '') "+
		"FROM information_schema.tables WHERE table_schema = $1", schema).Scan(&names)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Wherever the path comes from that leads to somebody else's functions: it is not in force when
// tern works, which names functions without a schema, nor after its RESET ALL.
// Proves G154.
func TestMigrate_WorksUnderAPathOfItsOwn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const path = "evil, pg_catalog"
	for name, change := range map[string]func(config *pgx.ConnConfig){
		"parameter": func(config *pgx.ConnConfig) { config.RuntimeParams["search_path"] = path },
		"options": func(config *pgx.ConnConfig) {
			config.RuntimeParams["options"] = `-c search_path=evil,pg_catalog`
		},
		"hook": func(config *pgx.ConnConfig) {
			config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
				return conn.Exec(ctx, "SET search_path = "+path).Close()
			}
		},
		"role": func(*pgx.ConnConfig) {}, // below
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clean := testdb.NewEmpty(t)
			testdb.Fake(t, clean)
			// In other databases, roles of this name have another path or none.
			mustExec(t, clean, "DO $$ BEGIN EXECUTE format("+
				"'ALTER ROLE CURRENT_USER IN DATABASE %I SET search_path = "+path+"', "+
				"current_database()); END $$")
			pool := poolLike(t, clean, change)
			if err := migrate(t.Context(), pool, "stint"); err != nil {
				t.Fatal(err)
			}
			if err := goBack(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			var ran bool
			err := clean.QueryRow(t.Context(), "SELECT is_called FROM evil.times").Scan(&ran)
			if err != nil || ran {
				t.Errorf("somebody else's code ran: %t, %v", ran, err)
			}
		})
	}
}

// By default transactions may be serializable, or may not write.
func TestMigrate_WritesWhateverTransactionsAreByDefault(t *testing.T) {
	t.Parallel()
	pool := poolLike(t, testdb.NewEmpty(t), func(config *pgx.ConnConfig) {
		config.RuntimeParams["default_transaction_read_only"] = "on"
		config.RuntimeParams["default_transaction_isolation"] = "serializable"
	})
	if err := migrate(t.Context(), pool, "stint"); err != nil {
		t.Errorf("Migrate = %v", err)
	}
}

// Whoever the connection acts as owns what is made, also where that is not whoever connected.
func TestMigrate_ActsAsTheConnectionDoes(t *testing.T) {
	t.Parallel()
	pool := testdb.NewEmpty(t)
	const grants = `DO $$ BEGIN
		EXECUTE format('GRANT CREATE ON DATABASE %I TO ROLE', current_database()); END $$`
	asRole(t, pool, grants, func(conn *pgx.Conn) {
		for schema, become := range map[string]string{
			"by role": "SELECT", "by session": "SET SESSION AUTHORIZATION ",
		} {
			var role string
			if err := conn.QueryRow(t.Context(), "SELECT current_user").Scan(&role); err != nil {
				t.Fatal(err)
			}
			if become != "SELECT" {
				become += role
			}
			if _, err := conn.Exec(t.Context(), become); err != nil {
				t.Fatal(err)
			}
			err := migrations.MigrateSchema(t.Context(), conn, schema)
			if err != nil {
				t.Errorf("MigrateSchema of %q = %v", schema, err)
			}
			if _, err := conn.Exec(t.Context(), "RESET SESSION AUTHORIZATION"); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Exec(t.Context(), "SET ROLE "+role); err != nil {
				t.Fatal(err)
			}
			var others int
			err = pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_class WHERE relnamespace = "+
				"quote_ident($1)::regnamespace AND relowner <> $2::regrole", schema, role).
				Scan(&others)
			if err != nil || others > 0 {
				t.Errorf("in %q %d relations are others', %v", schema, others, err)
			}
		}
	})
}

// A version that fails leaves the one before, whole.
func TestMigrate_LeavesTheVersionBeforeTheOneThatFails(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.NewEmpty(t)
	mustExec(t, pool, "CREATE SCHEMA stint; CREATE TYPE stint.actors AS (n int)")
	want := ""
	for version, name := range []string{"001_tasks.sql", "002_limits_and_schedules.sql"} {
		if version == 1 {
			mustExec(t, pool, "DROP TYPE stint.actors; CREATE TYPE stint.schedules AS (n int)")
			script, err := migrations.SQL("stint", 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			ready := testdb.NewEmpty(t)
			mustExec(t, ready, script)
			want = columns(t, ready, "stint")
		}
		err := migrate(t.Context(), pool, "stint")
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Migrate = %v, want it to name %s", err, name)
		}
		if got := currentVersion(t, pool, "stint"); got != int32(version) {
			t.Errorf("the schema is at version %d, want %d", got, version)
		}
		if version == 0 {
			if got := tables(t, pool, "stint"); got != "stint_schema_version" {
				t.Errorf("left are %s", got)
			}
		}
	}
	mustExec(t, pool, "DROP TYPE stint.schedules")
	if got := columns(t, pool, "stint"); got != want {
		t.Errorf("left is %s, want %s", got, want)
	}
	if err := migrate(t.Context(), pool, "stint"); err != nil {
		t.Errorf("Migrate = %v", err)
	}
}

// tern has one lock for all projects of a database.
func TestMigrate_TriesAgainWhileAnotherProjectOfTernMigrates(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.NewEmpty(t)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	const lock = "SELECT pg_advisory_xact_lock(9628173550095224)"
	if _, err := tx.Exec(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- migrate(t.Context(), pool, "stint") }()
	await(t, pool, 2, "advisory")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Migrate = %v", err)
	}
}

// The lock is that of releases that applied versions without tern, and of the scripts for tools.
func TestMigrate_WaitsForReleasesThatDoWithoutTern(t *testing.T) {
	t.Parallel()
	pool := testdb.NewEmpty(t)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	script, err := migrations.SQL("stint", 0, migrations.Version())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), script); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- migrate(t.Context(), pool, "stint") }()
	await(t, pool, 1, "advisory")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Migrate = %v", err)
	}
}

// An account that is no administrator migrates as the owner of the schema that it is a member of.
func TestMigrate_ByAMemberOfTheOwnerMakesTablesOfTheOwner(t *testing.T) {
	t.Parallel()
	pool := testdb.NewEmpty(t)
	name := strings.ReplaceAll(pool.Config().ConnConfig.Database, "-", "")
	owner, account := "owner_"+name, "account_"+name
	mustExec(t, pool, "CREATE ROLE "+owner+"; CREATE ROLE "+account+" LOGIN PASSWORD 'account' "+
		"IN ROLE "+owner+"; CREATE SCHEMA stint AUTHORIZATION "+owner)
	t.Cleanup(func() {
		_, err := pool.Exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+owner+
			"; DROP ROLE "+account+"; DROP ROLE "+owner)
		if err != nil {
			t.Error(err)
		}
	})
	member := poolLike(t, pool, func(config *pgx.ConnConfig) {
		config.User, config.Password = account, "account"
		config.RuntimeParams["role"] = owner
	})
	if err := migrate(t.Context(), member, "stint"); err != nil {
		t.Fatal(err)
	}
	var others int
	err := pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_class WHERE relnamespace = "+
		"'stint'::regnamespace AND relowner <> $1::regrole", owner).Scan(&others)
	if err != nil || others > 0 {
		t.Errorf("%d relations are others', %v", others, err)
	}
}
