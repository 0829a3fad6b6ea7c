//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
	"github.com/stint-tasks/stint/taskstore"
)

func TestMigrate_PrintsSQLAndTouchesNoDatabase(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := databaseOn(t, testdb.NewEmpty(t))
	env := []string{"STINT_DATABASE_URL=" + nowhere}
	for _, schema := range []string{"stint", "other"} {
		args := []string{"migrate", "--print-sql", "--schema", schema}
		db.exec(t, run(t, env, "", args...).wantExit(t, 0).stdout)
		db.run(t, "", "migrate", "--schema", schema).wantExit(t, 0).wantOutput(t, "already")
		db.run(t, `{"action": "act"}`, "insert", "--schema", schema).wantExit(t, 0)
	}
	args := []string{"migrate", "--print-sql", "--from", "2", "--to", "0", "--down", "--json"}
	run(t, env, "", args...).wantExit(t, 0).wantOutput(t, `"migrated_to":0`, "DROP TABLE")
	db.exec(t, run(t, env, "", args[:len(args)-1]...).wantExit(t, 0).stdout)
	db.run(t, "", "ls").wantExit(t, 5, "stint migrate")
}

func TestMigrate_MakesTheFunction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := databaseOn(t, testdb.NewEmpty(t))
	for _, schema := range []string{"stint", `Quo"ted.x`} {
		quoted := pgx.Identifier{schema}.Sanitize()
		args := []string{"migrate", "functions", "--schema", schema}
		db.run(t, "", args...).wantExit(t, 5, "stint migrate")
		db.run(t, "", "migrate", "--schema", schema).wantExit(t, 0)
		for range 2 {
			db.run(t, "", args...).wantExit(t, 0).wantOutput(t,
				"has the functions add_task and finish_task")
		}
		db.run(t, "", append(args, "--json")...).wantExit(t, 0).wantOutput(t, `{"schema":`)
		db.exec(t, "SELECT "+quoted+".add_task('act', 'body', id => 'from SQL')")
		db.run(t, "", "show", "from SQL", "--schema", schema).wantExit(t, 0).
			wantOutput(t, "ready", "body")

		db.exec(t, "DROP FUNCTION "+quoted+".add_task")
		env := []string{"STINT_DATABASE_URL=" + nowhere}
		args = append(args, "--print-sql")
		db.exec(t, run(t, env, "", args...).wantExit(t, 0).stdout)
		db.exec(t, "SELECT "+quoted+".add_task('act')")
		var printed struct{ Schema, SQL string }
		run(t, env, "", append(args, "--json")...).wantExit(t, 0).decode(t, &printed)
		if printed.Schema != schema || !strings.Contains(printed.SQL, quoted+".add_task") {
			t.Errorf("stint %q printed %+v", args, printed)
		}
	}
	db.exec(t, "UPDATE stint.stint_schema_version SET version = version + 1")
	db.run(t, "", "migrate", "functions").wantExit(t, 5, "use the release that migrated it")
}

func TestMigrate_GoesBackOnlyIfToldSo(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "kept", Action: "act"})
	stored, err := taskstore.New(db.pool, taskstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stored.Update(t.Context(), taskstore.Request{
		Client: 1, Adds: []taskstore.Add{{Group: "map", Data: []byte("a file")}},
	}); err != nil {
		t.Fatal(err)
	}
	db.run(t, "", "migrate", "--to", "0").wantExit(t, 2, "drops all tasks, those of the task store",
		"--down")
	db.run(t, "", "show", "kept").wantExit(t, 0)
	// With a worker connected, too.
	if err := db.store.RegisterActor(t.Context(), "worker", []string{"act"}); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"migrate", "--to", "0", "--down"}, {"migrate", "--to", "0", "--down", "--json"},
	} {
		db.run(t, "y\n", args...).wantExit(t, 2, "drop all tasks, those of the task store, "+
			"schedules, limits and the log of changes in the schema", "with 1 task, "+
			"1 task of the task store and 1 store connected", "no terminal", "--yes")
		db.run(t, "", "show", "kept").wantExit(t, 0)
	}
	db.run(t, "y\n", "migrate", "--to", "1", "--down").wantExit(t, 2, "drop limits", "fail fast",
		"with 1 task and 1 store connected", "--yes")
	said := typed(t, db.env, "y\n", "migrate", "--to", "1", "--down")
	if !strings.Contains(said, "with 1 task and 1 store connected? [y/N]") {
		t.Errorf("on a terminal migrate says %q", said)
	}
	db.run(t, "", "migrate").wantExit(t, 0)
	db.run(t, "", "show", "kept").wantExit(t, 0)
	r := db.run(t, "", "migrate", "--to", "0", "--down", "--yes", "--json").wantExit(t, 0)
	want := fmt.Sprintf(`{"schema":"stint","version":%d,"newest":%d,"migrated_to":0}`,
		migrations.Version(), migrations.Version())
	r.wantOutput(t, want)
	db.run(t, "", "ls").wantExit(t, 5, "stint migrate")
	db.run(t, "", "migrate", "--to", "1").wantExit(t, 0)
	db.run(t, "", "ls").wantExit(t, 5, "at version 1", "stint migrate")
	db.run(t, "", "migrate").wantExit(t, 0).wantOutput(t, "from version 1 to 2")
	db.run(t, "", "ls").wantExit(t, 0, "no tasks")
}

func TestMigrate_SetsSequencesThatAreBehind(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "act"})
	wantRight := func() {
		t.Helper()
		if r := db.run(t, "", "check"); strings.Contains(r.stdout, "sequence") {
			t.Errorf("the check says:\n%s", r.stdout)
		}
	}
	wantRight()
	behind := "SELECT setval('stint.blocks', 1, false), setval('stint.positions', 1, false)"
	db.exec(t, behind)
	db.run(t, "", "check").wantExit(t, 9).wantOutput(t, "sequence blocks is behind",
		"sequence positions is behind", "run: stint migrate")
	db.run(t, "", "migrate").wantExit(t, 0).wantOutput(t, "blocks and positions were behind")
	db.run(t, "", "migrate").wantExit(t, 0).wantOutput(t, `schema "stint" is already at version`)
	db.exec(t, behind)
	db.run(t, "", "migrate", "--json").wantExit(t, 0).
		wantOutput(t, `"sequences":["blocks","positions"]`)
	wantRight()
}
