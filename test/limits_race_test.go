package stint_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// pausedBehind runs a statement in a transaction that stops, with its snapshot, where it selects
// what the text says, and has meanwhile happen. What it does is committed. Other statements may
// come first.
func pausedBehind(
	t *testing.T, pool *pgxpool.Pool, name, selects, args string, meanwhile func(),
	first ...string,
) {
	t.Helper()
	text := statements(t)[name]
	if strings.Count(text, selects) != 1 {
		t.Fatalf("%s does not select %q once", name, selects)
	}
	const pause = " pg_catalog.pg_advisory_xact_lock_shared(4711)::text AS pause, "
	text = strings.Replace(text, selects, pause+selects, 1)
	holder := begin(t, pool)
	_, err := holder.Exec(t.Context(), "SELECT pg_advisory_xact_lock(4711)")
	wantErr(t, "lock", err, nil)
	done := make(chan error, 1)
	go func() {
		done <- pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			for _, statement := range append(first,
				statements(t)["set_planner"], "PREPARE paused AS "+text,
				"EXECUTE paused("+args+")", "DEALLOCATE paused",
			) {
				_, err := tx.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol)
				if err != nil {
					return err
				}
			}
			return nil
		})
	}()
	awaitWaiting(t, pool, 1, done)
	meanwhile()
	wantErr(t, "Rollback", holder.Rollback(t.Context()), nil)
	wantErr(t, name, <-done, nil)
}

// mixed are tasks with the keys a, a, b, b, and again.
func mixed(n int) []stint.Task {
	tasks := ofKey("t", n)
	for i := range tasks {
		tasks[i].Key = []string{"a", "a", "b", "b"}[i%4]
	}
	return tasks
}

// wantOnce checks that each task is in one place.
func wantOnce(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	const twice = `SELECT count(*) FROM (
		SELECT key FROM (
			SELECT lo, hi FROM stint.ready UNION ALL SELECT lo, hi FROM stint.leased
		) AS spans, generate_series(lo, hi) AS key GROUP BY key HAVING count(*) > 1
	) AS twice`
	if n := yields[int](t, pool, twice); n > 0 {
		t.Errorf("%d tasks are in two places", n)
	}
}

const ownAll = "7, 'paused', 10, '{act}', '1 h', NULL, '{0}', '{9223372036854775807}', " +
	"false, 1, 0"

// A fetch counts what another one has fetched since its snapshot.
// Proves L1, L3.
func TestOwnTasks_CountsWhatWasHandedOutMeanwhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, used := range map[string]bool{
		"concurrency per key": false, "concurrency per key, used": true, "rate per key": false,
	} {
		store, pool := newLimitedStore(t, ofOne()[strings.TrimSuffix(name, ", used")])
		if used {
			insert(t, store, withKey("a", "before")...)
			complete(t, store, own(t, store, 1)...)
		}
		insert(t, store, ofKey("a", 4)...)
		pausedBehind(t, pool, "own_limited", "queue.*, limits.action IS NOT", ownAll, func() {
			tx := begin(t, pool) // what is locked is not parked
			_, err := tx.Exec(t.Context(), `SELECT FROM stint.ready
				WHERE lo > (SELECT min(lo) FROM stint.ready) FOR UPDATE`)
			wantErr(t, "lock", err, nil)
			if got := own(t, store, 1); len(got) != 1 {
				t.Errorf("%s: %q were fetched meanwhile, want one", name, idsOf(got))
			}
			wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
		})
		if n := yields[int](t, pool, tasksIn("leased")); n != 1 {
			t.Errorf("%s: %d tasks are in progress, want 1", name, n)
		}
	}
}

// A span from which a task is withdrawn while a fetch is about to lock it is parked as what is
// left of it.
func TestOwnTasks_ParksASpanThatIsCutMeanwhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{ConcurrencyPerKey: 1})
	insert(t, store, ofKey("a", 1)...)
	own(t, store, 1)
	insert(t, store, mixed(12)...)
	pausedBehind(t, pool, "own_limited", "queue.*, limits.action IS NOT", ownAll, func() {
		_, err := store.AbortTasks(t.Context(), []stint.TaskID{"t/00009"}, "")
		wantErr(t, "AbortTasks", err, nil)
	})
	wantOnce(t, pool)
}

// Tasks that are put back into the queue and parked again, while a return is about to bring one of
// them back, are brought back all the same, and none is doubled.
func TestReturn_BringsBackWhatIsParkedAnewMeanwhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, n := range []int{10, 3000} { // rows of one task, and spans
		store, pool := newLimitedStore(t, stint.Limits{ConcurrencyPerKey: 1})
		insert(t, store, ofKey("a", n)...)
		owned := own(t, store, 1)
		own(t, store, 1) // all others are parked now
		key := yields[string](t, pool, "SELECT min(lo)::text FROM stint.leased")
		args := "'{" + key + "}', '{" + key + "}', NULL, '{}', '{}', '{}', true, NULL"
		pausedBehind(t, pool, "unpark_within_limits",
			"leased.lo, leased.hi, leased.limited_action\n", args, func() {
				setLimits(t, store, stint.Limits{ConcurrencyPerKey: 1}) // puts them back
				wantFetch(t, store, 10)
			})
		wantOnce(t, pool)
		exec(t, pool, "UPDATE stint.leased SET limited_action = NULL") // no more room is made
		complete(t, store, owned...)
		if got := own(t, store, 10); len(got) != 1 {
			t.Errorf("of %d tasks, %q are fetched, want 1", n, idsOf(got))
		}
	}
}

// Fetches that have begun while an action is paused count each other when it is resumed.
func TestResume_LetsNoTwoFetchesCountAtOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newLimitedStore(t, stint.Limits{Concurrency: 1})
	insert(t, store, ofKey("a", 3)...)
	own(t, openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever}), 1)
	exec(t, pool, "UPDATE stint.leases SET deadline = 'infinity'")
	setLimits(t, store, stint.Limits{Concurrency: 2})
	wantErr(t, "Pause", store.Pause(t.Context(), "act"), nil)
	tx := begin(t, pool)
	run(t, tx, "lock_limits('{act}')")
	done := make(chan error, 1)
	go func() { done <- store.Resume(t.Context(), "act") }()
	awaitWaiting(t, pool, 1, done)
	run(t, tx, "own_limited("+ownAll+")")
	second := make(chan error, 1)
	go func() {
		second <- errOf(store.OwnTasks(t.Context(), "second", 10, []string{"act"}, stint.NoExpiry))
	}()
	awaitWaiting(t, pool, 1, second)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	wantErr(t, "Resume", <-done, nil)
	wantErr(t, "OwnTasks", <-second, nil)
	own(t, store, 10)
	if n := yields[int](t, pool, "SELECT count(*) FROM stint.leased"); n != 2 {
		t.Errorf("%d tasks are in progress, want 2", n)
	}
}
