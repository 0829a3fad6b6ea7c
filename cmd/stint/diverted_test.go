//go:build unix

package main

import (
	"net/url"
	"testing"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Who may create in a schema that the path names cannot have code of his run by the command, which
// answers the same in whatever way the driver sends its statements, and in whatever style the
// server writes times.
// Proves G154.
func TestCommands_CallNobodysFunctions(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const behind, first = `"$user", evil`, "evil, pg_catalog"
	cases := [][2]string{
		{behind, "cache_statement"}, {behind, "exec"}, {first, "exec"}, {first, "cache_statement"},
	}
	for _, c := range testrun.Third(cases, 1) { // both paths and both modes
		path, mode := c[0], c[1]
		t.Run(path+" "+mode, func(t *testing.T) {
			t.Parallel()
			pool := testdb.NewEmpty(t)
			testdb.Fake(t, pool)
			db := databaseOn(t, pool)
			values := url.Values{
				"search_path": {path}, "default_query_exec_mode": {mode},
				"DateStyle": {"German"}, "IntervalStyle": {"sql_standard"},
			}
			env := []string{"STINT_DATABASE_URL=" + withSettings(t, testdb.URL(pool), values)}
			run(t, env, "", "migrate").wantExit(t, 0)
			run(t, env, "", "migrate", "status").wantExit(t, 0)
			run(t, env, "", "migrate", "functions").wantExit(t, 0)
			run(t, env, `{"id": "a", "action": "act"}`, "insert").wantExit(t, 0)
			for _, args := range [][]string{
				{"ls"},
				{"show", "a"},
				{"stats"},
				{"explain", "a"},
				{"graph", "a"},
				{"actors"},
				{"changes"},
				{"errors"},
				{"prune", "--completed-after", "1h", "--dry-run"},
				{"abort", "a"},
				{"retry", "a"},
				{"delete", "a"},
			} {
				run(t, env, "", args...).wantExit(t, 0)
			}
			got, want := check(t, env), check(t, db.env)
			if len(got.Findings) != len(want.Findings) {
				t.Errorf("stint check found %+v, want %+v", got, want)
			}
			var ran bool
			err := db.pool.QueryRow(t.Context(), "SELECT is_called FROM evil.times").Scan(&ran)
			if err != nil || ran {
				t.Errorf("somebody else's code ran: %t, %v", ran, err)
			}
		})
	}
}

// withSettings adds settings to the address of a database.
func withSettings(t *testing.T, address string, values url.Values) string {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme == "" {
		for name := range values {
			address += " " + name + "='" + values.Get(name) + "'"
		}
		return address
	}
	query := parsed.Query()
	for name := range values {
		query.Set(name, values.Get(name))
	}
	parsed.RawQuery = query.Encode()
	return parsed.String()
}
