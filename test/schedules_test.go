package stint_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// scheduleOf is a schedule with one task.
func scheduleOf(name, spec string) stint.Schedule {
	return stint.Schedule{
		Name: name, Spec: spec, Tasks: []stint.Task{{Action: "act", Body: []byte(name)}},
	}
}

func putSchedules(t *testing.T, store *stint.Store, schedules ...stint.Schedule) {
	t.Helper()
	wantErr(t, "PutSchedules", store.PutSchedules(t.Context(), schedules), nil)
}

func scheduleNamed(t *testing.T, store *stint.Store, name string) stint.ScheduleInfo {
	t.Helper()
	found, err := store.ListSchedules(t.Context(), name)
	if err != nil || len(found) != 1 {
		t.Fatalf("ListSchedules(%q) = %+v, %v", name, found, err)
	}
	return found[0]
}

// dueSince sets when a schedule is due next, as if nobody had looked since then.
func dueSince(t *testing.T, pool *pgxpool.Pool, name string, at time.Time) {
	t.Helper()
	_, err := pool.Exec(t.Context(),
		"UPDATE stint.schedules SET next_at = $2 WHERE name = $1", name, at)
	wantErr(t, "make due", err, nil)
}

// wantInserted checks which tasks the store holds.
func wantInserted(t *testing.T, pool *pgxpool.Pool, want ...string) {
	t.Helper()
	got := yields[[]string](t, pool, `SELECT coalesce(array_agg(id ORDER BY id), '{}')
		FROM stint.tasks`)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the tasks are %q, want %q", got, want)
	}
}

func newSchedules(t *testing.T) (*stint.Store, *pgxpool.Pool) {
	t.Helper()
	return newStoreAndPool(t, stint.Options{PollOnly: true})
}

// today is the last midnight, in UTC, by the database's clock.
func today(t *testing.T, pool *pgxpool.Pool) time.Time {
	t.Helper()
	return yields[time.Time](t, pool, `SELECT date_trunc('day', now(), 'UTC')`).UTC()
}

func nameAt(name string, at time.Time) string { return name + "/" + at.UTC().Format(time.RFC3339) }

// Proves G173.
func TestSchedules_InsertTheirTasksOnceWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	store, pool := newSchedules(t)
	putSchedules(t, store, scheduleOf("report", "@daily"))
	midnight := today(t, pool)
	if got := scheduleNamed(t, store, "report"); !got.NextAt.Equal(midnight.AddDate(0, 0, 1)) {
		t.Errorf("it is due at %s", got.NextAt)
	}
	maintain(t, store)
	wantInserted(t, pool)
	dueSince(t, pool, "report", midnight)
	maintain(t, store)
	maintain(t, store)
	wantInserted(t, pool, nameAt("report", midnight))
	got := scheduleNamed(t, store, "report")
	if !got.LastAt.Equal(midnight) || !got.NextAt.Equal(midnight.AddDate(0, 0, 1)) ||
		len(got.LastIDs) != 1 || got.Missed != 0 || string(got.Tasks[0].Body) != "report" {
		t.Errorf("ListSchedules = %+v", got)
	}
	if owned := ownOne(t, store); string(owned.Body) != "report" {
		t.Errorf("the task is %+v", owned)
	}
}

// A store that maintains in the background does so without being asked.
// Proves G175.
func TestSchedules_OccurWhereverAStoreMaintains(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	_, pool := newSchedules(t)
	store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainAlways})
	putSchedules(t, store, scheduleOf("often", "every 1s"))
	eventually(t, soon, "two occurrences", func() bool {
		return yields[int](t, pool, `SELECT count(*) FROM stint.tasks`) >= 2
	})
}

func TestSchedules_InsertNetworks(t *testing.T) {
	t.Parallel()
	store, pool := newSchedules(t)
	putSchedules(t, store, stint.Schedule{Name: "net", Spec: "@daily", Tasks: []stint.Task{
		{ID: "a", Action: "act"},
		{ID: "b", Action: "act", ToSignalAfter: []stint.TaskID{"c"}},
		{ID: "c", Action: "act", After: []stint.TaskID{"a"}},
	}})
	midnight := today(t, pool)
	dueSince(t, pool, "net", midnight)
	maintain(t, store)
	prefix := nameAt("net", midnight)
	wantInserted(t, pool, prefix+"/a", prefix+"/b", prefix+"/c")
	complete(t, store, own(t, store, 10)...)
	if last := ownOne(t, store); string(last.ID) != prefix+"/c" {
		t.Errorf("the last one is %q", last.ID)
	}
}

// Of an hour in which nobody maintained, the policy says what is inserted.
// Proves G174.
func TestSchedules_CatchUpAsTheySay(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, c := range []struct {
		catchUp             stint.CatchUp
		window              time.Duration
		fewest, most, total int
	}{
		{catchUp: stint.CatchUpLast, fewest: 1, most: 1, total: 60},
		{catchUp: stint.CatchUpLast, window: time.Second, fewest: 0, most: 1, total: 60},
		{catchUp: stint.CatchUpSkip, fewest: 1, most: 2, total: 60},
		{catchUp: stint.CatchUpAll, fewest: 60, most: 70, total: 60},
		{catchUp: stint.CatchUpAll, window: 10 * time.Minute, fewest: 10, most: 11, total: 60},
		{catchUp: stint.CatchUpAll, window: 30 * time.Hour, fewest: 1000, most: 1010, total: 1500},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			store, pool := newSchedules(t)
			schedule := scheduleOf("minute", "* * * * *")
			schedule.CatchUp, schedule.Window = c.catchUp, c.window
			putSchedules(t, store, schedule)
			minute := yields[time.Time](t, pool, `SELECT date_trunc('minute', now())`)
			dueSince(t, pool, "minute", minute.Add(-time.Duration(c.total-1)*time.Minute))
			maintain(t, store)
			n := yields[int](t, pool, `SELECT count(*) FROM stint.tasks`)
			got := scheduleNamed(t, store, "minute")
			if n < c.fewest || n > c.most {
				t.Errorf("%d tasks, want %d to %d", n, c.fewest, c.most)
			}
			// On a busy machine some more minutes may have begun meanwhile.
			if all := n + int(got.Missed); all < c.total || all > c.total+10 {
				t.Errorf("%d tasks and %d missed, want %d together", n, got.Missed, c.total)
			}
			newest := yields[string](t, pool,
				`SELECT coalesce(max(id COLLATE "C"), '') FROM stint.tasks`)
			if n > 0 && newest < nameAt("minute", minute) {
				t.Errorf("the newest one is %s", newest)
			}
		})
	}
}

// Proves G183.
func TestSchedules_OverlapAsTheySay(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for overlap, want := range map[stint.Overlap][]stint.State{
		stint.OverlapAllow: {stint.StateReady, stint.StateReady},
		stint.OverlapSkip:  {stint.StateReady},
		stint.OverlapWait:  {stint.StateReady, stint.StateBlocked},
		stint.OverlapAbort: {stint.StateAborted, stint.StateReady},
	} {
		t.Run(fmt.Sprint(overlap), func(t *testing.T) {
			t.Parallel()
			store, pool := newSchedules(t)
			schedule := scheduleOf("s", "@daily")
			schedule.Overlap, schedule.CatchUp = overlap, stint.CatchUpAll
			schedule.Window = 48 * time.Hour
			schedule.Tasks[0].PostResult = true // so that it is kept
			putSchedules(t, store, schedule)
			midnight := today(t, pool)
			dueSince(t, pool, "s", midnight.AddDate(0, 0, -1))
			maintain(t, store)
			var got []stint.State
			for _, id := range []stint.TaskID{
				stint.TaskID(nameAt("s", midnight.AddDate(0, 0, -1))),
				stint.TaskID(nameAt("s", midnight)),
			} {
				if tasks, err := store.GetTasks(t.Context(), []stint.TaskID{id}); err == nil {
					got = append(got, tasks[0].State)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("the tasks are %v, want %v", got, want)
			}
			if skipped := scheduleNamed(t, store, "s").Skipped; int(skipped) != 2-len(want) {
				t.Errorf("%d were skipped", skipped)
			}
		})
	}
}

// Proves G176.
func TestPutSchedules_ChangesNothingThatStaysAsItIs(t *testing.T) {
	t.Parallel()
	store, pool := newSchedules(t)
	midnight := today(t, pool)
	schedule := scheduleOf("s", "@daily")
	putSchedules(t, store, schedule)
	dueSince(t, pool, "s", midnight)
	schedule.Tasks[0].Body = []byte("new")
	putSchedules(t, store, schedule)
	wantErr(t, "EnsureSchedules", store.EnsureSchedules(t.Context(), []stint.Schedule{
		scheduleOf("s", "@hourly"), scheduleOf("other", "@hourly"),
	}), nil)
	got := scheduleNamed(t, store, "s")
	if !got.NextAt.Equal(midnight) || string(got.Tasks[0].Body) != "new" || got.Spec != "@daily" {
		t.Errorf("it has become %+v", got)
	}
	schedule.Spec = "@hourly"
	putSchedules(t, store, schedule)
	if got := scheduleNamed(t, store, "s"); !got.NextAt.After(midnight) {
		t.Errorf("with another spec, it is due at %s", got.NextAt)
	}
	maintain(t, store)
	wantInserted(t, pool)
	all, err := store.ListSchedules(t.Context())
	if err != nil || len(all) != 2 || all[0].Name != "other" {
		t.Errorf("ListSchedules = %+v, %v", all, err)
	}
}

// Proves G178.
func TestSchedules_ArePausedResumedTriggeredAndDeleted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newSchedules(t)
	ctx := t.Context()
	putSchedules(t, store, scheduleOf("s", "@daily"))
	dueSince(t, pool, "s", today(t, pool))
	wantErr(t, "PauseSchedules", store.PauseSchedules(ctx, "s", "s"), nil)
	maintain(t, store)
	wantInserted(t, pool)
	putSchedules(t, store, scheduleOf("s", "@hourly"))
	maintain(t, store)
	if got := scheduleNamed(t, store, "s"); got.PausedSince.IsZero() || !got.NextAt.IsZero() {
		t.Errorf("a paused schedule is %+v", got)
	}
	wantInserted(t, pool)
	id, err := store.TriggerSchedule(ctx, "s")
	if err != nil || !strings.HasSuffix(string(id), "/manual") {
		t.Errorf("TriggerSchedule = %q, %v", id, err)
	}
	wantInserted(t, pool, string(id))
	wantErr(t, "ResumeSchedules", store.ResumeSchedules(ctx, "s"), nil)
	maintain(t, store)
	wantInserted(t, pool, string(id))
	if got := scheduleNamed(t, store, "s"); !got.PausedSince.IsZero() || got.NextAt.IsZero() {
		t.Errorf("a resumed schedule is %+v", got)
	}
	for name, change := range map[string]func() error{
		"PauseSchedules":  func() error { return store.PauseSchedules(ctx, "s", "none") },
		"ResumeSchedules": func() error { return store.ResumeSchedules(ctx, "none", "s") },
		"DeleteSchedules": func() error { return store.DeleteSchedules(ctx, "s", "none") },
		"TriggerSchedule": func() error { return errOf(store.TriggerSchedule(ctx, "none")) },
	} {
		wantErr(t, name, change(), stint.ErrScheduleNotFound)
	}
	if got := scheduleNamed(t, store, "s"); !got.PausedSince.IsZero() {
		t.Error("it is paused by a call that failed")
	}
	wantErr(t, "DeleteSchedules", store.DeleteSchedules(ctx, "s"), nil)
	if all, err := store.ListSchedules(ctx); err != nil || len(all) > 0 {
		t.Errorf("ListSchedules = %+v, %v", all, err)
	}
}

// Many maintainers at once insert each occurrence once, and none of them is lost.
// Proves G173.
func TestSchedules_OccurOnceHoweverManyMaintain(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newSchedules(t)
	midnight := today(t, pool)
	var schedules []stint.Schedule
	var want []string
	for i := range 40 {
		schedule := scheduleOf(fmt.Sprintf("s%02d", i), "@daily")
		schedules = append(schedules, schedule)
		want = append(want, nameAt(schedule.Name, midnight))
	}
	putSchedules(t, store, schedules...)
	_, err := pool.Exec(t.Context(), "UPDATE stint.schedules SET next_at = $1", midnight)
	wantErr(t, "make due", err, nil)
	var all sync.WaitGroup
	for range 5 {
		other, err := stint.New(pool, stint.Options{
			Maintenance: stint.MaintainNever, PollOnly: true,
		})
		wantErr(t, "New", err, nil)
		all.Go(func() {
			if err := other.Maintain(t.Context()); err != nil {
				t.Errorf("Maintain = %v", err)
			}
		})
	}
	all.Wait()
	wantInserted(t, pool, want...)
	still := yields[int](t, pool, `SELECT count(*) FROM stint.schedules WHERE next_at < now()`)
	if still > 0 {
		t.Errorf("%d are still due", still)
	}
}

// A schedule that cannot occur, such as in a zone that this machine does not know, is told of and
// holds up no other one.
// Proves G177.
func TestSchedules_ThatFailHoldUpNoOtherOne(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, damage := range map[string]string{
		"zone":       `UPDATE stint.schedules SET zone = 'Mars/Olympus' WHERE name = 'a'`,
		"spec":       `UPDATE stint.schedules SET spec = 'at times' WHERE name = 'a'`,
		"definition": `UPDATE stint.schedules SET definition = '{' WHERE name = 'a'`,
		"no tasks":   `UPDATE stint.schedules SET definition = '{}' WHERE name = 'a'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newSchedules(t)
			midnight := today(t, pool)
			putSchedules(t, store, scheduleOf("a", "@daily"), scheduleOf("b", "@daily"))
			dueSince(t, pool, "a", midnight)
			dueSince(t, pool, "b", midnight)
			exec(t, pool, damage)
			err := store.Maintain(t.Context())
			if about := (*stint.ScheduleError)(nil); !errors.As(err, &about) ||
				!slices.Equal(about.Names, []string{"a"}) {
				t.Errorf("Maintain = %v", err)
			}
			wantInserted(t, pool, nameAt("b", midnight))
			putSchedules(t, store, scheduleOf("a", "@daily"))
			dueSince(t, pool, "a", midnight)
			maintain(t, store)
			wantInserted(t, pool, nameAt("a", midnight), nameAt("b", midnight))
		})
	}
}

// One whose tasks somebody is inserting in a transaction that stays open holds up no other one.
// Proves G177.
func TestSchedules_WaitForNobodyForLong(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newSchedules(t)
	midnight := today(t, pool)
	putSchedules(t, store, scheduleOf("a", "@daily"), scheduleOf("b", "@daily"))
	dueSince(t, pool, "a", midnight)
	dueSince(t, pool, "b", midnight)
	tx, err := pool.Begin(t.Context())
	wantErr(t, "Begin", err, nil)
	wantErr(t, "InsertTasks", store.WithTx(tx).InsertTasks(t.Context(), []stint.Task{
		{ID: stint.TaskID(nameAt("a", midnight)), Action: "act"},
	}), nil)
	if err := store.Maintain(t.Context()); err == nil || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("Maintain = %v", err)
	}
	wantInserted(t, pool, nameAt("b", midnight))
	wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
	maintain(t, store)
	wantInserted(t, pool, nameAt("a", midnight), nameAt("b", midnight))
}

// A schedule that fails is tried less and less often, and told of meanwhile.
// Proves G177.
func TestSchedules_ThatFailRest(t *testing.T) {
	t.Parallel()
	store, pool := newSchedules(t)
	midnight := today(t, pool)
	putSchedules(t, store, scheduleOf("a", "@daily"))
	dueSince(t, pool, "a", midnight)
	exec(t, pool, `UPDATE stint.schedules SET zone = 'Mars/Olympus' WHERE name = 'a'`)
	fire := fireSchedules(store)
	wantRest := func(looks int) {
		t.Helper()
		for range looks {
			if err := fire(t.Context()); err == nil || !strings.Contains(err.Error(), `"a"`) {
				t.Errorf("while it rests, fire = %v", err)
			}
			wantInserted(t, pool)
		}
	}
	wantRest(1 + 1 + 1) // it is tried, rests, and is tried
	exec(t, pool, `UPDATE stint.schedules SET zone = 'UTC' WHERE name = 'a'`)
	wantRest(2)
	wantErr(t, "fire", fire(t.Context()), nil)
	wantInserted(t, pool, nameAt("a", midnight))
	wantErr(t, "fire", fire(t.Context()), nil)
}

// Tasks that exist, such as of a schedule that was deleted and put again, are not inserted twice.
// Proves G173.
func TestSchedules_TakeTasksThatExistForTheirs(t *testing.T) {
	t.Parallel()
	store, pool := newSchedules(t)
	midnight := today(t, pool)
	putSchedules(t, store, scheduleOf("s", "@daily"))
	insert(t, store, stint.Task{ID: stint.TaskID(nameAt("s", midnight)), Action: "act"})
	dueSince(t, pool, "s", midnight)
	maintain(t, store)
	if got := scheduleNamed(t, store, "s"); !got.LastAt.Equal(midnight) {
		t.Errorf("it is %+v", got)
	}
}

// Proves G184.
func TestSchedules_SpreadAndExpireTheirTasks(t *testing.T) {
	t.Parallel()
	store, pool := newSchedules(t)
	midnight := today(t, pool)
	tomorrow := midnight.AddDate(0, 0, 1)
	for i := range 3 {
		schedule := scheduleOf(fmt.Sprint("s", i), "@daily")
		schedule.Jitter, schedule.Expire = 24*time.Hour, true
		putSchedules(t, store, schedule)
		dueSince(t, pool, schedule.Name, midnight)
	}
	maintain(t, store)
	starts := yields[[]time.Time](t, pool, `SELECT array_agg(DISTINCT coalesce(until, inserted_at))
		FROM stint.task_states`)
	deadlines := yields[[]time.Time](t, pool, `SELECT array_agg(deadline) FROM stint.tasks`)
	for _, start := range starts {
		if start.Before(midnight) || !start.Before(tomorrow) {
			t.Errorf("a task starts at %s", start)
		}
	}
	for _, deadline := range deadlines {
		if !deadline.Equal(tomorrow) {
			t.Errorf("a task expires at %s", deadline)
		}
	}
	if len(starts) != 3 || len(deadlines) != 3 {
		t.Errorf("the tasks start at %s and expire at %s", starts, deadlines)
	}
}

// However long the jitter, tasks start ahead of the next occurrence.
// Proves G184.
func TestSchedules_StartTheirTasksBeforeTheNextOccurrence(t *testing.T) {
	t.Parallel()
	store, pool := newSchedules(t)
	hour := yields[time.Time](t, pool, `SELECT date_trunc('hour', now())`)
	for i := range 20 {
		schedule := scheduleOf(fmt.Sprintf("s%02d", i), "@hourly")
		schedule.Jitter = 24 * time.Hour
		putSchedules(t, store, schedule)
		dueSince(t, pool, schedule.Name, hour)
	}
	maintain(t, store)
	latest := yields[time.Time](t, pool,
		`SELECT coalesce(max(not_before), now()) FROM stint.scheduled`)
	if n := yields[int](t, pool, `SELECT count(*) FROM stint.tasks`); n != 20 {
		t.Errorf("%d tasks, want 20", n)
	}
	if now := yields[time.Time](t, pool, `SELECT now()`); latest.After(hour.Add(time.Hour)) &&
		now.Before(hour.Add(time.Hour)) {
		t.Errorf("one starts at %s, an hour or more behind %s", latest, hour)
	}
}

// Proves G178.
func TestPutSchedules_RefusesBadInput(t *testing.T) {
	t.Parallel()
	store, pool := newSchedules(t)
	for want, change := range map[string]func(*stint.Schedule){
		"Schedule.Name":    func(s *stint.Schedule) { s.Name = "" },
		"Schedule.Spec":    func(s *stint.Schedule) { s.Spec = "* * *" },
		"Schedule.Zone":    func(s *stint.Schedule) { s.Zone = "Local" },
		"Schedule.CatchUp": func(s *stint.Schedule) { s.CatchUp = 7 },
		"Schedule.Overlap": func(s *stint.Schedule) { s.Overlap = -1 },
		"Schedule.Window":  func(s *stint.Schedule) { s.Window = -1 },
		"Schedule.Jitter":  func(s *stint.Schedule) { s.Jitter = 25 * time.Hour },
		"Schedule.To": func(s *stint.Schedule) {
			s.From, s.To = time.Unix(10, 0), time.Unix(5, 0)
		},
		"Schedule.Tasks: must not be empty": func(s *stint.Schedule) { s.Tasks = nil },
		"Task.Action":                       func(s *stint.Schedule) { s.Tasks[0].Action = "" },
		"Task.NotBefore": func(s *stint.Schedule) {
			s.Tasks[0].NotBefore = time.Now()
		},
		"Task.Deadline": func(s *stint.Schedule) {
			s.Tasks[0].Deadline = time.Now()
		},
		"Task.ID": func(s *stint.Schedule) {
			s.Tasks[0].ID = stint.TaskID(strings.Repeat("x", 256))
		},
		"Task.After": func(s *stint.Schedule) { s.Tasks[0].After = []stint.TaskID{"elsewhere"} },
		"bodies":     func(s *stint.Schedule) { s.Tasks[0].Body = make([]byte, 1<<20+1) },
		"different IDs": func(s *stint.Schedule) {
			s.Tasks = []stint.Task{{ID: "a", Action: "act"}, {ID: "a", Action: "act"}}
		},
	} {
		schedule := scheduleOf("s", "@daily")
		change(&schedule)
		good := scheduleOf("good", "@daily")
		err := store.PutSchedules(t.Context(), []stint.Schedule{good, schedule})
		if !errors.Is(err, stint.ErrInvalidArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("PutSchedules = %v, want %s", err, want)
		}
	}
	cyclic := scheduleOf("s", "@daily")
	cyclic.Tasks = []stint.Task{
		{ID: "a", Action: "act", After: []stint.TaskID{"b"}},
		{ID: "b", Action: "act", After: []stint.TaskID{"a"}},
	}
	wantErr(t, "a cycle", store.PutSchedules(t.Context(), []stint.Schedule{cyclic}), stint.ErrCycle)
	twice := []stint.Schedule{scheduleOf("s", "@daily"), scheduleOf("s", "@daily")}
	wantErr(t, "twice", store.PutSchedules(t.Context(), twice), stint.ErrInvalidArgument)
	if n := yields[int](t, pool, `SELECT count(*) FROM stint.schedules`); n > 0 {
		t.Errorf("%d schedules were put", n)
	}
}

// After years in which nobody was there, a look ends in time.
// Proves G174.
func TestSchedules_CatchUpWithYears(t *testing.T) {
	t.Parallel()
	store, pool := newSchedules(t)
	for name, spec := range map[string]string{"a": "every 1s", "b": "* * * * *"} {
		schedule := scheduleOf(name, spec)
		schedule.Window = 366 * 24 * time.Hour
		putSchedules(t, store, schedule)
		dueSince(t, pool, name, time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC))
	}
	maintain(t, store)
	for _, name := range []string{"a", "b"} {
		got := scheduleNamed(t, store, name)
		if len(got.LastIDs) != 1 || got.Missed != 100_000 || !got.NextAt.After(got.LastAt) {
			t.Errorf("it is %+v", got)
		}
	}
}

// Proves G175.
func TestSchedules_OccurWithinTheirBounds(t *testing.T) {
	t.Parallel()
	store, pool := newSchedules(t)
	midnight := today(t, pool)
	schedule := scheduleOf("s", "@daily")
	schedule.From, schedule.To = midnight.AddDate(0, 0, 7), midnight.AddDate(0, 0, 8)
	putSchedules(t, store, schedule)
	if got := scheduleNamed(t, store, "s"); !got.NextAt.Equal(schedule.From) {
		t.Errorf("it is due at %s first", got.NextAt)
	}
	schedule.From, schedule.To = time.Time{}, midnight.Add(time.Hour)
	putSchedules(t, store, schedule)
	if got := scheduleNamed(t, store, "s"); !got.NextAt.IsZero() {
		t.Errorf("it is due at %s, behind its end", got.NextAt)
	}
	dueSince(t, pool, "s", midnight)
	maintain(t, store)
	wantInserted(t, pool, nameAt("s", midnight))
	if got := scheduleNamed(t, store, "s"); !got.NextAt.IsZero() {
		t.Errorf("after its last occurrence, it is due at %s", got.NextAt)
	}
}

// Once the tasks of the occurrence before have finished, nothing is skipped.
// Proves G183.
func TestSchedules_OverlapOnlyWithTasksThatHaveNotFinished(t *testing.T) {
	t.Parallel()
	store, pool := newSchedules(t)
	schedule := scheduleOf("s", "@daily")
	schedule.Overlap, schedule.Window = stint.OverlapSkip, 72*time.Hour
	putSchedules(t, store, schedule)
	midnight := today(t, pool)
	dueSince(t, pool, "s", midnight)
	maintain(t, store)
	complete(t, store, own(t, store, 1)...)
	schedule.Spec = "0 * * * *"
	putSchedules(t, store, schedule)
	hour := yields[time.Time](t, pool, `SELECT date_trunc('hour', now())`)
	dueSince(t, pool, "s", hour)
	maintain(t, store)
	if got := scheduleNamed(t, store, "s"); got.Skipped != 0 || got.LastAt.Before(hour) {
		t.Errorf("it is %+v", got)
	}
}
