package interleave_test

import (
	"regexp"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A mutant is a statement that lacks something, and a pair of verbs that shows it.
type mutant struct {
	name       string
	statements []string
	text, with string // a regular expression, and what takes its place
	in         string // the fixture
	a, b       string
}

var mutants = []mutant{
	{
		"a fetch locks nothing",
		[]string{"own_tasks", "own_few", "own_singly"},
		`FOR UPDATE SKIP LOCKED`, ``, "ready", "own", "own",
	},
	{
		"a return does not look for new versions",
		[]string{"return_tasks", "return_final"},
		`leased.ctid = held.tid AND leased.xmin = held.version`, `leased.lo = held.lo`,
		"owned", "complete t", "insert n after t",
	},
	{
		"an edge does not make new versions",
		[]string{"lock_states"},
		`SET claim = leased.claim\s+WHERE`, `SET claim = leased.claim WHERE false AND`,
		"owned", "complete t", "insert n after t",
	},
	{
		"a withdrawal locks nothing",
		[]string{"withdraw_tasks"},
		`FOR UPDATE`, ``, "ready", "own", "abort t",
	},
	{
		"signals lock nothing",
		[]string{"lock_dependents", "settle_tasks"},
		`FOR UPDATE`, ``, "blocked", "complete p", "complete q",
	},
	{
		"an edge does not keep ends",
		[]string{"keep_ends"},
		`SELECT (pg_catalog\.)?pg_advisory_xact_lock_shared\([^)]*\)`, `SELECT NULL`,
		"completed", "retry t", "insert n after t",
	},
	{
		"edges are added at once",
		[]string{"lock_dependencies"},
		`WHERE dependency_lock.lock`, `WHERE false`, "two chains", "x after d", "t after y",
	},
	{
		"an extension does not keep an expiry off",
		[]string{"reclaim_leases"},
		`AND leased.xmin = span.version|FOR UPDATE SKIP LOCKED`, ``,
		"expired", "extend t", "settle what is due",
	},
	{
		"a promotion locks nothing",
		[]string{"promote_scheduled"},
		`FOR UPDATE SKIP LOCKED`, ``, "due", "abort t", "settle what is due",
	},
	{
		"a change locks nothing",
		[]string{"change_tasks"},
		`FOR UPDATE`, ``, "ready", "own", "delay t",
	},
	{
		"an answer locks nothing",
		[]string{"take_external"},
		`FOR UPDATE`, ``, "external", "answer t", "answer t aborted",
	},
	{
		"an edge leads from what was replaced",
		[]string{"lock_states"},
		`AND \(SELECT true FROM "stint".tasks WHERE tasks.key = named.key\)`, ``,
		"ready", "insert n after t", "replace t",
	},
	{
		"a change is of what was replaced",
		[]string{"change_tasks"},
		`AND \(SELECT true FROM "stint".tasks WHERE tasks.key = named.key\)`, ``,
		"ready", "delay t", "replace t",
	},
	{
		"an abort is of what was replaced",
		[]string{"withdraw_tasks"},
		`AND \(SELECT true FROM "stint".tasks WHERE tasks.key = named.key\)`, ``,
		"ready", "abort t", "replace t",
	},
	{
		"a condition does not keep a finished task",
		[]string{"lock_states"},
		`FOR KEY SHARE`, ``, "aborted", "insert n, if t is aborted", "delete t",
	},
	{
		"what is spent is noted of what is not locked",
		[]string{"note_spent"},
		`FOR UPDATE`, ``, "budget", "complete t, spent less", "return t",
	},
	{
		"a deletion does not keep a finished task",
		[]string{"withdraw_tasks"},
		`(WHERE tasks.key = named.key) FOR UPDATE`, `$1`, "completed", "delete t", "delete t",
	},
}

// A judge that finds nothing wrong with statements that are wrong would be none.
func TestJudge_FindsMutants(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			var changed atomic.Bool
			text := regexp.MustCompile(m.text)
			w := newWorld(t, fixtureNamed(t, m.in), func(statement string) string {
				mutated := statement
				if slices.Contains(m.statements, title(statement)) {
					mutated = text.ReplaceAllString(statement, m.with)
				}
				if mutated != statement {
					changed.Store(true)
				}
				return mutated
			})
			v, err := w.judge(pair{verbNamed(t, m.a), verbNamed(t, m.b)})
			switch {
			case err != nil:
				t.Error(err)
			case !changed.Load():
				t.Error("the statement has nothing to take away, or is not executed")
			case len(v.findings) == 0:
				t.Errorf("nothing was found in %d orders", v.orders)
			default:
				t.Logf("found in %d orders:\n%s", v.orders, v.findings[0])
			}
		})
	}
}

func fixtureNamed(t *testing.T, name string) fixture {
	t.Helper()
	at := slices.IndexFunc(fixtures, func(of fixture) bool { return of.name == name })
	if at < 0 {
		t.Fatalf("there is no fixture %q", name)
	}
	return fixtures[at]
}

func verbNamed(t *testing.T, name string) verb {
	t.Helper()
	at := slices.IndexFunc(verbs, func(of verb) bool { return of.name == name })
	if at < 0 {
		t.Fatalf("there is no verb %q", name)
	}
	return verbs[at]
}
