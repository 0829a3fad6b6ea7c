package stint_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testrun"
)

// A check that was never seen to find anything proves nothing.
func TestCheck_FindsWhatCannotBe(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	oneOfEachState(t, store)
	const key = "(SELECT key FROM stint.tasks WHERE id = '"
	for rule, statement := range map[string]string{
		"a task is in exactly one state": `INSERT INTO stint.finished (lo, hi, tries, cause)
			SELECT key, key, 0, 0 FROM stint.tasks WHERE id = 'blocked'`,
		"a task is in exactly one state: task \"ready\": none": `DELETE FROM stint.ready
			WHERE lo = ` + key + `ready')`,
		"what has a state has a definition": `DELETE FROM stint.tasks WHERE id = 'ready'`,
		"a blocked task misses the signals": `UPDATE stint.blocked SET missing = missing + 1
			WHERE key = ` + key + `blocked')`,
		"a task begins when its predecessors": `UPDATE stint.edges SET after = ` + key + `ready')
			WHERE after = ` + key + `done')`,
		"an aborted predecessor aborts": `UPDATE stint.finished SET cause = 4
			WHERE lo = ` + key + `done')`,
		"a task is told of its predecessors": `UPDATE stint.ready SET completed = 0
			WHERE lo = ` + key + `next')`,
		"an edge leads to a task": `INSERT INTO stint.edges VALUES
			(` + key + `ready'), 1)`,
		"an owned task has a lease":                 `UPDATE stint.leased SET part = 7`,
		"an owned task has a lease: task \"owned\"": `UPDATE stint.leases SET spans = '{{1,2}}'`,
		"tries are limited": `UPDATE stint.tasks SET max_tries = 1
			WHERE id = 'again'`,
		"a ready task is queued as it is defined": `UPDATE stint.ready SET priority = 3`,
		"a spontaneous task is owned by nobody": `UPDATE stint.tasks
			SET action = 'stint.Spontaneous'
			WHERE id = 'ready'`,
		"a completed spontaneous task passes on": `DELETE FROM stint.joined`,
		"an absolute deadline is watched":        `DELETE FROM stint.deadlines`,
		"nothing is left to settle": `INSERT INTO stint.settling (batch, key, round, cause)
			VALUES (1, 1, 1, 0)`,
		"an expired lease is taken back": `UPDATE stint.leases
			SET deadline = statement_timestamp() - interval '2 minutes'`,
		"dependencies have no cycle": `INSERT INTO stint.edges VALUES
			(` + key + `blocked2'), ` + key + `blocked'))`,
	} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), statement); err != nil {
				return err
			}
			found, err := store.WithTx(tx).Check(t.Context())
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(found, func(i stint.Inconsistency) bool {
				return strings.HasPrefix(i.String(), rule)
			}) {
				t.Errorf("%s: Check = %v", rule, found)
			}
			return tx.Rollback(t.Context())
		})
		if err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

// oneOfEachState inserts tasks whose IDs say what becomes of them.
func oneOfEachState(t *testing.T, store *stint.Store) {
	t.Helper()
	insert(t, store, after("done"))
	finish(t, store, "done", stint.StatusCompleted)
	insert(t, store, after("owned"))
	ownOne(t, store)
	insert(t, store, after("again"))
	again := ownOne(t, store)
	err := store.ReturnTask(t.Context(), "again", again.Token, "", stint.StatusPending)
	wantErr(t, "ReturnTask", err, nil)
	insert(t, store, after("ready"), after("next", "done"), join("joined"),
		after("blocked", "ready"), after("blocked2", "blocked"),
		stint.Task{
			ID: "later", Action: "act", NotBefore: time.Now().Add(time.Hour),
			Deadline: time.Now().Add(2 * time.Hour),
		})
}
