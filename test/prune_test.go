package stint_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// pruning is a store that keeps completed tasks for an hour, and prunes when it is told to.
var pruning = stint.Options{
	Maintenance: stint.MaintainNever,
	Retention:   stint.Retention{Completed: time.Hour, Aborted: stint.KeepForever},
}

// ageFinished makes what has finished two hours older.
func ageFinished(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	exec(tb, pool, "UPDATE stint.finished SET finished_at = finished_at - interval '2 hours'")
}

// completeEach owns n tasks and completes each with a status of its own, so that each is alone in
// its row.
func completeEach(tb testing.TB, store *stint.Store, n int) {
	tb.Helper()
	returns := completed(own(tb, store, n))
	for i := range returns {
		returns[i].Status = fmt.Sprint("done ", i)
	}
	verdicts, err := store.ReturnTasks(tb.Context(), returns)
	if err != nil || len(verdicts) != n || slices.ContainsFunc(verdicts, isError) {
		tb.Fatalf("ReturnTasks of %d = %v, %v", n, verdicts, err)
	}
}

func isError(err error) bool { return err != nil }

// chord inserts n members, a join of them, and the task behind it.
func chord(tb testing.TB, store *stint.Store, prefix string, n int) {
	tb.Helper()
	tasks := numbered(prefix+"/", n)
	joined := stint.Task{ID: stint.TaskID(prefix + "/join"), Action: stint.Spontaneous}
	for _, member := range tasks {
		joined.After = append(joined.After, member.ID)
	}
	insert(tb, store, append(tasks, joined,
		after(stint.TaskID(prefix+"/last"), joined.ID))...)
}

func wantPruned(tb testing.TB, store *stint.Store, want int64) {
	tb.Helper()
	if got, err := store.Prune(tb.Context()); got != want || err != nil {
		tb.Errorf("Prune = %d, %v, want %d", got, err, want)
	}
}

// What was kept for a task goes with it, in the same call, however many links behind.
// Proves G54, R18.
func TestPrune_TakesANetworkWithItsLastTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, pruning)
	chord(t, store, "apart", 300)
	completeEach(t, store, 300)
	chord(t, store, "alike", 300)
	returnAlike := func(n int) {
		t.Helper()
		if _, err := store.ReturnTasks(t.Context(), completed(own(t, store, n))); err != nil {
			t.Fatal(err)
		}
	}
	returnAlike(301) // with the last task of the first
	ageFinished(t, pool)
	wantPruned(t, store, 302)
	wantState(t, store, stint.StateCompleted, "alike/join")
	returnAlike(1)
	ageFinished(t, pool)
	wantPruned(t, store, 302)
	if left := yields[int](t, pool, `SELECT (SELECT count(*) FROM stint.tasks) +
		(SELECT count(*) FROM stint.edges) + (SELECT count(*) FROM stint.finished) +
		(SELECT count(*) FROM stint.joined)`); left > 0 {
		t.Errorf("%d rows are left", left)
	}
}

// What is kept since somebody may ask for it is looked at once, not in every pass, and pruned with
// the last task that might have asked.
// Proves G54.
func TestPrune_LooksOnceAtWhatItSpares(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const n = 6000
	traffic := testdb.NewTraffic(t)
	store := openStore(t, traffic.Pool, pruning)
	prune := pruneSome(store)
	looks := func() int64 {
		t.Helper()
		since := traffic.Measure(t)
		wantErr(t, "prune", prune(t.Context()), nil)
		roundTrips, _ := since()
		return roundTrips
	}
	looks() // prepares its statements
	idle := looks()
	chord(t, store, "kept", n)
	completeEach(t, store, n)
	ageFinished(t, traffic.Pool)
	if first := looks(); first <= idle+10 {
		t.Errorf("the first pass took %d round trips, an idle one %d: it did not look at %d spans",
			first, idle, n)
	}
	// The store notes in the background how many tasks it fetched, perhaps during one of these.
	if later := min(looks(), looks(), looks()); later > idle {
		t.Errorf("later passes took %d round trips at least, an idle one %d", later, idle)
	}
	completeEach(t, store, 1)
	ageFinished(t, traffic.Pool)
	looks()
	if left := yields[int](t, traffic.Pool, "SELECT count(*) FROM stint.tasks"); left > 0 {
		t.Errorf("%d tasks are left", left)
	}
}

// While somebody opens tasks again, a store that maintains waits, and goes on then.
// Proves G54.
func TestPrune_GoesOnBehindARetry(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, pruning)
	insert(t, store, after("opened"), after("b"), after("c"))
	completeEach(t, store, 3)
	ageFinished(t, pool)
	tx := begin(t, pool)
	retry(t, store.WithTx(tx), "opened")
	prune := pruneSome(store)
	pruned := start(func() (struct{}, error) { return struct{}{}, prune(t.Context()) })
	wantPruned(t, store, 0)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	if _, err := ends(t, "prune", pruned); err != nil {
		t.Errorf("prune = %v", err)
	}
	infos, err := listTasks(t.Context(), store, stint.Filter{})
	if err != nil || len(infos) != 1 || infos[0].State != stint.StateReady {
		t.Errorf("%v are left, %v, want the one that was opened again", infos, err)
	}
}

// Pruners that work at the same time prune each task once, and none fails.
// Proves G54.
func TestPrune_MayRunManyTimesAtOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, pruning)
	const chords, members, pruners = 40, 30, 6
	for i := range chords {
		chord(t, store, fmt.Sprint("chord ", i), members)
	}
	completeEach(t, store, chords*members)
	completeEach(t, store, chords)
	ageFinished(t, pool)
	var calls []<-chan outcome[int64]
	for range pruners {
		calls = append(calls, start(func() (int64, error) { return store.Prune(t.Context()) }))
	}
	var pruned int64
	for _, call := range calls {
		n, err := ends(t, "Prune", call)
		if err != nil {
			t.Errorf("Prune = %v", err)
		}
		pruned += n
	}
	rest, err := store.Prune(t.Context())
	if want := int64(chords * (members + 2)); pruned+rest != want || err != nil {
		t.Errorf("%d tasks were pruned by many and %d behind them, %v, want %d in all",
			pruned, rest, err, want)
	}
}

// Stats tells how far pruning is behind: nothing before anybody has pruned, little when all that
// could be pruned was, and more with the time since; and stops telling when nobody prunes any more
// since everything is to be kept.
// Proves G55.
func TestStats_TellsHowFarPruningIsBehind(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, pruning)
	behind := func() time.Duration {
		t.Helper()
		stats, err := store.Stats(t.Context())
		wantErr(t, "Stats", err, nil)
		return stats.PruningBehind
	}
	if got := behind(); got != 0 {
		t.Errorf("behind by %v before anybody has pruned", got)
	}
	wantPruned(t, store, 0)
	tx := begin(t, pool)
	maintain(t, store.WithTx(tx))
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	if got := behind(); got != 0 {
		t.Errorf("behind by %v after Prune, whose retention may be for once, and Maintain in "+
			"a transaction, which would hold others up", got)
	}
	maintain(t, store)
	if got := behind(); got <= 0 || got > time.Hour {
		t.Errorf("behind by %v right after pruning", got)
	}
	later := func(by string) {
		t.Helper()
		exec(t, pool, "UPDATE stint.pruning SET told_at = told_at - $1::interval", by)
	}
	later("2 hours")
	if got := behind(); got < 2*time.Hour || got > 3*time.Hour {
		t.Errorf("behind by %v when nobody has pruned for two hours", got)
	}
	later("-3 hours")
	if got := behind(); got != 0 {
		t.Errorf("behind by %v when the clock was set back", got)
	}
	later("3 hours")
	keeping := openStore(t, pool, stint.Options{
		Maintenance: stint.MaintainNever,
		Retention:   stint.Retention{Completed: stint.KeepForever, Aborted: stint.KeepForever},
	})
	maintain(t, keeping)
	if got := behind(); got < 2*time.Hour {
		t.Errorf("behind by %v, but nobody has pruned", got)
	}
	later("1 day")
	maintain(t, keeping)
	if got := behind(); got != 0 {
		t.Errorf("behind by %v where all is kept", got)
	}
}

// A pass that takes long tells how far it is, and what it only spares does not count.
// Proves G55.
func TestPrune_TellsHowFarItIsMeanwhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, pruning)
	const n = 20 // more than the first transaction takes
	insert(t, store, numbered("t", n)...)
	completeEach(t, store, n)
	exec(t, pool, "UPDATE stint.finished SET finished_at = finished_at - interval '30 hours'")
	exec(t, pool, "INSERT INTO stint.pruning (told_at, behind) VALUES (statement_timestamp(), '0')")
	exec(t, pool, `CREATE TABLE public.told (behind interval);
		CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN INSERT INTO public.told VALUES (new.behind); RETURN NULL; END';
		CREATE TRIGGER tell AFTER UPDATE OF behind ON stint.pruning
			FOR EACH ROW EXECUTE FUNCTION tell();
		CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN PERFORM pg_sleep(1.1); RETURN NULL; END';
		CREATE TRIGGER linger AFTER DELETE ON stint.tasks EXECUTE FUNCTION linger()`)
	maintain(t, store)
	got := yields[string](t, pool, `SELECT string_agg(
		(extract(epoch FROM behind) / 3600)::integer::text, ' ' ORDER BY behind DESC) FROM told`)
	if got != "29 0" {
		t.Errorf("told to be behind by %s hours, want 29 and then 0", got)
	}
}

// Tables whose rows come and go are vacuumed without a rest, or they grow for ever at full load.
// Proves G54.
func TestMigrate_LetsVacuumFollow(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	got := yields[[]string](t, pool, `SELECT array_agg(relname::text ORDER BY relname)
		FROM pg_class
		WHERE relnamespace = 'stint'::regnamespace AND relkind = 'r'
		  AND coalesce(NOT reloptions @> '{autovacuum_vacuum_cost_delay=0}', true)`)
	small := []string{
		"action_stats", "actors", "dependency_lock", "limited_keys", "origin", "pruning",
		"sessions",
		"stint_schema_version", "supported", "taskstore_reserved",
	}
	if !slices.Equal(got, small) {
		t.Errorf("the default settings of autovacuum are those of %q, want %q only", got, small)
	}
}

// What somebody might have asked for goes once that one has completed, though it stays itself since
// it posts its result.
// Proves G54, R18.
func TestPrune_TakesWhatACompletedTaskWaitedFor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{
		Maintenance: stint.MaintainNever,
		Retention:   stint.Retention{Completed: time.Minute, Aborted: time.Minute},
	})
	prune := pruneSome(store)
	later := func(left ...stint.TaskID) {
		t.Helper()
		exec(t, pool, "UPDATE stint.finished SET finished_at = finished_at - interval '10 minutes'")
		wantErr(t, "prune", prune(t.Context()), nil)
		infos, err := listTasks(t.Context(), store, stint.Filter{})
		var got []stint.TaskID
		for _, info := range infos {
			got = append(got, info.ID)
		}
		if !slices.Equal(got, left) || err != nil {
			t.Errorf("%q are left, %v, want %q", got, err, left)
		}
	}
	last := after("z", "a", "b")
	last.PostResult = true
	insert(t, store, after("a"), after("b"), last)
	completeEach(t, store, 2)
	later("a", "b", "z")
	completeEach(t, store, 1)
	later("z")
	for range 4 {
		later("z")
	}
	later()
}

// Tasks that finish while a pass runs are left to the next one: otherwise it would never end where
// tasks finish all the time, nor come to the aborted ones, which it looks at last.
// Proves G54.
func TestPrune_EndsThoughTasksFinishMeanwhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{
		Maintenance: stint.MaintainNever,
		Retention:   stint.Retention{Completed: stint.KeepNone, Aborted: stint.KeepNone},
	})
	insert(t, store, after("t"))
	const most = 1000 // so that the test ends in any case
	exec(t, pool, fmt.Sprintf(`INSERT INTO stint.finished (lo, hi, tries, cause)
			SELECT tasks.key, tasks.key, 1, 0 FROM stint.tasks;
		DELETE FROM stint.ready;
		CREATE SEQUENCE public.ended MAXVALUE %d;
		CREATE FUNCTION public.go_on() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
			INSERT INTO stint.tasks (key, id, action, priority, max_tries, on_abort, post_result)
			VALUES (old.lo + 1024, 't' || nextval('public.ended'), 'act', 0, 0, 0, false);
			INSERT INTO stint.finished (lo, hi, tries, cause, finished_at)
			VALUES (old.lo + 1024, old.lo + 1024, 1, 0, clock_timestamp());
			RETURN NULL;
		EXCEPTION WHEN sequence_generator_limit_exceeded THEN
			RETURN NULL;
		END$$;
		CREATE TRIGGER go_on AFTER DELETE ON stint.finished FOR EACH ROW
			EXECUTE FUNCTION public.go_on()`, most))
	pruned, err := store.Prune(t.Context())
	if pruned == 0 || pruned > most/2 || err != nil {
		t.Errorf("Prune = %d, %v, want an end", pruned, err)
	}
}

// Pruners come upon the same edges, one from the predecessor, another from the dependent, and do
// not deadlock over them: each deadlock would take a second.
// Proves G54.
func TestPrune_ManyAtOnceDoNotDeadlockOverEdges(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, pruning)
	const layers, width, fanIn, pruners = 20, 60, 20, 6
	id := func(layer, place int) stint.TaskID {
		return stint.TaskID(fmt.Sprint(layer, "/", place%width))
	}
	var tasks []stint.Task
	for layer := range layers {
		for place := range width {
			task := after(id(layer, place))
			for k := range fanIn * min(layer, 1) {
				task.After = append(task.After, id(layer-1, place*7+k))
			}
			tasks = append(tasks, task)
		}
	}
	insert(t, store, tasks...)
	for range layers {
		completeEach(t, store, width)
	}
	exec(t, pool, `UPDATE stint.finished
		SET finished_at = finished_at - interval '2 hours' - random() * interval '1 hour'`)
	const name = "prunes with others"
	others := poolOf(t, pool, func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["application_name"] = name
	})
	pruner := openStore(t, others, pruning)
	var calls []<-chan outcome[int64]
	for range pruners {
		calls = append(calls, start(func() (int64, error) { return pruner.Prune(t.Context()) }))
	}
	for _, call := range calls {
		if _, err := ends(t, "Prune", call); err != nil {
			t.Errorf("Prune = %v", err)
		}
	}
	others.Close() // a backend that ends has told what it counted
	eventually(t, time.Minute, "the pruners are gone", func() bool {
		return !yields[bool](t, pool, `SELECT EXISTS (
			SELECT FROM pg_stat_activity WHERE application_name = $1)`, name)
	})
	n := yields[int](t, pool, `SELECT deadlocks FROM pg_stat_database
		WHERE datname = current_database()`)
	if n > 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// A transaction that does not see who asks, since its snapshot is older, prunes nothing.
// Proves G74, R18.
func TestWithTx_AStricterTransactionPrunesNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, level := range strictLevels {
		store, pool := newStoreAndPool(t, pruning)
		insert(t, store, after("asked for"))
		completeEach(t, store, 1)
		ageFinished(t, pool)
		tx := beginStrict(t, pool, level)
		insert(t, store, after("asks", "asked for"))
		wantPruned(t, store.WithTx(tx), 0)
		wantErr(t, "Commit", tx.Commit(t.Context()), nil)
		inputs, err := store.Inputs(t.Context(), ownOne(t, store))
		if err != nil || len(inputs) != 1 {
			t.Errorf("%s: Inputs = %v, %v, want the result that was there", level, inputs, err)
		}
	}
}

// Who waits for a task that is replaced learns of it, however soon such tasks are pruned.
// Proves R5, R18.
func TestPrune_LeavesAReplacedTaskToThoseWhoWait(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	h := newHeardStore(t, stint.Options{
		Retention: stint.Retention{Completed: stint.KeepNone, Aborted: time.Microsecond},
	})
	insert(t, h.Store, waited())
	waiting := h.waitFor(t, "w")
	tx := begin(t, h.pool)
	within := h.WithTx(tx)
	replaces(t, within)
	n, err := within.Prune(t.Context())
	if err != nil || n != 0 {
		t.Errorf("Prune = %d, %v, want 0: somebody waits", n, err)
	}
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	ended, err := ends(t, "WaitForTask", waiting)
	if err != nil || ended.AbortCause != stint.CauseReplaced {
		t.Errorf("WaitForTask = %s %s, %v", ended.State, ended.AbortCause, err)
	}
	exec(t, h.pool, "UPDATE stint.finished SET finished_at = finished_at - interval '2 hours'")
	if n, err = h.Prune(t.Context()); err != nil || n != 1 {
		t.Errorf("Prune = %d, %v after two hours, want 1", n, err)
	}
}
