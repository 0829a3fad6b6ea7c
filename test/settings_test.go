package stint_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// hostileSettings change how the server reads what the driver writes out, and how it writes what
// the driver reads, or how it plans.
var hostileSettings = map[string]string{
	"array_nulls": "off", "bytea_output": "escape", "DateStyle": "SQL, DMY",
	"IntervalStyle": "sql_standard", "extra_float_digits": "-15", "TimeZone": "Asia/Kathmandu",
	"transform_null_equals": "on", "xmlbinary": "hex", "backslash_quote": "on",
	"lc_numeric": "C", "default_transaction_isolation": "serializable",
	"default_transaction_deferrable": "on", "row_security": "on", "from_collapse_limit": "1",
	"join_collapse_limit": "1", "enable_nestloop": "off", "enable_indexscan": "off",
	"enable_sort": "off", "enable_hashagg": "off", "plan_cache_mode": "force_custom_plan",
	"geqo_threshold": "2", "jit": "on", "jit_above_cost": "0", "quote_all_identifiers": "on",
	"xmloption": "document", "session_replication_role": "replica", "lc_messages": "C",
	"max_parallel_workers_per_gather": "2", "parallel_setup_cost": "0", "parallel_tuple_cost": "0",
	"min_parallel_table_scan_size": "0", "min_parallel_index_scan_size": "0",
	"check_function_bodies": "off", "escape_string_warning": "on", "lo_compat_privileges": "on",
}

// Whatever the settings of the connection, the verbs do in every mode of the driver what they do,
// and in the caller's transaction they leave the settings as they were.
// Proves G90.
func TestVerbs_WorkUnderAnySettings(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			clean := testdb.New(t)
			pool := poolOf(t, clean, func(config *pgxpool.Config) {
				config.ConnConfig.DefaultQueryExecMode = mode
				maps.Copy(config.ConnConfig.RuntimeParams, hostileSettings)
			})
			store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
			everyVerb(t, store, false, "alone ")
			waitingVerbs(t, store, "waited ")
			wholeLife(t, store, clean)
			tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
			wantErr(t, "BeginTx", err, nil)
			everyVerb(t, store.WithTx(tx), true, "in a transaction ")
			wholeLife(t, store.WithTx(tx), nil)
			for name, value := range hostileSettings {
				var got string
				wantErr(t, "SHOW", tx.QueryRow(t.Context(), "SHOW "+name).Scan(&got), nil)
				if got != value {
					t.Errorf("the verbs leave %s at %q, it was %q", name, got, value)
				}
			}
			wantErr(t, "Commit", tx.Commit(t.Context()), nil)
			checkStore(t, clean)
		})
	}
}

// ownedBy lets another role own all that is in the schema, and returns a pool of that role, which
// is no superuser.
func ownedBy(t *testing.T, pool *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	role := "owner_" + strings.ReplaceAll(yields[string](t, pool, "SELECT gen_random_uuid()::text"),
		"-", "_")
	exec(t, pool, "CREATE ROLE "+role+" LOGIN PASSWORD 'secret'")
	t.Cleanup(func() {
		for _, statement := range []string{
			"REASSIGN OWNED BY " + role + " TO CURRENT_USER", "DROP OWNED BY " + role,
			"DROP ROLE " + role,
		} {
			if _, err := pool.Exec(context.WithoutCancel(t.Context()), statement); err != nil {
				t.Error(err)
			}
		}
	})
	exec(t, pool, "ALTER SCHEMA stint OWNER TO "+role)
	exec(t, pool, `DO $$
		DECLARE
			found record;
		BEGIN
			FOR found IN SELECT oid::regclass AS name FROM pg_class
				WHERE relnamespace = 'stint'::regnamespace AND relkind IN ('r', 'v', 'p', 'S')
				AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_class.oid
				                AND classid = 'pg_class'::regclass AND deptype IN ('a', 'i')
				                AND relkind = 'S')
			LOOP
				EXECUTE 'ALTER TABLE ' || found.name || ' OWNER TO `+role+`';
			END LOOP;
		END $$`)
	return poolOf(t, pool, func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["role"] = role
	})
}

// Row level security that hides rows from the store is an error that says what to do, whenever it
// is enabled, and not a queue in which nothing is ever found.
// Proves G91.
func TestVerbs_SayThatRowLevelSecurityHidesTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	tables := []string{"tasks", "ready", "leased", "finished", "supported", "sessions"}
	for _, table := range testrun.Some(tables) {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			truth := testdb.New(t)
			pool := ownedBy(t, truth)
			store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
			insert(t, store, numbered("before", 2)...)
			owned := own(t, store, 1)
			exec(t, truth, "ALTER TABLE stint."+table+" ENABLE ROW LEVEL SECURITY")
			returnWith(t, store, owned[0], stint.Return{Code: stint.StatusPending})
			exec(t, truth, "ALTER TABLE stint."+table+" FORCE ROW LEVEL SECURITY")
			again := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
			asked := map[string]*stint.Store{"a store": store, "a new one": again}
			if table == "supported" { // at which a store looks once
				delete(asked, "a store")
			}
			for name, store := range asked {
				err := hiddenFrom(t, store)
				var refused *pgconn.PgError
				if !errors.As(err, &refused) || refused.Code != "42501" ||
					!strings.Contains(err.Error(), "NO FORCE ROW LEVEL SECURITY") {
					t.Errorf("%s says %v", name, err)
				}
			}
			exec(t, truth, "ALTER TABLE stint."+table+" NO FORCE ROW LEVEL SECURITY")
			own(t, store, 1)
		})
	}
}

// hiddenFrom calls verbs that ask all tables, and returns the first error.
func hiddenFrom(t *testing.T, store *stint.Store) error {
	t.Helper()
	return errors.Join(
		errOf(store.OwnTasks(t.Context(), "actor", 1, []string{"act"}, 1e9)),
		errOf(store.AbortTasks(t.Context(), []stint.TaskID{"before000001"}, "")),
		errOf(store.Check(t.Context())), errOf(store.ListActors(t.Context())))
}
