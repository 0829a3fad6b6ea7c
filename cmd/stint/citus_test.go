//go:build unix

package main

import (
	"testing"

	"github.com/stint-tasks/stint/internal/testdb"
)

// Whatever the sub-command, it says that Citus distributes the schema, and how to undo it.
func TestCommand_RefusesASchemaThatCitusDistributes(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	testdb.FakeCitus(t, db.pool, "stint")
	for _, command := range [][]string{{"check"}, {"migrate"}, {"ls"}} {
		db.run(t, "", command...).wantExit(t, 5, "distributed by Citus",
			`citus_schema_undistribute('"stint"')`)
	}
}
