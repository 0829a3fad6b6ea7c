//go:build unix

package moves_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// copySchema makes the tables of a server on another one, empty.
func copySchema(tb testing.TB, from, to *testdb.Server) {
	tb.Helper()
	bin := from.Bin(tb, "pg_dump", "psql")
	file := filepath.Join(testdb.NewDir(tb, from.Data()), "schema.sql")
	from.Exec(tb, filepath.Join(bin, "pg_dump"), "--schema-only", "--schema", "stint",
		"--file", file, from.Address(tb, "postgres"))
	to.Exec(tb, filepath.Join(bin, "psql"), "--no-psqlrc", "--single-transaction",
		"--set", "ON_ERROR_STOP=1", "--file", file, to.Address(tb, "postgres"))
}

// Logical replication leaves sequences out. The check finds it, inserts fail with a word on what to
// do, and Migrate sets them right.
func TestReplication_SwitchesOverWithoutRepeatingAKey(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	from := testdb.NewServer(t, "", map[string]string{"wal_level": "logical"})
	to := testdb.NewServer(t, "", nil)
	source, target := from.Pool(t), to.Pool(t)
	migrate(t, source)
	copySchema(t, from, to)

	store := openStore(t, source)
	wantErr(t, "InsertTasks", store.InsertTasks(ctx, named("early ", many)), nil)
	exec(t, source, "CREATE PUBLICATION moving FOR TABLES IN SCHEMA stint")
	exec(t, target, "CREATE SUBSCRIPTION moving CONNECTION '"+from.Address(t, "postgres")+
		"' PUBLICATION moving")
	before := populate(t, source, source)
	// Work goes on under a publication: an edge has no primary key by which to delete it.
	wantErr(t, "InsertTasks", store.InsertTasks(ctx, []stint.Task{
		{ID: "x", Action: "x"}, {ID: "y", Action: "x", After: []stint.TaskID{"x"}},
	}), nil)
	_, err := store.DeleteTasks(ctx, []stint.TaskID{"x", "y"})
	wantErr(t, "DeleteTasks", err, nil)
	before.look(t, source)

	for _, s := range []*stint.Store{store, before.store} {
		wantErr(t, "Close", s.Close(context.WithoutCancel(ctx)), nil)
	}
	wantCaughtUp(t, source, target)
	exec(t, target, "DROP SUBSCRIPTION moving")
	from.Stop(t)

	moved := openStore(t, target)
	got := sequenceFindings(t, target, moved)
	if !slices.Equal(got, []string{"blocks", "positions"}) {
		t.Errorf("behind are %q", got)
	}
	err = moved.InsertTasks(ctx, []stint.Task{{ID: "too early", Action: "x"}})
	if err == nil || !strings.Contains(err.Error(), "stint migrate") {
		t.Errorf("InsertTasks = %v, want to be told what to do", err)
	}
	migrate(t, target)
	migrate(t, target)
	wantNoActs(t, target, stint.Options{}, "restored or replicated")
	wantErr(t, "Adopt", stint.Adopt(ctx, moved), nil)
	before.wantWhole(t, target)
}

// wantCaughtUp waits until the target has all that the source has committed.
func wantCaughtUp(tb testing.TB, source, target *pgxpool.Pool) {
	tb.Helper()
	end := yields[string](tb, source, "SELECT pg_current_wal_lsn()::text")
	eventually(tb, "the target has caught up", func() bool {
		return yields[bool](tb, target, `SELECT
			(SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel) AND
			coalesce((SELECT latest_end_lsn >= $1::text::pg_lsn FROM pg_stat_subscription
			          WHERE relid IS NULL), false)`, end)
	})
}
