package stint_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// aMinuteLater makes what has been noted, and what has ended, a minute older.
func aMinuteLater(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	// By way of years ago, since no two rows may have the same minute meanwhile.
	exec(t, pool, `UPDATE stint.minutes SET minute = minute - interval '9999 days',
		since = since - interval '1 min', until = until - interval '1 min'`)
	exec(t, pool, `UPDATE stint.minutes SET minute = minute + interval '9999 days'
		- interval '1 min'`)
}

// endedBefore makes the tasks that have ended since the last minute have ended seconds ago, so that
// they are counted, and have been fetched two seconds earlier still.
func endedBefore(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	exec(t, pool, `UPDATE stint.finished SET finished_at = finished_at - interval '10 s',
			owned_at = owned_at - interval '12 s'
		WHERE finished_at > statement_timestamp() - interval '10 s'`)
}

// triesNoted waits until the fetches are counted.
func triesNoted(t *testing.T, pool *pgxpool.Pool, tries int64) {
	t.Helper()
	eventually(t, soon, "the fetches are counted", func() bool {
		return yields[int64](t, pool,
			"SELECT coalesce(sum(tries), 0)::bigint FROM stint.action_stats") == tries
	})
}

// lastMinute returns the last of some minutes.
func lastMinute(t *testing.T, store *stint.Store, action string, want int) stint.Minute {
	t.Helper()
	minutes, err := store.Minutes(t.Context(), action)
	wantErr(t, "Minutes", err, nil)
	if len(minutes) != want {
		t.Fatalf("%d minutes are noted of %q, want %d", len(minutes), action, want)
	}
	return minutes[want-1]
}

// A minute says what the tables say: what was fetched, has ended and failed since the one before,
// of each action and of all together.
// Proves G334.
func TestMinutes_SayWhatTheTablesSay(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	ctx := t.Context()
	insert(t, store, numbered("early", 3)...)
	complete(t, store, own(t, store, 1)...)
	triesNoted(t, pool, 1)
	maintain(t, store)
	if first := lastMinute(t, store, "", 1); first.Tries != -1 || first.Retries != -1 ||
		first.Ready != 2 || first.Until.Sub(first.Since) != time.Minute {
		t.Errorf("the first minute is %+v", first)
	}
	aMinuteLater(t, pool)
	exec(t, pool, "UPDATE stint.finished SET finished_at = finished_at - interval '2 min'")

	insert(t, store, numbered("late", 6)...)
	insert(t, store, stint.Task{ID: "cancelled", Action: "other"},
		stint.Task{ID: "outside", Action: stint.External})
	owned := own(t, store, 5)
	complete(t, store, owned[:2]...)
	returnWith(t, store, owned[2], stint.Return{Code: stint.StatusAborted})
	returnWith(t, store, owned[3], stint.Return{Code: stint.StatusPending})
	again := own(t, store, 4) // all, the one that came back among them
	insert(t, store, numbered("waiting", 2)...)
	_, err := store.AbortTasks(ctx, []stint.TaskID{"cancelled"}, "")
	wantErr(t, "AbortTasks", err, nil)
	exec(t, pool, "UPDATE stint.tasks SET inserted_at = inserted_at - interval '1 h'")
	endedBefore(t, pool)
	triesNoted(t, pool, int64(1+len(owned)+len(again)))
	maintain(t, store)
	maintain(t, store) // the minute is noted already, or it is another one

	minutes, err := store.Minutes(ctx, "act")
	wantErr(t, "Minutes", err, nil)
	all, err := store.Minutes(ctx, "")
	wantErr(t, "Minutes", err, nil)
	if len(minutes) < 2 || len(all) != len(minutes) {
		t.Fatalf("there are %d minutes, of all actions %d", len(minutes), len(all))
	}
	for what, m := range map[string]stint.Minute{"act": minutes[1], "all": all[1]} {
		if m.Tries != int64(len(owned)+len(again)) || m.Retries != 1 || m.Completed != 2 ||
			m.Failed != 1 || m.Ready != 2 || m.Estimated {
			t.Errorf("%s: %+v", what, m)
		}
		if m.OldestReady < time.Hour || m.Median < time.Hour-time.Minute || m.P95 < m.Median {
			t.Errorf("%s: oldest %v, median %v, p95 %v", what, m.OldestReady, m.Median, m.P95)
		}
		if m.WaitMedian < time.Hour-time.Minute || m.WaitP95 < m.WaitMedian ||
			m.RunMedian < 2*time.Second || m.RunP95 < m.RunMedian ||
			m.WaitMedian+m.RunMedian > m.P95+time.Second {
			t.Errorf("%s: waited %v and %v, ran %v and %v", what, m.WaitMedian, m.WaitP95,
				m.RunMedian, m.RunP95)
		}
		if !m.Since.Equal(all[0].Until) {
			t.Errorf("%s: it begins at %v, the one before ended at %v", what, m.Since, all[0].Until)
		}
	}
	if outside := lastMinute(t, store, stint.External, len(minutes)-1); outside.Ready != 1 {
		t.Errorf("of external tasks: %+v", outside)
	}
	if none, err := store.Minutes(ctx, "none"); len(none) > 0 || err != nil {
		t.Errorf("of an action without tasks: %+v, %v", none, err)
	}
	wantErr(t, "Minutes", errOf(store.Minutes(ctx, strings.Repeat("x", 256))),
		stint.ErrInvalidArgument)
}

// Of stores that maintain at once, one notes the minute.
// Proves G334.
func TestMinutes_AreNotedOnce(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, stint.Task{ID: "a", Action: "act"}, stint.Task{ID: "b", Action: "other"})
	var all calls
	for range 4 {
		other := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
		all.start(func() error { return other.Maintain(t.Context()) })
	}
	for range 4 {
		wantErr(t, "Maintain", <-all.done, nil)
	}
	if writers := yields[int](t, pool, `SELECT max(writers) FROM (
			SELECT count(DISTINCT until) AS writers FROM stint.minutes GROUP BY minute
		) AS of`); writers != 1 {
		t.Errorf("%d stores have noted a minute", writers)
	}
	if rows := yields[int](t, pool, `SELECT min(rows) FROM (
			SELECT count(*) AS rows FROM stint.minutes GROUP BY minute
		) AS of`); rows != 3 {
		t.Errorf("a minute has %d rows, want 3", rows)
	}
}

// However many actions there are, a minute has a hundred and one rows; that of all counts all.
// Proves G334.
func TestMinutes_AreBounded(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	var tasks []stint.Task
	for i := range 150 {
		action := fmt.Sprint("action", i)
		tasks = append(tasks, stint.Task{ID: stint.TaskID(action), Action: action})
		if i == 149 {
			tasks = append(tasks, stint.Task{ID: "second", Action: action})
		}
	}
	insert(t, store, tasks...)
	maintain(t, store)
	minutes, err := store.Minutes(t.Context(), "")
	wantErr(t, "Minutes", err, nil)
	rows := yields[int](t, pool, "SELECT count(*) FROM stint.minutes")
	if rows != 101*len(minutes) || minutes[0].Ready != 151 {
		t.Errorf("%d rows, the first minute of all is %+v", rows, minutes)
	}
	if busiest := lastMinute(t, store, "action149", len(minutes)); busiest.Ready != 2 {
		t.Errorf("the busiest action has %+v", busiest)
	}
}

// Where more has ended than is counted, the rest is estimated, and the minute says so.
// Proves G334.
func TestMinutes_EstimateWhatIsMuch(t *testing.T) {
	t.Parallel()
	_, pool := newStoreAndPool(t, stint.Options{})
	exec(t, pool, `INSERT INTO stint.tasks (key, id, action, priority, max_tries, on_abort,
			post_result, inserted_at)
		SELECT k, 'task' || k, CASE WHEN k % 4 = 0 THEN 'other' ELSE 'act' END, 0, 3, 0, false,
		       statement_timestamp() - interval '1 h'
		FROM generate_series(1, 6000) k`)
	exec(t, pool, `INSERT INTO stint.finished (lo, hi, tries, cause, finished_at)
		SELECT k, k, 1, 0, statement_timestamp() - interval '5 s' - k * interval '10 ms'
		FROM generate_series(1, 6000) k`)
	_, err := pool.Exec(t.Context(), statements(t)["note_minute"], []string{""}, []int64{0},
		[]*time.Duration{nil}, 2000, 500, 100, 1000)
	wantErr(t, "note_minute", err, nil)
	for action, want := range map[string]int64{"": 6000, "act": 4500, "other": 1500} {
		var tasks int64
		var estimated bool
		err := pool.QueryRow(t.Context(), `SELECT completed, estimated FROM stint.minutes
			WHERE action = $1`, action).Scan(&tasks, &estimated)
		wantErr(t, "the minute", err, nil)
		if tasks < want*3/4 || tasks > want*5/4 || !estimated {
			t.Errorf("%d tasks of %q have completed, want about %d; estimated: %t", tasks, action,
				want, estimated)
		}
	}
}

// A day later nothing is left of a minute, nor of one that a clock has noted that was ahead.
// Proves G334.
func TestMinutes_AreGoneAfterADay(t *testing.T) {
	t.Parallel()
	for _, age := range []string{"1 day 2 min", "-1 year"} {
		t.Run(age, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{})
			insert(t, store, stint.Task{ID: "a", Action: "act"})
			maintain(t, store)
			exec(t, pool, `UPDATE stint.minutes SET minute = minute - $1::interval,
				since = since - $1::interval, until = until - $1::interval`, age)
			if minutes, err := store.Minutes(t.Context(), ""); len(minutes) > 0 || err != nil {
				t.Errorf("Minutes = %+v, %v", minutes, err)
			}
			wantErr(t, "Prune", errOf(store.Prune(t.Context())), nil)
			if rows := yields[int](t, pool, "SELECT count(*) FROM stint.minutes"); rows > 0 {
				t.Errorf("%d rows are left", rows)
			}
			maintain(t, store)
			if m := lastMinute(t, store, "", 1); m.Tries != -1 || m.Ready != 1 {
				t.Errorf("the next minute is %+v", m)
			}
		})
	}
}

// A store that notes no minutes sends no statement for them, and writes nothing.
// Proves G334.
func TestMinutes_CostNothingWhereTheyAreNotWanted(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	spied, spy := spyOn(t, pool, 3)
	without := openStore(t, spied, stint.Options{
		Maintenance: stint.MaintainNever, WithoutMinutes: true,
	})
	insert(t, without, stint.Task{ID: "a", Action: "act"})
	maintain(t, without)
	for _, name := range []string{"minute_due", "note_minute", "count_ready"} {
		if n := spy.count(name); n > 0 {
			t.Errorf("%s is sent %d times", name, n)
		}
	}
	if rows := yields[int](t, pool, "SELECT count(*) FROM stint.minutes"); rows > 0 {
		t.Errorf("%d rows are noted", rows)
	}
	checkStore(t, pool)
}

// In the caller's transaction no minute is noted: its row would keep others waiting.
// Proves G334.
func TestMinutes_AreNotNotedInTheCallersTransaction(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{Maintenance: stint.MaintainNever})
	tx := begin(t, pool)
	wantErr(t, "Maintain", store.WithTx(tx).Maintain(t.Context()), nil)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	if rows := yields[int](t, pool, "SELECT count(*) FROM stint.minutes"); rows > 0 {
		t.Errorf("%d rows are noted", rows)
	}
	maintain(t, store)
	if rows := yields[int](t, pool, "SELECT count(*) FROM stint.minutes"); rows == 0 {
		t.Error("no minute is noted outside it")
	}
}

// A store that maintains notes minutes in the background, however many others do not want it.
// Proves G334.
func TestMinutes_AreNotedInTheBackground(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	for range 2 {
		openStore(t, pool, stint.Options{
			Maintenance: stint.MaintainAlways, WithoutMinutes: true,
		})
	}
	openStore(t, pool, stint.Options{Maintenance: stint.MaintainAlways})
	eventually(t, soon, "a minute is noted", func() bool {
		return yields[int](t, pool, "SELECT count(*) FROM stint.minutes") > 0
	})
}
