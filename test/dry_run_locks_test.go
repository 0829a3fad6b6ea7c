package stint_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testverbs"
)

// everyState inserts tasks in every state, of which some are parked, and returns their IDs, the
// first of which are owned.
func everyState(t *testing.T, store *stint.Store) (ids []stint.TaskID, owned []stint.OwnedTask) {
	t.Helper()
	var tasks []stint.Task
	add := func(id stint.TaskID, change func(*stint.Task)) {
		task := after(id)
		if change != nil {
			change(&task)
		}
		ids, tasks = append(ids, id), append(tasks, task)
	}
	for i := range 8 {
		add(stint.TaskID(fmt.Sprintf("own%d", i)), nil)
	}
	for i := range 4 {
		add(stint.TaskID(fmt.Sprintf("end%d", i)), nil)
	}
	insert(t, store, tasks...)
	owned, tasks = own(t, store, len(tasks)), nil
	for i, task := range owned[8:] {
		if i%2 == 0 {
			complete(t, store, task)
		} else {
			returnWith(t, store, task, stint.Return{Code: stint.StatusAborted})
		}
	}
	for i := range 4 {
		add(stint.TaskID(fmt.Sprintf("ready%d", i)), nil)
		add(stint.TaskID(fmt.Sprintf("later%d", i)), func(task *stint.Task) {
			task.NotBefore = time.Now().Add(time.Hour)
		})
		add(stint.TaskID(fmt.Sprintf("blocked%d", i)), func(task *stint.Task) {
			task.After = []stint.TaskID{stint.TaskID(fmt.Sprintf("own%d", i))}
			task.FailFast = i%2 == 0
		})
	}
	insert(t, store, tasks...)
	return ids, owned[:8]
}

// heldBy returns the locks on the tables of the schema, and on what advisory locks stand for, that
// the backend of a transaction holds and that others might wait for.
func heldBy(t *testing.T, tx pgx.Tx) []string {
	t.Helper()
	rows, err := tx.Query(t.Context(), `
		SELECT coalesce(class.relname, locktype) || ' ' || mode
		FROM pg_locks
		LEFT JOIN pg_class AS class ON class.oid = relation
		WHERE pid = pg_backend_pid() AND mode <> 'AccessShareLock'
		  AND (class.relnamespace = 'stint'::regnamespace
		       OR locktype = 'advisory' AND objsubid = 2
		          AND classid IN (SELECT oid FROM pg_class
		                          WHERE relnamespace = 'stint'::regnamespace))`)
	wantErr(t, "Query", err, nil)
	held, err := pgx.CollectRows(rows, pgx.RowTo[string])
	wantErr(t, "CollectRows", err, nil)
	return held
}

// Proves G315.
func TestDryRun_LocksNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	ids, owned := everyState(t, store)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		dry := store.WithTx(tx).DryRun()
		for name, change := range testverbs.Changes(t.Context(), dry) {
			for _, some := range [][]stint.TaskID{
				ids, ids[:8], ids[8:12], slices.DeleteFunc(slices.Clone(ids[12:]),
					func(id stint.TaskID) bool { return id[0] == 'o' }),
			} {
				if _, err := change(some); err != nil {
					t.Logf("%s %q: %v", name, some, err) // that is an answer, too
				}
			}
			if held := heldBy(t, tx); len(held) > 0 {
				t.Errorf("the dry run of %s holds %q", name, held)
			}
		}
		// So nobody waits, whatever they do, although the transaction stands still.
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		for _, task := range owned {
			err := store.ReturnTask(ctx, task.ID, task.Token, "", stint.StatusCompleted)
			wantErr(t, "ReturnTask", err, nil)
		}
		wantErr(t, "Pause", store.Pause(ctx, "act"), nil)
		wantErr(t, "Resume", store.Resume(ctx, "act"), nil)
		_, err := store.RetryTasks(ctx, []stint.TaskID{"end1", "end3"})
		wantErr(t, "RetryTasks", err, nil)
		_, err = store.DeleteTasks(ctx, []stint.TaskID{"ready0", "later0"})
		wantErr(t, "DeleteTasks", err, nil)
		return nil
	})
	wantErr(t, "the transaction", err, nil)
}

// Proves G315.
func TestDryRun_WaitsForNobody(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	ids, _ := everyState(t, store)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		holdAll(t, store, tx, ids)
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		told, err := store.DryRun().AbortTasks(ctx, ids, "why")
		if err != nil || len(told.Tasks) != 20 || told.InProgress != 8 {
			t.Errorf("AbortTasks told %+v, %v", told, err)
		}
		told, err = store.DryRun().RetryTasks(ctx, ids)
		if err != nil || len(told.Tasks) != 4 {
			t.Errorf("RetryTasks told %+v, %v", told, err)
		}
		_, err = store.DryRun().DeleteTasks(ctx, ids)
		wantErr(t, "DeleteTasks", err, stint.ErrTaskInProgress)
		to := stint.TaskChanges{Priority: new(int16(1))}
		_, err = store.DryRun().ChangeTasks(ctx, ids, to)
		wantErr(t, "ChangeTasks", err, stint.ErrTaskStarted)
		return nil
	})
	wantErr(t, "the transaction", err, nil)
}

// holdAll changes all tasks in a transaction that stays open.
func holdAll(t *testing.T, store *stint.Store, tx pgx.Tx, ids []stint.TaskID) {
	t.Helper()
	within := store.WithTx(tx)
	_, err := within.RetryTasks(t.Context(), ids)
	wantErr(t, "RetryTasks", err, nil)
	_, err = within.AbortTasks(t.Context(), ids, "why")
	wantErr(t, "AbortTasks", err, nil)
}

// Proves G315.
func TestDryRun_LeavesNothingInTheSession(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	ids, _ := everyState(t, store)
	for range 3 { // prepared statements of the first fit the tables of the next
		for _, change := range testverbs.Changes(t.Context(), store.DryRun()) {
			_, _ = change(ids)
		}
	}
	err := pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
		var left int
		err := conn.QueryRow(t.Context(),
			`SELECT count(*) FROM pg_class WHERE relpersistence = 't'`).Scan(&left)
		if left > 0 {
			t.Errorf("%d temporary tables are left", left)
		}
		return err
	})
	wantErr(t, "AcquireFunc", err, nil)
}

// A role that may make no temporary tables is told what it lacks, and makes changes all the same.
func TestDryRun_SaysThatItNeedsTemporaryTables(t *testing.T) {
	t.Parallel()
	roles := newRoles(t)
	insert(t, openStore(t, roles.pool, stint.Options{}), stint.Task{ID: "a", Action: "act"})
	exec(t, roles.pool, "REVOKE TEMPORARY ON DATABASE "+
		pgx.Identifier{roles.pool.Config().ConnConfig.Database}.Sanitize()+" FROM PUBLIC")
	store := roles.store(t, "producer", stint.Options{PollInterval: pollNever})
	_, err := store.DryRun().AbortTasks(t.Context(), []stint.TaskID{"a"}, "")
	wantRefused(t, "a dry run", err)
	if err == nil || !strings.Contains(err.Error(), "GRANT TEMPORARY ON DATABASE") {
		t.Errorf("AbortTasks = %v, without what to do about it", err)
	}
	_, err = store.AbortTasks(t.Context(), []stint.TaskID{"a"}, "")
	wantErr(t, "AbortTasks", err, nil)
}
