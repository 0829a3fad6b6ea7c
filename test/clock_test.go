package stint_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// fromTheFuture leaves in a table what a clock that was ahead by an hour would have written.
func fromTheFuture(tb testing.TB, pool *pgxpool.Pool, table string, columns ...string) {
	tb.Helper()
	var set []string
	for _, column := range columns {
		set = append(set, column+" = "+column+" + interval '1 h'")
	}
	exec(tb, pool, "UPDATE stint."+table+" SET "+strings.Join(set, ", "))
}

// fastRates come soon enough for a test.
func fastRates(limits stint.Limits) []stint.Limits {
	rate := stint.Rate{Tasks: 100, Per: time.Second, Burst: 2}
	ofAction, ofKeys, both := limits, limits, limits
	ofAction.Rate = rate
	ofKeys.RatePerKey = rate
	both.Rate, both.RatePerKey = rate, rate
	return []stint.Limits{ofAction, ofKeys, both}
}

// After the clock was ahead for a while, rates of actions and of keys give tokens as they did
// before, whatever else is limited, whether tasks wait already or not, without a maintainer and
// without a change of the limits. What Explain and ListLimits say of the next token is true.
// Proves G300.
func TestOwnTasks_GivesTokensAfterTheClockWasAhead(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	all := map[string]stint.Limits{
		"alone":            {},
		"with concurrency": {Concurrency: 100},
		"per key":          {ConcurrencyPerKey: 100},
		"fair":             {Fair: true},
		"in a group":       {Fair: true, FairGroup: "group"},
		"in order":         {Ordered: true},
	}
	names, parking := slices.Sorted(maps.Keys(all)), []bool{false, true}
	for _, c := range testrun.Some(testrun.Pairs(
		testrun.Pairs(names, []int{0, 1, 2}), parking)) {
		name, i, parked := c.A.A, c.A.B, c.B
		limits := fastRates(all[name])[i]
		t.Run(fmt.Sprintf("%s %d %t", name, i, parked), func(t *testing.T) {
			t.Parallel()
			store, pool := newLimitedStore(t, limits)
			insert(t, store, withKey("k", "a", "b", "c", "d", "e", "f")...)
			drain := func(n int) {
				t.Helper()
				eventually(t, soon, "tokens come", func() bool {
					owned := own(t, store, 1)
					complete(t, store, owned...)
					n -= len(owned)
					return n <= 0
				})
			}
			drain(2)
			if parked { // what waits
				complete(t, store, own(t, store, 10)...)
			}
			exec(t, pool, `UPDATE stint.limits
				SET refilled_at = statement_timestamp() + interval '1 h', tokens = 0`)
			exec(t, pool, `UPDATE stint.key_rates SET
				full_at = statement_timestamp() + interval '1 h',
				wake_at = wake_at + interval '1 h'`)
			wantTokenSoon(t, store)
			for range 2 {
				insert(t, store, withKey("k", "")...)
			}
			drain(4)
			eventually(t, soon, "the last tasks end", func() bool {
				complete(t, store, own(t, store, 1)...)
				infos, err := listTasks(t.Context(), store, stint.Filter{
					States: []stint.State{stint.StateReady},
				})
				return err == nil && len(infos) == 0
			})
		})
	}
}

// wantTokenSoon checks that nothing is said of a token that comes much later than the rate says.
func wantTokenSoon(t *testing.T, store *stint.Store) {
	t.Helper()
	list, err := store.ListLimits(t.Context(), "act")
	wantErr(t, "ListLimits", err, nil)
	if in := time.Until(list[0].NextAt); in > time.Minute {
		t.Errorf("ListLimits says that the next token comes in %v", in)
	}
	infos, err := listTasks(t.Context(), store, stint.Filter{
		States: []stint.State{stint.StateReady},
	})
	wantErr(t, "ListTasks", err, nil)
	for _, info := range infos {
		why, err := store.Explain(t.Context(), info.ID)
		wantErr(t, "Explain", err, nil)
		for _, next := range []time.Time{why.Limits.NextAt, why.Limits.KeyNextAt} {
			if in := time.Until(next); in > time.Minute {
				t.Errorf("Explain says that the next token comes in %v", in)
			}
		}
	}
}

// Limits that are set again, changed or not, have no bucket that stays empty.
// Proves G300.
func TestSetLimits_FillsABucketAfterTheClockWasAhead(t *testing.T) {
	t.Parallel()
	store, pool := newLimitedStore(t, stint.Limits{Rate: stint.Rate{Tasks: 1, Per: time.Hour}})
	for _, tasks := range []int{1, 2} {
		fromTheFuture(t, pool, "limits", "refilled_at")
		setLimits(t, store, stint.Limits{Rate: stint.Rate{Tasks: tasks, Per: time.Hour}})
		if yields[bool](t, pool, "SELECT refilled_at > now() FROM stint.limits") {
			t.Errorf("with a rate of %d an hour the bucket is filled in the future", tasks)
		}
	}
}

// Schedules that the clock has taken ahead occur again from now on, and no occurrence is inserted
// twice; those that were not concerned, or are paused, stay as they are.
// Proves G301, G173.
func TestMaintain_HasSchedulesOccurAfterTheClockWasAhead(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	store, pool := newStoreAndPool(t, stint.Options{})
	put := func(name, spec string, change func(*stint.Schedule)) {
		t.Helper()
		s := stint.Schedule{Name: name, Spec: spec, Tasks: []stint.Task{{Action: "act"}}}
		if change != nil {
			change(&s)
		}
		wantErr(t, "PutSchedules", store.PutSchedules(ctx, []stint.Schedule{s}), nil)
	}
	put("fast", "every 1s", nil)
	put("minute", "* * * * *", func(s *stint.Schedule) { s.CatchUp = stint.CatchUpSkip })
	put("overlap", "* * * * *", func(s *stint.Schedule) { s.Overlap = stint.OverlapSkip })
	put("over", "* * * * *", nil)
	put("daily", "0 0 * * *", func(s *stint.Schedule) { s.Zone = "Europe/Berlin" })
	put("future", "* * * * *", func(s *stint.Schedule) {
		s.From = time.Now().Add(48 * time.Hour)
	})
	put("paused", "* * * * *", nil)
	wantErr(t, "PauseSchedules", store.PauseSchedules(ctx, "paused"), nil)
	before := schedulesByName(t, store)

	exec(t, pool, `UPDATE stint.schedules SET next_at = next_at + interval '1 h'
		WHERE name IN ('fast', 'minute', 'overlap')`)
	exec(t, pool, `UPDATE stint.schedules SET next_at = NULL, last_at = now() + interval '1 h'
		WHERE name = 'over'`)
	exec(t, pool, `UPDATE stint.schedules
		SET next_at = next_at + interval '1 day', last_at = next_at WHERE name = 'daily'`)
	wantErr(t, "Maintain", store.Maintain(ctx), nil)
	after := schedulesByName(t, store)
	for name, was := range before {
		is := after[name]
		// A minute may have passed since.
		if d := is.NextAt.Sub(was.NextAt); d < 0 || d > 10*time.Minute {
			t.Errorf("%s occurs next at %v, want %v", name, is.NextAt, was.NextAt)
		}
	}
	eventually(t, soon, "the schedule occurs each second", func() bool {
		wantErr(t, "Maintain", store.Maintain(ctx), nil)
		return len(schedulesByName(t, store)["fast"].LastIDs) > 0
	})
}

func schedulesByName(t *testing.T, store *stint.Store) map[string]stint.ScheduleInfo {
	t.Helper()
	all, err := store.ListSchedules(t.Context())
	wantErr(t, "ListSchedules", err, nil)
	byName := map[string]stint.ScheduleInfo{}
	for _, info := range all {
		byName[info.Name] = info
	}
	return byName
}

// What somebody changes of a schedule while it is mended stays.
func TestMaintain_LeavesAScheduleThatIsChangedMeanwhile(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	putSchedules(t, store, scheduleOf("s", "* * * * *"))
	exec(t, pool, "UPDATE stint.schedules SET next_at = next_at + interval '1 h'")
	var want time.Time
	mending := interpose(t, pool, "mend_schedule", func() {
		putSchedules(t, store, scheduleOf("s", "@yearly"))
		want = scheduleNamed(t, store, "s").NextAt
	})
	maintain(t, mending)
	if got := scheduleNamed(t, store, "s").NextAt; !got.Equal(want) {
		t.Errorf("it occurs next at %v, want %v", got, want)
	}
}

// Proves G173.
func TestMaintain_InsertsNoOccurrenceTwiceAfterTheClockWasAhead(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	store, pool := newStoreAndPool(t, stint.Options{})
	wantErr(t, "PutSchedules", store.PutSchedules(ctx, []stint.Schedule{{
		Name: "s", Spec: "* * * * *", Tasks: []stint.Task{{Action: "act"}},
	}}), nil)
	// The clock was ahead when the occurrence took place, which comes again now.
	at := yields[time.Time](t, pool, "SELECT date_trunc('minute', now())").UTC()
	insert(t, store, stint.Task{
		ID: stint.TaskID("s/" + at.Format(time.RFC3339Nano)), Action: "act",
	})
	exec(t, pool, "UPDATE stint.schedules SET last_at = now() + interval '1 h', next_at = $1", at)
	eventually(t, soon, "it occurs", func() bool {
		wantErr(t, "Maintain", store.Maintain(ctx), nil)
		return schedulesByName(t, store)["s"].LastAt.Before(at.Add(10 * time.Minute))
	})
	infos, err := listTasks(ctx, store, stint.Filter{})
	wantErr(t, "ListTasks", err, nil)
	occurrences := map[stint.TaskID]bool{} // a minute may have begun meanwhile
	for _, info := range infos {
		occurrences[info.ID] = true
	}
	if len(occurrences) != len(infos) || len(infos) > 2 {
		t.Errorf("there are the tasks %v", occurrences)
	}
}

// Leases that began in the future end as if they had begun now; longer ones, and those that were
// given no end, stay as they are.
// Proves G301.
func TestMaintain_EndsLeasesAfterTheClockWasAhead(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 3)...)
	leases := []time.Duration{time.Minute, 10 * 24 * time.Hour, stint.NoExpiry}
	for _, lease := range leases {
		_, err := store.OwnTasks(ctx, "actor", 1, []string{"act"}, lease)
		wantErr(t, "OwnTasks", err, nil)
	}
	ends := func() string {
		return yields[string](t, pool, `SELECT string_agg(CASE WHEN deadline = 'infinity'
			THEN 'never' ELSE round(date_part('epoch', deadline - now()) / 600)::text END, ' '
			ORDER BY deadline) FROM stint.leases`)
	}
	was := ends()
	fromTheFuture(t, pool, "leases", "owned_at", "deadline")
	wantErr(t, "Maintain", store.Maintain(ctx), nil)
	if got := ends(); got != was {
		t.Errorf("leases end in %s times ten minutes, want %s", got, was)
	}
	// A lease that was only extended by that clock cannot be told from a long one.
	exec(t, pool, "UPDATE stint.leases SET deadline = deadline + interval '1 h' "+
		"WHERE deadline < now() + interval '1 h'")
	was = ends()
	wantErr(t, "Maintain", store.Maintain(ctx), nil)
	if got := ends(); got != was {
		t.Errorf("extended leases end in %s times ten minutes, want %s", got, was)
	}
}

// What callers have chosen lies in the future by right.
// Proves G301.
func TestMaintain_LeavesAloneWhatCallersChose(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, pool := newStoreAndPool(t, stint.Options{})
	later := time.Now().Add(time.Hour)
	insert(t, store, numbered("t", 2)...)
	owned := own(t, store, 2)
	_, err := store.ReturnTasks(ctx, []stint.Return{
		{ID: owned[0].ID, Token: owned[0].Token, RetryAfter: time.Hour},
		{ID: owned[1].ID, Token: owned[1].Token, RetryAfter: time.Hour, Release: true},
	})
	wantErr(t, "ReturnTasks", err, nil)
	insert(t, store, stint.Task{ID: "a", Action: "act", NotBefore: later},
		stint.Task{ID: "b", Action: "act", Deadline: later},
		stint.Task{ID: "c", Action: "act", NotBefore: later, After: []stint.TaskID{"a"}})
	instants := func() string {
		return yields[string](t, pool, `SELECT
			(SELECT string_agg(not_before::text, ' ' ORDER BY key) FROM stint.scheduled)
			|| (SELECT string_agg(not_before::text, ' ') FROM stint.blocked)
			|| (SELECT string_agg(deadline::text, ' ') FROM stint.deadlines)`)
	}
	was := instants()
	exec(t, pool, `INSERT INTO stint.pruning (told_at, behind)
		VALUES (now() + interval '1 h', '0')`)
	fromTheFuture(t, pool, "tasks", "inserted_at")
	fromTheFuture(t, pool, "action_stats", "asked_at")
	wantErr(t, "Maintain", store.Maintain(ctx), nil)
	if got := instants(); got != was {
		t.Errorf("the tasks have the instants %s, want %s", got, was)
	}
	if yields[int](t, pool, "SELECT count(pruned_to) FROM stint.pruning") > 0 {
		t.Error("tasks are said to be pruned, though none were")
	}
}

// Proves G301.
func TestMaintain_PrunesAtTheAgeAfterTheClockWasAhead(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, numbered("t", 2)...)
	owned := own(t, store, 2)
	wantErr(t, "ReturnTask", store.ReturnTask(ctx, owned[0].ID, owned[0].Token, "",
		stint.StatusCompleted), nil)
	wantErr(t, "ReturnTask", store.ReturnTask(ctx, owned[1].ID, owned[1].Token, "",
		stint.StatusAborted), nil)
	exec(t, pool, "UPDATE stint.finished SET finished_at = finished_at + interval '1 year'")
	exec(t, pool, "UPDATE stint.action_stats SET asked_at = asked_at + interval '1 year'")
	wantErr(t, "Maintain", store.Maintain(ctx), nil)
	exec(t, pool, "UPDATE stint.finished SET finished_at = finished_at - interval '8 days'")
	pruned, err := store.Prune(ctx)
	if err != nil || pruned != 2 {
		t.Errorf("Prune = %d, %v, want 2", pruned, err)
	}
	if yields[bool](t, pool, "SELECT bool_or(asked_at > now()) FROM stint.action_stats") {
		t.Error("the action was asked for in the future")
	}
}

// Proves G301.
func TestMaintain_HandsOnTasksOfAProcessThatWentWhileTheClockWasAhead(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	exec(t, pool, "INSERT INTO stint.sessions (id, gone_at, grace, topics) "+
		"VALUES (1, statement_timestamp() + interval '1 h', '1 ms', '{}')")
	eventually(t, soon, "the session is forgotten", func() bool {
		wantErr(t, "Maintain", store.Maintain(t.Context()), nil)
		return yields[int](t, pool, "SELECT count(*) FROM stint.sessions WHERE id = 1") == 0
	})
}

// docs/operations/clock.md says of each instant in the tables what a clock that was ahead does to
// it.
func TestClock_EachInstantIsDecided(t *testing.T) {
	t.Parallel()
	_, pool := newStoreAndPool(t, stint.Options{})
	text, err := os.ReadFile("docs/operations/clock.md")
	wantErr(t, "ReadFile", err, nil)
	columns := yields[[]string](t, pool, `SELECT array_agg(relname || '.' || attname)
		FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
		WHERE relnamespace = 'stint'::regnamespace AND relkind = 'r'
			AND atttypid = 'timestamptz'::regtype`)
	if len(columns) < 20 {
		t.Fatalf("there are the instants %v", columns)
	}
	for _, column := range columns {
		if !strings.Contains(string(text), "`"+column+"`") {
			t.Errorf("%s is not decided", column)
		}
	}
}

// What is put right is logged, and nothing is where nothing is wrong.
// Proves G301.
func TestMaintain_SaysThatTheClockWasAhead(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var log bytes.Buffer
	store, pool := newStoreAndPool(t, stint.Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	insert(t, store, numbered("t", 1)...)
	own(t, store, 1)
	wantErr(t, "Maintain", store.Maintain(context.WithoutCancel(ctx)), nil)
	if log.Len() > 0 {
		t.Errorf("without a cause the log has %s", log.String())
	}
	fromTheFuture(t, pool, "leases", "owned_at", "deadline")
	wantErr(t, "Maintain", store.Maintain(ctx), nil)
	if !strings.Contains(log.String(), "was ahead") || !strings.Contains(log.String(), "leases=1") {
		t.Errorf("the log has %q", log.String())
	}
}
