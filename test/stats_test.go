package stint_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func statsOf(t *testing.T, store *stint.Store) (stint.Stats, map[string]stint.ActionStats) {
	t.Helper()
	stats, err := store.Stats(t.Context())
	wantErr(t, "Stats", err, nil)
	byAction := map[string]stint.ActionStats{}
	for _, action := range stats.Actions {
		byAction[action.Action] = action
	}
	return stats, byAction
}

func TestStats_CountsByActionAndState(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	ctx := t.Context()
	if stats, _ := statsOf(t, store); len(stats.Actions)+len(stats.Estimated) > 0 {
		t.Fatalf("Stats of an empty store = %+v", stats)
	}
	tasks := numbered("t", 3000)
	for i := range 10 {
		id := stint.TaskID(fmt.Sprintf("urgent %d", i))
		tasks = append(tasks,
			stint.Task{ID: id, Action: "act", Priority: 3},
			stint.Task{ID: id + " later", Action: "late", NotBefore: time.Now().Add(time.Hour)},
			stint.Task{ID: id + " after", Action: "after", After: []stint.TaskID{id}})
	}
	insert(t, store, tasks...)
	owned := own(t, store, 7) // of the urgent ones
	returns := make([]stint.Return, 5)
	for i := range returns {
		returns[i] = stint.Return{
			ID: owned[i].ID, Token: owned[i].Token, Code: stint.StatusCompleted,
		}
	}
	returns[4].Code = stint.StatusAborted // and what comes after it
	verdicts, err := store.ReturnTasks(ctx, returns)
	wantErr(t, "ReturnTasks", err, nil)
	for _, verdict := range verdicts {
		wantErr(t, "verdict", verdict, nil)
	}
	stats, byAction := statsOf(t, store)
	want := map[string]stint.ActionStats{
		"act":   {Action: "act", Ready: 3003, InProgress: 2, Completed: 4, Aborted: 1},
		"late":  {Action: "late", Scheduled: 10},
		"after": {Action: "after", Blocked: 5, Ready: 4, Aborted: 1},
	}
	for action, want := range want {
		got := byAction[action]
		if (got.OldestReady > 0) != (want.Ready > 0) {
			t.Errorf("the oldest ready task with action %s is %v old", action, got.OldestReady)
		}
		got.OldestReady = 0
		if got != want {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}
	}
	if len(byAction) != len(want) || len(stats.Estimated) > 0 {
		t.Errorf("Stats = %+v, want three actions and no estimates", stats)
	}
}

// Of many it says about how many, but it counts the few that are ready among them.
// Proves G169.
func TestStats_EstimatesWhereThereAreMany(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store := openStore(t, pool, stint.Options{})
	const many = 20_000
	insert(t, store, append(withDeadlines(many), stint.Task{ID: "rare", Action: "rare"})...)
	exec(t, pool, `UPDATE stint.tasks SET inserted_at = inserted_at - interval '2 hours'
		WHERE id = 'rare'`)
	stats, byAction := statsOf(t, store)
	if !slices.Equal(stats.Estimated, []stint.State{stint.StateReady}) {
		t.Errorf("estimates are %v, want ready", stats.Estimated)
	}
	if n := byAction["act"].Ready; n != many { // of fewer pages than a sample has
		t.Errorf("%d tasks are ready, want %d: the sample has all pages", n, many)
	}
	rare := byAction["rare"]
	if rare.Ready != 1 || rare.OldestReady < time.Hour {
		t.Errorf("Stats = %+v, want one ready task an hour old", rare)
	}
}

func TestStats_CountsTriesOfAllStores(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	stores := []*stint.Store{
		openStore(t, pool, stint.Options{}),
		openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever}),
	}
	insert(t, stores[0], numbered("t", 10)...)
	for _, store := range stores {
		for _, task := range own(t, store, 4) {
			returnWith(t, store, task, stint.Return{Code: stint.StatusPending, Status: "no luck"})
		}
	}
	own(t, stores[0], 10) // 2 are new
	var got stint.ActionStats
	eventually(t, soon, "18 tries were counted", func() bool {
		_, byAction := statsOf(t, stores[1])
		got = byAction["act"]
		return got.Tries >= 18
	})
	if got.Tries != 18 || got.Retries != 8 {
		t.Errorf("Stats = %+v, want 18 tries, 8 of them retries", got)
	}
}

// An action is there as long as its counts are, so that counters do not come and go.
func TestStats_KeepsActionsOfWhichNoTaskIsLeft(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store := openStore(t, pool, stint.Options{
		Retention: stint.Retention{Completed: stint.KeepNone},
	})
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	returnWith(t, store, ownOne(t, store), stint.Return{Code: stint.StatusCompleted})
	want := stint.ActionStats{Action: "act", Tries: 1}
	eventually(t, soon, "the try was counted", func() bool {
		_, byAction := statsOf(t, store)
		return byAction["act"] == want
	})
}

func TestStats_CountsTriesOfAStoreThatIsClosed(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	store := openStore(t, pool, stint.Options{})
	insert(t, store, numbered("t", 3)...)
	own(t, store, 3)
	wantErr(t, "Close", store.Close(t.Context()), nil)
	_, byAction := statsOf(t, openStore(t, pool, stint.Options{}))
	if got := byAction["act"].Tries; got != 3 {
		t.Errorf("%d tries were counted, want 3", got)
	}
}

// A replaced task has no action any more. It is passed over where states are sampled, too.
func TestStats_SamplesBesideWhatWasReplaced(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	task := stint.Task{ID: "replaced", Action: "act", PostResult: true}
	insert(t, store, task)
	wantErr(t, "ReplaceTasks", store.ReplaceTasks(t.Context(), []stint.Task{task}), nil)
	later := numbered("later", 1500)
	for i := range later {
		later[i].NotBefore = time.Now().Add(time.Hour)
	}
	insert(t, store, later...)
	if _, err := store.Stats(t.Context()); err != nil {
		t.Errorf("Stats = %v", err)
	}
}

// One among those that are counted does not make these pass for all.
func TestStats_EstimatesBehindWhatWasReplaced(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const kept = 1001
	store := newStore(t)
	insert(t, store, numbered("t", kept)...)
	owned := own(t, store, kept)
	returns := completed(owned)
	for i := range returns {
		returns[i].Status = "done" // in a row of its own
	}
	verdicts, err := store.ReturnTasks(t.Context(), returns)
	wantErr(t, "ReturnTasks", errors.Join(append(verdicts, err)...), nil)
	task := stint.Task{ID: "replaced", Action: "act", PostResult: true}
	insert(t, store, task)
	wantErr(t, "ReplaceTasks", store.ReplaceTasks(t.Context(), []stint.Task{task}), nil)
	if stats, _ := statsOf(t, store); !slices.Contains(stats.Estimated, stint.StateCompleted) {
		t.Errorf("%+v passes for exact", stats)
	}
}

// The lowest priority is a priority like the others.
func TestStats_CountsTheLowestPriority(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, action := range []string{"a", "b"} {
		for i, priority := range []int16{math.MinInt16, 0, math.MaxInt16} {
			insert(t, store, stint.Task{
				ID: stint.TaskID(fmt.Sprint(action, i)), Action: action, Priority: priority,
			})
		}
	}
	stats, byAction := statsOf(t, store)
	if byAction["a"].Ready != 3 || byAction["b"].Ready != 3 || len(stats.Estimated) > 0 {
		t.Errorf("Stats = %+v, want three ready tasks of each action", stats)
	}
}

// Proves G44.
func TestStats_TellsOfLimitsAndPausesAndParkedTasks(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	ctx := t.Context()
	setLimits(t, store, stint.Limits{Concurrency: 40, ConcurrencyPerKey: 1})
	wantErr(t, "SetLimits", store.SetLimits(ctx, "fair", stint.Limits{Fair: true}), nil)
	wantErr(t, "Pause", store.Pause(ctx, "idle", "fair"), nil)
	wantErr(t, "PauseKeys", store.PauseKeys(ctx, "other", "k"), nil)
	insert(t, store, keyTask("a", "k"), keyTask("b", "k"), keyTask("c", "k"), keyTask("d", "l"),
		stint.Task{ID: "urgent", Action: "act", Key: "k", Priority: 3},
		stint.Task{ID: "other", Action: "other"})
	if owned := own(t, store, 10); len(owned) != 2 {
		t.Fatalf("%d tasks were fetched, want 2", len(owned))
	}
	stats, byAction := statsOf(t, store)
	want := map[string]stint.ActionStats{
		"act": {
			Action: "act", Ready: 3, InProgress: 2, Parked: 3, Limited: true, Concurrency: 40,
		},
		"fair":  {Action: "fair", Limited: true, Paused: true},
		"idle":  {Action: "idle", Paused: true},
		"other": {Action: "other", Ready: 1},
	}
	for action, want := range want {
		got := byAction[action]
		got.OldestReady, got.Tries = 0, 0
		if got != want {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}
	}
	if len(byAction) != len(want) || len(stats.Estimated) > 0 {
		t.Errorf("Stats = %+v, want four actions and no estimates", stats)
	}
	if byAction["act"].OldestReady == 0 {
		t.Error("no ready task is old")
	}
}

// Of many it says about how many, as of ready tasks.
// Proves G44.
func TestStats_EstimatesParkedTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newUncheckedStore(t, stint.Options{})
	const many = 20_000
	setLimits(t, store, stint.Limits{ConcurrencyPerKey: 1})
	insert(t, store, withDeadlines(many)...)
	exec(t, pool, `UPDATE stint.ready SET limit_key = 'k',
		position = '-9223372036854775808'::bigint | position WHERE lo % 2 = 0`)
	_, byAction := statsOf(t, store)
	if n := byAction["act"].Parked; n < many/4 || n > many {
		t.Errorf("about %d tasks are parked, want about %d", n, many/2)
	}
}

// Estimates are made once for many calls, and only as long as there are many tasks.
// Proves G169.
func TestStats_KeepsEstimatesForAWhile(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const many = 3000
	pool := testdb.New(t)
	spied, spy := spyOn(t, pool, 2)
	store := openStore(t, spied, stint.Options{Maintenance: stint.MaintainNever})
	insert(t, store, withDeadlines(many)...)
	scheduled := later("late", many)
	for i := range scheduled {
		scheduled[i].ID = "late " + scheduled[i].ID
	}
	insert(t, store, scheduled...)
	begun := time.Now()
	first, _ := statsOf(t, store)
	insert(t, store, stint.Task{ID: "new", Action: "new"})
	for range 5 {
		stats, byAction := statsOf(t, store)
		want := []stint.State{stint.StateReady, stint.StateScheduled}
		if !slices.Equal(stats.Estimated, want) || !slices.Equal(first.Estimated, want) {
			t.Errorf("estimates are %v, want %v", stats.Estimated, want)
		}
		for action, n := range map[string]int64{
			"late": byAction["late"].Scheduled, "act": byAction["act"].Ready,
		} {
			if n < many/2 || n > 2*many {
				t.Errorf("about %d tasks with action %s, want about %d", n, action, many)
			}
		}
		if byAction["new"].Ready != 1 || byAction["act"].OldestReady == 0 {
			t.Errorf("Stats = %+v, want one new task, and how old the oldest is", stats)
		}
	}
	seconds := int(time.Since(begun) / time.Second)
	if n := spy.count("sample_tasks"); n < 1 || n > 1+seconds {
		t.Errorf("%d samples in %d s, want one a second at most", n, seconds)
	}
	exec(t, pool, "DELETE FROM stint.scheduled WHERE key % 100 <> 0")
	few := yields[int64](t, pool, "SELECT count(*) FROM stint.scheduled")
	if _, byAction := statsOf(t, store); byAction["late"].Scheduled != few {
		t.Errorf("%d scheduled tasks, want %d", byAction["late"].Scheduled, few)
	}
	exec(t, pool, "DELETE FROM stint.tasks WHERE action = 'late'")
	exec(t, pool, "DELETE FROM stint.scheduled")
}

// An estimate stays as it is while nothing changes, whichever store makes it; it is near to what
// there is, and it follows what happens: it says of which moment it is, which is now or a second
// ago.
//
// Proves G307.
func TestStats_EstimatesStayAndAreNew(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const many = 24_000
	pool := testdb.New(t)
	store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	// Rows that are as wide as those of tasks with a status take more pages than a sample has.
	exec(t, pool, `INSERT INTO stint.tasks (key, max_tries, priority, on_abort, post_result, id,
			action)
		SELECT n, 1, 0, 0, false, 'estimated ' || n, CASE WHEN n % 3 = 0 THEN 'a' ELSE 'b' END
		FROM generate_series(1, $1::integer) AS n`, many)
	exec(t, pool, `INSERT INTO stint.ready (lo, hi, tries, priority, action, status)
		SELECT tasks.key, tasks.key, 1, 0, tasks.action, repeat('x', 300)
		FROM stint.tasks WHERE tasks.id LIKE 'estimated %'`)
	exec(t, pool, `INSERT INTO stint.scheduled (key, not_before, tries, status)
		SELECT ready.lo, statement_timestamp() + interval '1 day', 1, ready.status
		FROM stint.ready`)
	var first map[string]stint.ActionStats
	var counts []string
	for range 4 {
		other := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
		before := yields[time.Time](t, pool, "SELECT clock_timestamp()")
		stats, byAction := statsOf(t, other)
		if stats.EstimatedAt.Before(before) {
			t.Errorf("estimated at %v, want after %v", stats.EstimatedAt, before)
		}
		counts = append(counts, fmt.Sprint(byAction["a"].Ready, byAction["b"].Ready,
			byAction["a"].Scheduled, byAction["b"].Scheduled))
		first = byAction
	}
	if len(slices.Compact(counts)) > 1 {
		t.Errorf("nothing moves, and the counts are %q", counts)
	}
	near := func(what string, n, want int64) {
		t.Helper()
		if n < want*9/10 || n > want*11/10 {
			t.Errorf("%s: about %d, want about %d", what, n, want)
		}
	}
	near("ready a", first["a"].Ready, many/3)
	near("ready b", first["b"].Ready, many*2/3)
	near("scheduled a", first["a"].Scheduled, many/3)
	near("scheduled b", first["b"].Scheduled, many*2/3)

	statsOf(t, store)
	exec(t, pool, "DELETE FROM stint.ready WHERE lo % 10 <> 0")
	gone := yields[time.Time](t, pool, "SELECT clock_timestamp()")
	eventually(t, soon, "an estimate is of a moment after the change", func() bool {
		stats, byAction := statsOf(t, store)
		now := yields[time.Time](t, pool, "SELECT clock_timestamp()")
		if stats.EstimatedAt.Before(gone) {
			return false
		}
		near("ready a after the change", byAction["a"].Ready, many/30)
		return !stats.EstimatedAt.After(now)
	})
	exec(t, pool, "TRUNCATE stint.tasks, stint.ready, stint.scheduled")
}

func TestCountReady_CountsOneAction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	store := newStore(t)
	counts := func(action string, want int64, wantMore bool) {
		t.Helper()
		n, more, err := stint.CountReady(ctx, store, action)
		if n != want || more != wantMore || err != nil {
			t.Errorf("CountReady(%q) = %d, %t, %v, want %d, %t",
				action, n, more, err, want, wantMore)
		}
	}
	setLimits(t, store, stint.Limits{ConcurrencyPerKey: 1})
	insert(t, store, keyTask("a", "k"), keyTask("b", "k"), keyTask("c", "k"))
	insert(t, store, stint.Task{ID: "urgent", Action: "act", Priority: 3},
		stint.Task{ID: "other", Action: "other"},
		stint.Task{ID: "late", Action: "act", NotBefore: time.Now().Add(time.Hour)})
	counts("act", 4, false)
	own(t, store, 2) // parks the rest
	counts("act", 2, false)
	counts("none", 0, false)
	many := withDeadlines(1500)
	for i := range many {
		many[i].ID, many[i].Action = "many "+many[i].ID, "many"
	}
	insert(t, store, many...)
	counts("many", 1001, true)
	insert(t, store, numbered("t", 20_000)...) // in few rows
	if n, more, err := stint.CountReady(ctx, store, "act"); n != 20_002 || more || err != nil {
		t.Errorf("CountReady = %d, %t, %v, want all", n, more, err)
	}
	_, _, err := stint.CountReady(ctx, store, "")
	wantArgument(t, "CountReady without an action", err, "action")
}
