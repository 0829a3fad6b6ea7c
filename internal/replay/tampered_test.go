//go:build unix

package replay_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/replay"
)

// Each kind of violation is found when somebody changes the tables past the verbs.
// Proves G325.
func TestHistory_FindsEachViolation(t *testing.T) {
	t.Parallel()
	_, pool, h := follow(t)
	store := newStore(t, pool)
	for _, c := range tampered() {
		stage(t, store, c.stage)
		before := len(h.Violations())
		exec(t, pool, c.statement)
		if err := h.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		found := h.Violations()[before:]
		if !told(found, c.want) {
			t.Errorf("%s: found %v, want one that says %q", c.name, found, c.want)
		}
	}
}

func told(violations []replay.Violation, text string) bool {
	for _, v := range violations {
		if strings.Contains(v.String(), text) {
			return true
		}
	}
	return false
}

func exec(t *testing.T, pool *pgxpool.Pool, statement string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// A tampering is a statement that does what no verb may do, on tasks that stage has prepared.
type tampering struct{ name, stage, statement, want string }

const taskOf = `(SELECT key FROM stint.tasks WHERE id = `

func tampered() []tampering {
	return slices.Concat(tamperedStates(), tamperedOwners(), tamperedSignals(), tamperedLimits())
}

func tamperedStates() []tampering {
	return []tampering{
		{
			"two states", "a", `INSERT INTO stint.ready (lo, hi, tries, priority, action)
			SELECT key, key, 0, 0, 'a' FROM stint.tasks WHERE id = 'a-owned'`,
			"in 2 states at once",
		},
		{
			"no state", "b", `DELETE FROM stint.leased WHERE lo = ` + taskOf + `'b-owned')`,
			"is in no state",
		},
		{
			"no definition", "c", `DELETE FROM stint.tasks WHERE id = 'c-done'`,
			"has no definition",
		},
		{
			"an end that goes on", "d", `WITH gone AS (
				DELETE FROM stint.finished WHERE lo = ` + taskOf + `'d-done') RETURNING lo)
			INSERT INTO stint.leased (lo, hi, claim, tries) SELECT lo, lo, 7, 2 FROM gone`,
			"moved from completed to in progress",
		},
		{
			"another end", "e", `UPDATE stint.finished SET cause = 4
			WHERE lo = ` + taskOf + `'e-done')`,
			"moved from completed to aborted (cancelled)",
		},
	}
}

func tamperedOwners() []tampering {
	return []tampering{
		{
			"another owner", "f", `UPDATE stint.leased SET claim = claim + 1
			WHERE lo = ` + taskOf + `'f-owned')`,
			"changed its owner without being given back",
		},
		{
			"a claim again", "g", `WITH gone AS (
				DELETE FROM stint.ready WHERE lo = ` + taskOf + `'g-again') RETURNING *)
			INSERT INTO stint.leased (lo, hi, claim, tries) 
				SELECT lo, lo, claim, tries + 1 FROM gone`,
			"under a claim that it had before",
		},
		{
			"a try too many", "h", `WITH gone AS (
				DELETE FROM stint.ready WHERE lo = ` + taskOf + `'h-ready') RETURNING *)
			INSERT INTO stint.leased (lo, hi, claim, tries) SELECT lo, lo, 8, 9 FROM gone`,
			"for try 9 of 3",
		},
		{
			"a lease cut short", "i", `WITH gone AS (
				DELETE FROM stint.leased WHERE lo = ` + taskOf + `'i-owned') RETURNING *)
			INSERT INTO stint.ready (lo, hi, claim, tries, priority, action, actor, late)
			SELECT lo, lo, claim, tries, 0, 'i', 'x', true FROM gone`,
			"ahead of the end of its lease",
		},
		{
			"lost for good too early", "m", `WITH gone AS (
				DELETE FROM stint.leased WHERE lo = ` + taskOf + `'m-owned') RETURNING *)
			INSERT INTO stint.finished (lo, hi, claim, tries, cause)
			SELECT lo, lo, ~claim, tries, 9 FROM gone`,
			"aborted as lost, and owners have lost it 1 times in a row",
		},
		{
			"lost too often", "n", `DO $lose$
			DECLARE
				lost bigint := ` + taskOf + `'n-owned');
			BEGIN
				FOR n IN 1 .. 3 LOOP
					WITH gone AS (DELETE FROM stint.leased WHERE lo = lost RETURNING *)
					INSERT INTO stint.ready (lo, hi, claim, tries, priority, action, actor, late)
					SELECT lo, lo, claim, tries, 0, 'n', 'x', true FROM gone;
					WITH gone AS (DELETE FROM stint.ready WHERE lo = lost RETURNING *)
					INSERT INTO stint.leased (lo, hi, claim, tries)
					SELECT lo, lo, claim + 1, tries + 1 FROM gone;
				END LOOP;
			END $lose$`,
			"is ready, though 3 owners in a row have lost it",
		},
	}
}

func tamperedSignals() []tampering {
	return []tampering{
		{
			"a start too early", "j", `WITH gone AS (
				DELETE FROM stint.blocked WHERE key = ` + taskOf + `'j-waits') RETURNING *)
			INSERT INTO stint.ready (lo, hi, tries, priority, action)
			SELECT key, key, 0, 0, 'j' FROM gone`,
			`may start, and waits for "j-owned"`,
		},
		{
			"a condition that is not met", "k", `WITH ended AS (
				DELETE FROM stint.leased WHERE lo = ` + taskOf + `'k-owned') RETURNING *),
			kept AS (INSERT INTO stint.finished (lo, hi, claim, tries, cause)
				SELECT lo, hi, claim, tries, 1 FROM ended),
			gone AS (DELETE FROM stint.blocked WHERE key = ` + taskOf + `'k-waits') RETURNING *)
			INSERT INTO stint.ready (lo, hi, tries, priority, action)
			SELECT key, key, 0, 0, 'k' FROM gone`,
			"did not end as it asks for",
		},
		{
			"skipped for nothing", "l", `WITH ended AS (
				DELETE FROM stint.leased WHERE lo = ` + taskOf + `'l-owned') RETURNING *),
			kept AS (INSERT INTO stint.finished (lo, hi, claim, tries, cause)
				SELECT lo, hi, claim, tries, 0 FROM ended),
			gone AS (DELETE FROM stint.blocked WHERE key = ` + taskOf + `'l-waits') RETURNING *)
			INSERT INTO stint.finished (lo, hi, tries, cause) SELECT key, key, 0, 8 FROM gone`,
			"ended as skipped, though its predecessors ended as it asks for",
		},
	}
}

func tamperedLimits() []tampering {
	const later = "now() + interval '11 s'"
	return []tampering{
		{
			"without a look at limits", "unknown",
			unlimited(fetchPast("unknown-ready", 'n'), later), `holds the key "one"`,
		},
		{"over a limit", "limited", fetchPast("limited-ready", 'p'), "of at most 1"},
		{
			"over the limit of a key", "keys", fetchPast("keys-ready", 'q'),
			`in progress with the key "one"`,
		},
		{
			"past the holder of a key", "ordered", fetchPast("ordered-ready", 'r'),
			`holds the key "one"`,
		},
		{
			"faster than the rate", "rate", fetchPast("rate-ready", 's'),
			"faster than the rate of the action",
		},
		{
			"faster than the budget", "cost", fetchPast("cost-ready", 'o'),
			"faster than the rate of the action",
		},
	}
}

// fetchPast is a statement that owns a task without a look at limits.
func fetchPast(id string, claim rune) string {
	return strings.NewReplacer("{id}", id, "{claim}", "1"+strings.Repeat("0", int(claim-'a'))).
		Replace(`WITH gone AS (
		DELETE FROM stint.ready
		WHERE lo = (SELECT key FROM stint.tasks WHERE id = '{id}') RETURNING *),
	lease AS (INSERT INTO stint.leases (claim, deadline, size, actor, spans)
		SELECT {claim}, now() + interval '1 h', 1, 'x', '{}' FROM gone)
	INSERT INTO stint.leased (lo, hi, claim, tries, limited_action)
	SELECT lo, lo, {claim}, 1, action FROM gone`)
}

// unlimited has a fetch begin at a time, and not say that its task counts towards limits.
func unlimited(fetch, began string) string {
	return strings.NewReplacer(
		"(claim, deadline, size", "(owned_at, claim, deadline, size",
		"SELECT 1", "SELECT "+began+", 1",
		", limited_action)", ")", ", 1, action FROM", ", 1 FROM",
	).Replace(fetch)
}

// stage inserts tasks of an action: one that is owned, one that has completed, one that was
// returned as pending, one that is ready, and one that waits for the one that is owned.
func stage(t *testing.T, store *stint.Store, action string) {
	t.Helper()
	ctx := t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("stage %s: %v", action, err)
		}
	}
	id := func(of string) stint.TaskID { return stint.TaskID(action + "-" + of) }
	task := func(of string) stint.Task {
		return stint.Task{ID: id(of), Action: action, Key: "one", MaxTries: 3, Cost: 5}
	}
	limits, limited := map[string]stint.Limits{
		"limited": {Concurrency: 1}, "keys": {ConcurrencyPerKey: 1}, "ordered": {Ordered: true},
		"unknown": {Ordered: true},
		"rate":    {Rate: stint.Rate{Tasks: 1, Per: time.Hour, Burst: 1}},
		"cost":    {Rate: stint.Rate{Tasks: 5, Per: time.Hour, Burst: 5}, ByCost: true},
	}[action]
	if limited {
		ok(store.SetLimits(ctx, action, limits))
	}
	own := func(of string) stint.OwnedTask {
		ok(store.InsertTasks(ctx, []stint.Task{task(of)}))
		owned, err := store.OwnTasks(ctx, "x", 1, []string{action}, time.Hour)
		ok(err)
		if len(owned) != 1 {
			t.Fatalf("stage %s: owned %v, want the one task", action, owned)
		}
		return owned[0]
	}
	if !limited {
		done := own("done")
		ok(store.ReturnTask(ctx, done.ID, done.Token, "", stint.StatusCompleted))
	}
	own("owned")
	waits := task("waits")
	waits.When = []stint.Condition{{After: id("owned")}}
	ok(store.InsertTasks(ctx, []stint.Task{waits, task("ready")}))
	if !limited {
		later := task("again")
		later.Priority = 1
		ok(store.InsertTasks(ctx, []stint.Task{later}))
		owned, err := store.OwnTasks(ctx, "x", 1, []string{action}, time.Hour)
		ok(err)
		ok(store.ReturnTask(ctx, owned[0].ID, owned[0].Token, "", stint.StatusPending))
	}
}
