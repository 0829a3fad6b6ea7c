package stint_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// pausedAt runs a statement that stops, with its snapshot, in one of its parts, has meanwhile
// happen, and lets the statement go on. What it does is committed.
func pausedAt(t *testing.T, pool *pgxpool.Pool, name, part, args string, meanwhile func()) {
	t.Helper()
	const pause = 4711
	ahead, behind, found := strings.Cut(statements(t)[name], " "+part+" AS MATERIALIZED (\n")
	if !found {
		t.Fatalf("%s has no part %s", name, part)
	}
	text := ahead + " " + part + " AS MATERIALIZED (\n" + strings.Replace(behind, "    SELECT ",
		"    SELECT (SELECT pg_catalog.pg_advisory_xact_lock_shared(4711)::text) AS pause, ", 1)
	holder, err := pool.Acquire(t.Context())
	wantErr(t, "Acquire", err, nil)
	defer holder.Release()
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_lock($1)", pause)
	wantErr(t, "lock", err, nil)
	done := make(chan error, 1)
	go func() {
		done <- pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			for _, statement := range []string{
				statements(t)["set_planner"], "PREPARE paused AS " + text,
				"EXECUTE paused(" + args + ")", "DEALLOCATE paused",
			} {
				if _, err := tx.Exec(t.Context(), statement); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	awaitWaiting(t, pool, 1, done)
	meanwhile()
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_unlock($1)", pause)
	wantErr(t, "unlock", err, nil)
	wantErr(t, name, <-done, nil)
}

// A row of an expired lease that is changed while the lease is taken back stays with its lease.
// Proves R13.
func TestMaintain_LeavesTheLeaseOfWhatIsChangedMeanwhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"))
	owned := ownOne(t, store)
	expireLeases(t, pool)
	pausedAt(t, pool, "reclaim_leases", "span", "100, '-infinity', 1000, false, 3", func() {
		err := store.SetStatus(t.Context(), owned, "meanwhile", 0)
		wantErr(t, "SetStatus", err, nil)
	})
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.leases"); n != 1 {
		t.Errorf("%d leases, want that of the task", n)
	}
	maintain(t, store)
	if again := ownOne(t, store); again.Try != 2 {
		t.Errorf("it is fetched for try %d", again.Try)
	}
}

// A lease that is extended while its actor is given up is one that is passed over.
func TestRegisterActor_CountsWhatIsExtendedMeanwhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"))
	owned := ownOne(t, store)
	exec(t, pool, "INSERT INTO stint.sessions (id, grace, watches, topics) "+
		"VALUES (7, '0', false, '{}')")
	exec(t, pool, "INSERT INTO stint.actors (session, attendant, actor, actions) "+
		"VALUES (7, 7, 'actor', '{act}')")
	exec(t, pool, "UPDATE stint.leases SET session = 7")
	pausedAt(t, pool, "expire_session_leases", "lost", "7, 'actor'", func() {
		kept, err := store.ExtendTasksOwnership(
			t.Context(), "actor", []stint.OwnedTask{owned}, 2*time.Hour)
		if err != nil || !kept[0] {
			t.Errorf("ExtendTasksOwnership = %v, %v", kept, err)
		}
	})
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.actors"); n != 1 {
		t.Error("the actor is given up, though it owns a task")
	}
}

// What is changed while a part of its fetch is extended is not counted as moved.
func TestExtendTasksOwnership_LooksAgainAtWhatIsChangedMeanwhile(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 3)...)
	owned := own(t, store, 3)
	for _, task := range owned { // each has a row
		err := store.SetStatus(t.Context(), task, "begun", 0)
		wantErr(t, "SetStatus", err, nil)
	}
	args := yields[string](t, pool, `SELECT format('%L, %L, %L, ''actor'', ''2 hours'', NULL',
			array_agg(lo), array_agg(hi), array_agg(claim))
		FROM (SELECT * FROM stint.leased ORDER BY lo LIMIT 2) AS leased`)
	pausedAt(t, pool, "extend_leases", "lease", args, func() {
		err := store.SetStatus(t.Context(), owned[0], "meanwhile", 0)
		wantErr(t, "SetStatus", err, nil)
	})
	sizes := yields[string](t, pool, `SELECT string_agg(size || ' of ' || tasks, ', ' ORDER BY part)
		FROM (SELECT leases.part, leases.size, count(*) AS tasks
		      FROM stint.leases JOIN stint.leased USING (claim, part)
		      GROUP BY leases.part, leases.size) AS lease`)
	if sizes != "2 of 2, 1 of 1" {
		t.Errorf("the leases are for %s tasks", sizes)
	}
}

// The deadline of a task that is retried is watched, although its end was to be forgotten.
func TestRetryTasks_WatchesADeadlineThatIsAboutToBeForgotten(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{
		ID: "a", Action: "act", Deadline: time.Now().Add(time.Hour), OnAbort: stint.AbortToo,
	})
	finish(t, store, "a", stint.StatusAborted)
	passDeadlines(t, pool)
	tx := begin(t, pool)
	err := errOf(store.WithTx(tx).RetryTasks(t.Context(), []stint.TaskID{"a"}))
	wantErr(t, "RetryTasks", err, nil)
	maintain(t, store)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	maintain(t, store)
	if got := info(t, store, "a"); got.State != stint.StateAborted {
		t.Errorf("it is %s, though its deadline has passed", got.State)
	}
}

// A task that is returned while another is made to wait for it is passed over, since the return
// cannot see the edge: it would end without a signal, and the other would wait for ever.
func TestReturnTasks_PassesOverWhatSomebodyIsMadeToWaitForMeanwhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"))
	owned := ownOne(t, store)
	insert(t, store, after("breturn_final"), after("breturn_tasks"), after("breturn_large"))
	args := yields[string](t, pool, `SELECT format('array[%s], array[%1$s], array[%s::bigint], ' ||
			'''{0}'', ''{f}'', ''{NULL}'', ''{NULL}'', true', lo, claim)
		FROM stint.leased`)
	for name, args := range map[string]string{
		"return_final": args, "return_tasks": args + ", '{NULL}', true, true, 1, 1",
		"return_large": args + ", '{NULL}', true, true, 1, 1, '{1}', '{1}', 'x'",
	} {
		pausedAt(t, pool, name, "returned", args, func() {
			err := addDependency(t, store, "a", "b"+stint.TaskID(name))
			wantErr(t, "AddDependencies", err, nil)
		})
		if got := info(t, store, "a"); got.State != stint.StateInProgress {
			t.Errorf("it is %s, though another has come to wait for it", got.State)
		}
	}
	complete(t, store, owned)
	for _, id := range []stint.TaskID{"breturn_final", "breturn_tasks", "breturn_large"} {
		if got := info(t, store, id); got.State != stint.StateReady {
			t.Errorf("%s is %s behind it", id, got.State)
		}
	}
}

// Between the look that finds a lease expired on its last try and the end of the task its owner may
// come back: the task goes on then.
func TestMaintain_EndsNothingThatIsDueNoMore(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	extends := func(t *testing.T, store *stint.Store, owned stint.OwnedTask) {
		t.Helper()
		kept, err := store.ExtendTasksOwnership(
			t.Context(), "actor", []stint.OwnedTask{owned}, time.Hour)
		if err != nil || !kept[0] {
			t.Errorf("ExtendTasksOwnership = %v, %v", kept, err)
		}
	}
	releases := func(later time.Duration) func(*testing.T, *stint.Store, stint.OwnedTask) {
		return func(t *testing.T, store *stint.Store, owned stint.OwnedTask) {
			t.Helper()
			returnWith(t, store, owned, stint.Return{
				Code: stint.StatusPending, Release: true, RetryAfter: later,
			})
		}
	}
	for name, try := range map[string]struct {
		before, meanwhile func(*testing.T, *stint.Store, stint.OwnedTask)
		want              stint.State
	}{
		"extended":           {before: extends, want: stint.StateInProgress},
		"extended meanwhile": {meanwhile: extends, want: stint.StateInProgress},
		"released":           {before: releases(0), want: stint.StateReady},
		"released for later": {before: releases(time.Hour), want: stint.StateScheduled},
		"made to wait": {want: stint.StateBlocked, before: func(
			t *testing.T, store *stint.Store, owned stint.OwnedTask,
		) {
			t.Helper()
			releases(0)(t, store, owned)
			wantErr(t, "AddDependencies", addDependency(t, store, "b", owned.ID), nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
			insert(t, store, stint.Task{ID: "a", Action: "act", MaxTries: 1},
				stint.Task{ID: "b", Action: "other"})
			owned := ownOne(t, store)
			expireLeases(t, pool)
			if try.before != nil {
				try.before(t, store, owned)
			}
			args := yields[string](t, pool,
				"SELECT '1, 1, array[' || key || '], 3' FROM stint.tasks WHERE id = 'a'")
			pausedAt(t, pool, "end_due_tasks", "named", args, func() {
				if try.meanwhile != nil {
					try.meanwhile(t, store, owned)
				}
			})
			if got := info(t, store, "a"); got.State != try.want {
				t.Errorf("it is %s, want it %s", got.State, try.want)
			}
		})
	}
}

// An edge that says whether its condition was met moves when the origin goes. Whoever prunes its
// dependent at that moment deletes it all the same.
func TestPrune_DeletesEdgesThatMoveMeanwhile(t *testing.T) {
	t.Parallel()
	const hours = "UPDATE stint.finished SET finished_at = now() - $1 * interval '1 hour' " +
		"WHERE lo = (SELECT key FROM stint.tasks WHERE id = $2)"
	for name, leave := range map[string]func(store *stint.Store) error{
		"prune": func(store *stint.Store) error { return errOf(store.Prune(t.Context())) },
		"delete": func(store *stint.Store) error {
			return errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"a", "b"}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{
				Retention: stint.Retention{Completed: 3 * time.Hour},
			})
			insert(t, store, after("a"), after("b"), whenAny("first", ended("a"), ended("b")))
			completeAll(t, store)
			for id, age := range map[string]int{"a": 4, "b": 4, "first": 2} {
				exec(t, pool, hours, age, id)
			}
			args := "false, '-infinity', 0, '1 hour', 16, 5000, '{}', '1 hour', '1 hour', '0'"
			pausedAt(t, pool, "prune_finished", "judged", args, func() {
				wantErr(t, name, leave(store), nil)
			})
			wantNoEdges(t, pool)
			if left := statesOf(t, store); len(left) > 0 {
				t.Errorf("the tasks %v are still there", left)
			}
		})
	}
}

// The same of a dependent that ends and does not stay.
func TestReturnTasks_DeletesEdgesThatMoveMeanwhile(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"), after("b"), whenAny("first", ended("a"), ended("b")))
	complete(t, store, own(t, store, 2)...)
	dropping := openStore(t, pool, stint.Options{
		Maintenance: stint.MaintainNever,
		Retention:   stint.Retention{Completed: stint.KeepNone},
	})
	task := ownOne(t, dropping)
	done := make(chan error, 1)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := store.WithTx(tx).DeleteTasks(t.Context(), []stint.TaskID{"a", "b"})
		wantErr(t, "DeleteTasks", err, nil)
		go func() {
			_, err := dropping.ReturnTasks(t.Context(), completed([]stint.OwnedTask{task}))
			done <- err
		}()
		awaitWaiting(t, pool, 1, done)
		return nil
	})
	wantErr(t, "commit", err, nil)
	wantErr(t, "ReturnTasks", <-done, nil)
	wantNoEdges(t, pool)
}

// Prune waits for nobody who holds the definition of a task: it passes over the task. So a
// condition that is decided by the task in a transaction that is still open stays decided.
// Proves R18, R23.
func TestPrune_PassesOverDefinitionsThatAreHeld(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{
		Retention: stint.Retention{Completed: time.Hour},
	})
	insert(t, store, after("judged"), after("deleted"), after("old"))
	completeAll(t, store)
	exec(t, pool, "UPDATE stint.finished SET finished_at = finished_at - interval '2 hours'")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		inside := store.WithTx(tx)
		insert(t, inside, when("b", ended("judged")))
		const hold = "SELECT FROM stint.tasks WHERE id = 'deleted' FOR UPDATE"
		_, err := tx.Exec(t.Context(), hold) // as does withdraw_tasks
		wantErr(t, "hold", err, nil)
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		if n, err := store.Prune(ctx); n != 1 || err != nil {
			t.Errorf("Prune = %d, %v, want the old task", n, err)
		}
		_, err = inside.DeleteTasks(t.Context(), []stint.TaskID{"deleted"})
		return err
	})
	wantErr(t, "commit", err, nil)
	wantErr(t, "AbortTasks", errOf(store.AbortTasks(t.Context(), []stint.TaskID{"b"}, "")), nil)
	wantErr(t, "Prune", errOf(store.Prune(t.Context())), nil)
	wantErr(t, "RetryTasks", errOf(store.RetryTasks(t.Context(), []stint.TaskID{"b"})), nil)
	if got := info(t, store, "b").State; got != stint.StateReady {
		t.Errorf("the task that is tried again is %v, want ready", got)
	}
}

func wantNoEdges(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if left := yields[int](t, pool, "SELECT count(*)::integer FROM stint.edges"); left != 0 {
		t.Errorf("there are still %d edges of tasks that are gone", left)
	}
}
