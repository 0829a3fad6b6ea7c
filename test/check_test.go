package stint_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A check that was never seen to find anything proves nothing.
// Proves G170.
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
		"a span has the key of its tasks": `UPDATE stint.ready SET limit_key = 'other'`,
		"a parked task is parked by its key": `UPDATE stint.ready
			SET position = '-9223372036854775808'::bigint | position`,
		"an owned task counts towards the limits of its action": `UPDATE stint.leased
			SET limited_action = 'other'`,
		"a task has one slot": `INSERT INTO stint.slots (action, limit_key, slot, key, claim)
			SELECT 'act', 'k', n, lo, claim FROM stint.leased, generate_series(1, 2) AS n`,
		"a slot is one of the key of its task": `INSERT INTO stint.slots
			(action, limit_key, slot, key, claim)
			SELECT 'act', 'k', 0, lo, claim FROM stint.leased`,
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

// parkForNothing parks tasks of actions without limits, with a limit per key, and fair.
func parkForNothing(t *testing.T, store *stint.Store, pool *pgxpool.Pool) {
	t.Helper()
	ctx := t.Context()
	for _, action := range []string{"free", "limited", "fair"} {
		insert(t, store, stint.Task{ID: stint.TaskID(action), Action: action, Key: "k"})
	}
	limited := stint.Limits{ConcurrencyPerKey: 1}
	wantErr(t, "SetLimits", store.SetLimits(ctx, "limited", limited), nil)
	wantErr(t, "SetLimits", store.SetLimits(ctx, "fair", stint.Limits{Fair: true}), nil)
	exec(t, pool, `UPDATE stint.ready
		SET position = '-9223372036854775808'::bigint | position, limit_key = 'k'`)
}

// A process that dies between two transactions may leave them behind. Check gives maintainers time
// to mend that.
// Proves G43.
func TestCheck_FindsTasksThatNothingHoldsUp(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	parkForNothing(t, store, pool)
	found, err := store.Check(t.Context())
	wantErr(t, "Check", err, nil)
	got := map[stint.TaskID]string{}
	for _, i := range found {
		got[i.ID] = i.Rule
	}
	want := map[stint.TaskID]string{
		"free":    "only tasks of actions with limits are parked",
		"limited": "a task is parked for want of capacity",
		"fair":    "a key whose tasks are parked has a turn",
	}
	if !maps.Equal(got, want) {
		t.Errorf("Check = %v, want %v", found, want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = store.Check(ctx)
	wantErr(t, "Check", err, context.DeadlineExceeded)
	wantErr(t, "Maintain", store.Maintain(t.Context()), nil)
	found, err = store.Check(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("after Maintain, Check = %v, %v", found, err)
	}
}

// What limits and pauses hold up is as it should be, and found at the first look.
// Proves G43.
func TestCheck_FindsNothingWrongWithLimits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	store := openStore(t, testdb.New(t), stint.Options{Maintenance: stint.MaintainNever})
	rate := stint.Rate{Tasks: 1, Per: time.Hour}
	var actions []string
	for action, limits := range map[string]stint.Limits{
		"keys": {ConcurrencyPerKey: 1}, "rate": {RatePerKey: rate}, "fair": {Fair: true},
		"all":    {Concurrency: 3, ConcurrencyPerKey: 2, Rate: rate, RatePerKey: rate, Fair: true},
		"paused": {ConcurrencyPerKey: 1}, "few": {Concurrency: 1}, "fair keys": {
			ConcurrencyPerKey: 1, Fair: true,
		},
	} {
		actions = append(actions, action)
		wantErr(t, "SetLimits", store.SetLimits(ctx, action, limits), nil)
		for i := range 6 {
			id := stint.TaskID(fmt.Sprint(action, i))
			insert(t, store, stint.Task{ID: id, Action: action, Key: string("kl"[i%2])})
		}
	}
	wantErr(t, "PauseKeys", store.PauseKeys(ctx, "paused", "k"), nil)
	check := func(when string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, soon)
		defer cancel()
		if found, err := store.Check(ctx); err != nil || len(found) > 0 {
			t.Errorf("%s, Check = %v, %v", when, found, err)
		}
	}
	for range 3 {
		owned, err := store.OwnTasks(ctx, "actor", 100, actions, time.Hour)
		wantErr(t, "OwnTasks", err, nil)
		check("after a fetch")
		for _, task := range owned {
			err := store.ReturnTask(ctx, task.ID, task.Token, "", stint.StatusCompleted)
			wantErr(t, "ReturnTask", err, nil)
		}
		check("after the returns")
	}
}
