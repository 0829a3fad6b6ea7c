package stint_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// unreadable makes a pool that takes times for something else, so that no answer that holds one can
// be read.
func unreadable(t *testing.T, pool *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	return poolOf(t, pool, func(config *pgxpool.Config) {
		config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
			conn.TypeMap().RegisterType(&pgtype.Type{
				Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: pgtype.UUIDCodec{},
			})
			return nil
		}
	})
}

// A fetch whose answer cannot be read behind the commit is undone, whatever the reason.
// Proves G98.
func TestOwnTasks_GivesBackWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	clean := testdb.New(t)
	reader := openStore(t, clean, stint.Options{Maintenance: stint.MaintainNever})
	pool := unreadable(t, clean)
	store := openStore(t, pool, stint.Options{
		Maintenance: stint.MaintainNever, PollOnly: true, PollInterval: time.Millisecond,
	})
	insert(t, reader, numbered("many", 100)...) // in spans
	insert(t, reader, stint.Task{ID: "one", Action: "act", MaxTries: 1, Priority: 1})
	check := func(how string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s succeeds", how)
		}
		list, err := listTasks(t.Context(), reader, stint.Filter{Limit: 1000})
		wantErr(t, "ListTasks", err, nil)
		for _, task := range list {
			if task.State != stint.StateReady || task.Tries != 0 {
				t.Fatalf("after %s, %s is %s with %d tries", how, task.ID, task.State, task.Tries)
			}
		}
		if len(list) != 101 {
			t.Fatalf("there are %d tasks, want 101", len(list))
		}
	}
	for _, n := range []int{1, 5, 1000} {
		_, err := store.OwnTasks(t.Context(), "actor", n, []string{"act"}, stint.NoExpiry)
		check("OwnTasks", err)
	}
	_, err := store.WaitToOwnTasks(t.Context(), "actor", 5, []string{"act"}, time.Hour)
	check("WaitToOwnTasks", err)
	tx := begin(t, pool)
	_, err = store.WithTx(tx).OwnTasks(t.Context(), "actor", 50, []string{"act"}, time.Hour)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	check("OwnTasks in a transaction", err)
	for _, kind := range fetchKinds()[1:] {
		wantErr(t, "SetLimits", reader.SetLimits(t.Context(), "act", kind.limits), nil)
		_, err := store.OwnTasks(t.Context(), "actor", 1000, []string{"act"}, time.Hour)
		check(kind.statement, err)
	}
	wantErr(t, "SetLimits", reader.SetLimits(t.Context(), "act", stint.Limits{}), nil)
	if got := own(t, reader, 1000); len(got) != 101 || got[0].ID != "one" || got[0].Try != 1 {
		t.Errorf("OwnTasks gives %d tasks", len(got))
	}
	checkStore(t, clean)
}

// Times, spans of time and bytes are what they are, whatever the styles in which the server writes
// them for others.
// Proves G90, G159.
func TestVerbs_ReadTimesInAnyStyle(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	styles := map[string]map[string]string{
		"German": {
			"DateStyle": "German", "IntervalStyle": "sql_standard", "bytea_output": "escape",
			"TimeZone": "Asia/Kathmandu",
		},
		"SQL, DMY": {
			"DateStyle": "SQL, DMY", "IntervalStyle": "iso_8601", "TimeZone": "<+12>-12:34",
		},
		"Postgres, MDY": {
			"DateStyle": "Postgres, MDY", "IntervalStyle": "postgres_verbose",
			"TimeZone": "Africa/Monrovia", "extra_float_digits": "-15",
		},
	}
	modes := []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	}
	names := slices.Sorted(maps.Keys(styles))
	for _, c := range testrun.Third(testrun.Pairs(names, modes), 0) {
		t.Run(c.A+" "+c.B.String(), func(t *testing.T) {
			t.Parallel()
			clean := testdb.New(t)
			pool := poolOf(t, clean, func(config *pgxpool.Config) {
				config.ConnConfig.DefaultQueryExecMode = c.B
				for setting, value := range styles[c.A] {
					config.ConnConfig.RuntimeParams[setting] = value
				}
			})
			store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
			everyVerb(t, store, false, "alone ")
			for _, kind := range fetchKinds()[1:] {
				wantErr(t, "SetLimits", store.SetLimits(t.Context(), "act", kind.limits), nil)
				insert(t, store, stint.Task{ID: stint.TaskID(kind.statement), Action: "act"})
				complete(t, store, ownOne(t, store))
			}
			wantErr(t, "SetLimits",
				store.SetLimits(t.Context(), "act", stint.Limits{}), nil)
			waitingVerbs(t, store, "waited ")
			tx := begin(t, pool)
			before := settingsOf(t, tx)
			everyVerb(t, store.WithTx(tx), true, "in a transaction ")
			if got := settingsOf(t, tx); !slices.Equal(got, before) {
				t.Errorf("the verbs leave the settings %s, they were %s", got, before)
			}
			wantErr(t, "Commit", tx.Commit(t.Context()), nil)
			checkStore(t, clean)
		})
	}
}

// settingsOf are the settings in a transaction, all but those that the store keeps its own in.
func settingsOf(t *testing.T, tx pgx.Tx) []string {
	t.Helper()
	rows, err := tx.Query(t.Context(), "SELECT name || ' = ' || setting FROM pg_settings "+
		"WHERE name NOT LIKE 'stint_kept.%' ORDER BY name")
	wantErr(t, "Query", err, nil)
	settings, err := pgx.CollectRows(rows, pgx.RowTo[string])
	wantErr(t, "CollectRows", err, nil)
	return settings
}
