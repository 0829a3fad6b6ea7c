//go:build unix

package moves_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/doctor"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// counted is how many tasks were handed out to those of a copy, or inserted by the schedule.
const counted = `SELECT count(*) FROM stint.task_states
	WHERE actor LIKE 'copy%' OR starts_with(id, 'each second')`

// fillOriginal inserts tasks that are ready, enough for all who act, one that is due and a
// schedule, and has one handed out, so that the database knows where its tasks belong.
func fillOriginal(tb testing.TB, store *stint.Store) {
	tb.Helper()
	ctx := tb.Context()
	tasks := []stint.Task{
		{ID: "performed", Action: "mail"},
		{ID: "due", Action: "mail", NotBefore: time.Now().Add(-time.Hour)},
	}
	for i := range 20 {
		tasks = append(tasks, stint.Task{
			ID: stint.TaskID(fmt.Sprint("to perform/", i)), Action: "mail",
		})
	}
	wantErr(tb, "InsertTasks", store.InsertTasks(ctx, tasks), nil)
	owned, err := store.OwnTasks(ctx, "original", 1, []string{"mail"}, time.Hour)
	if err != nil || len(owned) != 1 {
		tb.Fatalf("OwnTasks = %v, %v", owned, err)
	}
	wantErr(tb, "EnsureSchedules", store.EnsureSchedules(ctx, []stint.Schedule{{
		Name: "each second", Spec: "every 1s", Tasks: []stint.Task{{Action: "mail"}},
	}}), nil)
}

// wantNoActs checks that a copy hands out nothing and maintains nothing, says why, and does
// everything else.
func wantNoActs(tb testing.TB, pool *pgxpool.Pool, options stint.Options, why string) {
	tb.Helper()
	ctx := tb.Context()
	before := yields[int64](tb, pool, counted)
	log := &lockedBuffer{}
	options.Maintenance = stint.MaintainAlways
	options.Logger = slog.New(slog.NewTextHandler(log, nil))
	store, err := stint.New(pool, options)
	wantErr(tb, "New", err, nil)
	defer func() { wantErr(tb, "Close", store.Close(context.WithoutCancel(ctx)), nil) }()
	wantErr(tb, "InsertTasks", store.InsertTasks(ctx, []stint.Task{
		{ID: "of the copy", Action: "mail"},
	}), nil)
	for call, err := range map[string]error{
		"OwnTasks": func() error {
			_, err := store.OwnTasks(ctx, "copy", 10, []string{"mail"}, time.Hour)
			return err
		}(),
		"WaitToOwnTasks": func() error {
			_, err := store.WaitToOwnTasks(ctx, "copy", 10, []string{"mail"}, time.Hour)
			return err
		}(),
		"Maintain": store.Maintain(ctx),
	} {
		wantErr(tb, call, err, stint.ErrCopy)
		if !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "stint adopt") {
			tb.Errorf("%s = %q, want why and what to do", call, err)
		}
	}
	eventually(tb, "a line of the log", func() bool { return log.count("level=WARN") > 0 })
	if n := log.count("level=WARN"); n > 1 || log.count("nothing is handed out") == 0 {
		tb.Errorf("the log says it %d times: %s", n, log.text.String())
	}
	explanation, err := store.Explain(ctx, "of the copy")
	if err != nil || !strings.Contains(explanation.String(), why) {
		tb.Errorf("Explain = %s, %v", explanation, err)
	}
	stats, err := store.Stats(ctx)
	if err != nil || !strings.Contains(stats.Copy, why) {
		tb.Errorf("Stats = %q, %v", stats.Copy, err)
	}
	if got := yields[int64](tb, pool, counted); got != before {
		tb.Errorf("%d tasks were handed out or inserted", got-before)
	}
	_, err = store.DeleteTasks(ctx, []stint.TaskID{"of the copy"})
	wantErr(tb, "DeleteTasks", err, nil)
}

// wantActs checks that tasks are handed out and schedules fire.
func wantActs(tb testing.TB, pool *pgxpool.Pool, options stint.Options) {
	tb.Helper()
	store, err := stint.New(pool, options)
	wantErr(tb, "New", err, nil)
	defer func() { wantErr(tb, "Close", store.Close(context.WithoutCancel(tb.Context())), nil) }()
	wantErr(tb, "Maintain", store.Maintain(tb.Context()), nil)
	tasks, err := store.OwnTasks(tb.Context(), "another", 1, []string{"mail"}, time.Hour)
	if err != nil || len(tasks) != 1 {
		tb.Errorf("OwnTasks = %v, %v", tasks, err)
	}
}

func copyFindings(tb testing.TB, pool *pgxpool.Pool) int {
	tb.Helper()
	store := openIdle(tb, pool)
	findings, err := doctor.Examine(tb.Context(), pool, store, migrations.DefaultSchema)
	wantErr(tb, "Examine", err, nil)
	found := 0
	for _, f := range findings {
		if f.Topic == "copy" {
			found++
		}
	}
	return found
}

// openIdle opens a store that does nothing by itself.
func openIdle(tb testing.TB, pool *pgxpool.Pool) *stint.Store {
	tb.Helper()
	store, err := stint.New(pool, stint.Options{PollOnly: true, Maintenance: stint.MaintainNever})
	wantErr(tb, "New", err, nil)
	tb.Cleanup(func() { _ = store.Close(context.WithoutCancel(tb.Context())) })
	return store
}

// newOriginal is a database with tasks, in a server of its own.
func newOriginal(tb testing.TB, settings map[string]string) *testdb.Server {
	tb.Helper()
	server := testdb.NewServer(tb, "", settings)
	migrate(tb, server.Pool(tb))
	fillOriginal(tb, openIdle(tb, server.Pool(tb)))
	return server
}

// A dump that is restored on a fresh server gets the same object IDs, and transactions count from
// the same number: a restored database is a copy all the same, until somebody adopts it.
// Proves G331.
func TestCopy_ARestoredDumpHandsNothingOut(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	original := newOriginal(t, nil)
	bin := original.Bin(t, "pg_dump", "pg_restore", "psql")
	file := filepath.Join(testdb.NewDir(t, original.Data()), "dump")
	dump := func(of *testdb.Server, format string) {
		of.Exec(t, filepath.Join(bin, "pg_dump"), "--format", format, "--schema", "stint",
			"--file", file, of.Address(t, "postgres"))
	}
	const why = "restored or replicated"
	dump(original, "custom")
	restored := testdb.NewServer(t, "", nil)
	restored.Exec(t, filepath.Join(bin, "pg_restore"), "--exit-on-error",
		"--dbname", restored.Address(t, "postgres"), file)
	pool := restored.Pool(t)
	wantNoActs(t, pool, stint.Options{}, why)
	if found := copyFindings(t, pool); found != 1 {
		t.Errorf("the check finds %d copies", found)
	}
	wantErr(t, "Adopt", stint.Adopt(t.Context(), openIdle(t, pool)), nil)
	wantActs(t, pool, stint.Options{})
	if found := copyFindings(t, pool); found != 0 {
		t.Errorf("the check finds %d copies", found)
	}

	// The copy of a copy, made by the same steps.
	dump(restored, "custom")
	again := testdb.NewServer(t, "", nil)
	again.Exec(t, filepath.Join(bin, "pg_restore"), "--exit-on-error",
		"--dbname", again.Address(t, "postgres"), file)
	wantNoActs(t, again.Pool(t), stint.Options{}, why)

	// In the place of the original.
	restored.Exec(t, filepath.Join(bin, "pg_restore"), "--exit-on-error", "--clean",
		"--dbname", restored.Address(t, "postgres"), file)
	pool.Reset()
	wantNoActs(t, pool, stint.Options{}, why)
	wantActs(t, original.Pool(t), stint.Options{})
}

// CREATE DATABASE ... TEMPLATE copies files, and so does STRATEGY wal_log. A template in which
// nothing was handed out makes databases of which none is a copy.
// Proves G331.
func TestCopy_OfATemplateHandsNothingOut(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	server := testdb.NewServer(t, "", nil)
	admin := server.Pool(t)
	database := func(name, template string) *pgxpool.Pool {
		t.Helper()
		exec(t, admin, "CREATE DATABASE "+name+" TEMPLATE "+template)
		config := admin.Config()
		config.ConnConfig.Database = name
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		wantErr(t, "NewWithConfig", err, nil)
		t.Cleanup(pool.Close)
		return pool
	}
	template := database("template", "template1")
	migrate(t, template)
	template.Reset()
	eventually(t, "nobody uses the template", func() bool {
		return yields[int64](t, admin,
			"SELECT count(*) FROM pg_stat_activity WHERE datname = 'template'") == 0
	})
	original := database("original", "template")
	store := openIdle(t, original)
	fillOriginal(t, store)
	wantErr(t, "Close", store.Close(t.Context()), nil)
	original.Reset()
	eventually(t, "nobody uses the original", func() bool {
		return yields[int64](t, admin,
			"SELECT count(*) FROM pg_stat_activity WHERE datname = 'original'") == 0
	})
	copied := database("copied", "original")
	wantNoActs(t, copied, stint.Options{}, "CREATE DATABASE")
	wantActs(t, copied, stint.Options{ActInCopies: true})
	wantErr(t, "Adopt", stint.Adopt(t.Context(), openIdle(t, copied)), nil)
	wantActs(t, copied, stint.Options{})
	wantActs(t, original, stint.Options{})
}

// A base backup that is promoted beside the original has the same files, and so does a standby that
// takes over: only the names of the environments tell them apart.
// Proves G331.
func TestCopy_OfTheFilesIsToldByItsEnvironment(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	original := newOriginal(t, nil)
	production := stint.Options{Environment: "production"}
	wantActs(t, original.Pool(t), production)
	bin := original.Bin(t, "pg_basebackup")
	dir := testdb.NewDir(t, original.Data())
	data := filepath.Join(dir, "data")
	original.Exec(t, filepath.Join(bin, "pg_basebackup"), "--checkpoint", "fast",
		"--no-manifest", "--pgdata", data, "--dbname", original.Address(t, "postgres"))
	signal := filepath.Join(data, "standby.signal")
	wantErr(t, "WriteFile", os.WriteFile(signal, nil, 0o600), nil)
	original.Own(t, signal)
	standby := testdb.NewServer(t, dir, nil)
	pool := standby.Pool(t)
	exec(t, pool, "SELECT pg_promote()")

	wantActs(t, pool, production) // as after a failover
	wantActs(t, pool, stint.Options{})
	staging := stint.Options{Environment: "staging"}
	wantNoActs(t, pool, staging, `"production"`)
	store, err := stint.New(pool, staging)
	wantErr(t, "New", err, nil)
	defer func() { wantErr(t, "Close", store.Close(context.WithoutCancel(t.Context())), nil) }()
	wantErr(t, "Adopt", stint.Adopt(t.Context(), store), nil)
	wantActs(t, pool, staging)
	wantNoActs(t, pool, production, `"staging"`)
	wantActs(t, original.Pool(t), production)
}

// What a database goes through where it is leaves it what it is.
// Proves G331.
func TestCopy_IsNothingThatWasOnlyRenamedOrWrittenAnew(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	original := newOriginal(t, nil)
	pool := original.Pool(t)
	for _, statement := range []string{
		"VACUUM (FULL, FREEZE)", "ANALYZE", "ALTER TABLE stint.origin SET (fillfactor = 50)",
		"ALTER SCHEMA stint RENAME TO other", "ALTER SCHEMA other RENAME TO stint",
		"SELECT pg_switch_wal()",
	} {
		exec(t, pool, statement)
	}
	pool.Reset()
	wantActs(t, pool, stint.Options{})
}
