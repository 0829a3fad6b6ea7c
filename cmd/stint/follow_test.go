//go:build unix

package main

import (
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/migrations"
)

// What no verb does to a task is told while somebody follows the store, and what following costs.
// Proves G325.
func TestCheckFollow_TellsOfEachViolation(t *testing.T) {
	t.Parallel()
	server := testdb.NewServer(t, "", map[string]string{"wal_level": "logical"})
	pool := server.Pool(t)
	if err := migrations.MigratePool(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	db := databaseOn(t, pool)
	db.env = []string{"STINT_DATABASE_URL=" + server.Address(t, "postgres")}

	whole := start(t, newCommand(t, db.env, "check", "--follow"))
	whole.says(t, "following 0 tasks")
	db.insert(t, stint.Task{ID: "one", Action: "act"}, stint.Task{ID: "two", Action: "act"})
	db.complete(t, "act", nil)
	whole.interrupt(t)
	whole.wantExit(t, 130)
	whole.says(t, "0 violations; the server keeps ")

	broken := start(t, newCommand(t, db.env, "check", "--follow", "--for", "1h"))
	broken.says(t, "following 2 tasks")
	db.exec(t, "DELETE FROM stint.ready")
	broken.says(t, `task "two" is in no state, and was ready`)
	broken.interrupt(t)
	broken.wantExit(t, 130)
	broken.says(t, "something is wrong: 1 violation")
	run(t, db.env, "", "check", "--follow", "--for", "10ms", "--json").wantExit(t, 0).
		wantOutput(t, `"violations":0`)

	db.run(t, "", "check", "--for", "1s").wantExit(t, 2, "--follow")
	db.run(t, "", "check", "--follow", "--topology", "a=postgres://nowhere/x").wantExit(t, 2)
}

// A server that does not decode its log says what is missing.
func TestCheckFollow_NeedsALogicalLog(t *testing.T) {
	t.Parallel()
	newDatabase(t).run(t, "", "check", "--follow").wantExit(t, 1, "wal_level", "REPLICATION")
}
