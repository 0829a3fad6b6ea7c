//go:build unix

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Whoever wonders what the library sends sees it, without a database.
func TestStatements_ArePrintedAsTheyAreSent(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	env := []string{"STINT_DATABASE_URL=postgres://nowhere.invalid/none"}
	names := run(t, env, "", "statements")
	names.wantExit(t, 0)
	for _, name := range []string{"own_tasks", "own_singly", "return_final", "set_planner"} {
		if !slices.Contains(strings.Fields(names.stdout), name) {
			t.Errorf("%s is not among the names", name)
		}
	}
	two := run(t, env, "", "statements", "--schema", "Other", "return_final", "own_few")
	two.wantExit(t, 0)
	first, second, _ := strings.Cut(two.stdout, "\n\n")
	if !strings.HasPrefix(first, "-- name: return_tasks\nWITH") ||
		!strings.HasPrefix(second, "-- name: own_tasks\nWITH") ||
		!strings.Contains(first, `DELETE FROM "Other".leased`) ||
		strings.Contains(two.stdout, "unless") {
		t.Errorf("it printed\n%s", two.stdout)
	}
	run(t, env, "", "statements", "own_nothing").wantExit(t, 2, "stint: there is no statement")
}
