//go:build unix

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Over a connection that would read texts in another encoding the command does what it does, also
// where a schema has a name of other letters, and check says who reads what.
// Proves G296.
func TestDatabase_ThatReadsOtherTextsKeepsThem(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	if isRemote() {
		return // a service has connections of its own
	}
	db := databaseOn(t, testdb.NewEmpty(t))
	latin := slices.Clone(db.env)
	for i := range latin {
		if url, ok := strings.CutPrefix(latin[i], "STINT_DATABASE_URL="); ok {
			separator := " "
			if strings.Contains(url, "://") {
				separator = "?"
				if strings.Contains(url, "?") {
					separator = "&"
				}
			}
			latin[i] += separator + "client_encoding=LATIN1"
		}
	}
	const schema, id = "größe", "Größe 5 € наука"
	for _, name := range []string{"stint", schema} {
		in := func(args ...string) []string { return append(args, "--schema", name) }
		run(t, latin, "", in("migrate")...).wantExit(t, 0)
		run(t, latin, `{"id": "`+id+`", "action": "`+id+`", "key": "`+id+`"}`, in("insert")...).
			wantExit(t, 0)
		db.run(t, "", in("ls")...).wantExit(t, 0).wantOutput(t, id)
		run(t, latin, "", in("ls")...).wantExit(t, 0).wantOutput(t, id)
		run(t, latin, "", in("explain", id)...).wantExit(t, 0).wantOutput(t, id)
		run(t, latin, "", in("schedule", "put", id, "--spec", "@daily", "--action", id)...)
		run(t, latin, "", in("pause", id)...).wantExit(t, 0)
		db.run(t, "", in("explain", id)...).wantExit(t, 0).wantOutput(t, "paused")
		run(t, latin, "", in("abort", id, "--yes")...).wantExit(t, 0)
		db.run(t, "", in("show", id)...).wantExit(t, 0).wantOutput(t, "aborted")
	}
	c := check(t, latin)
	c.want(t, "warning", "client_encoding of a connection like this one is LATIN1")
	check(t, db.env).wantNo(t, "encoding")
	db.exec(t, `DO $$ BEGIN EXECUTE format(
		'ALTER DATABASE %I SET client_encoding = win1251', current_database()); END $$`)
	db.exec(t, `DO $$ BEGIN EXECUTE format('ALTER ROLE CURRENT_USER IN DATABASE %I '
		'SET client_encoding = latin1', current_database()); END $$`)
	c = check(t, db.env)
	c.want(t, "warning", "client_encoding of a connection like this one is LATIN1")
	c.want(t, "warning", "every role has client_encoding=win1251", "RESET client_encoding")
	if got := db.get(t, stint.TaskID(id)); got.Action != id {
		t.Errorf("the action is %q", got.Action)
	}
}
