//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
)

// A service manager gives a secret as a file, so that no list of processes or environment has it.
func TestDatabaseURL_IsReadFromAFile(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "act"})
	url := strings.TrimPrefix(db.env[0], "STINT_DATABASE_URL=")
	file := func(text string) string { return "STINT_DATABASE_URL_FILE=" + writeFile(t, text) }
	run(t, []string{file(url + "\n")}, "", "ls").wantExit(t, 0).wantOutput(t, "act")
	run(t, []string{file(nowhere)}, "", "ls", "--database-url", url).wantExit(t, 0)
	for env, want := range map[string]string{
		file(" \n"):                                           " is empty",
		file("mysql://me:secret@db/app"):                      "must have the form postgres://",
		"STINT_DATABASE_URL_FILE=/nowhere":                    "_FILE: open /nowhere",
		"STINT_DATABASE_URL=" + nowhere + " " + file(nowhere): "are both set",
	} {
		r := run(t, strings.Fields(env), "", "ls").wantExit(t, 2, want)
		if strings.Contains(r.stderr, "secret") {
			t.Errorf("%s: it tells the password: %s", env, r.stderr)
		}
	}
}
