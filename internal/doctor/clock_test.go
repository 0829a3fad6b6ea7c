package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// Each kind of instant that a clock that was ahead leaves is told, until it is put right.
// Proves G301.
func TestExamine_TellsWhatAClockThatWasAheadHasLeft(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	if err != nil {
		t.Fatal(err)
	}
	touchAll(t, store)
	if got := toldOfClocks(t, pool, store); len(got) > 0 {
		t.Errorf("without a cause it says %q", got)
	}
	for _, statement := range []string{
		"UPDATE stint.limits SET refilled_at = refilled_at + interval '1 h'",
		"UPDATE stint.key_rates SET full_at = full_at + interval '1 h'",
		"UPDATE stint.schedules SET last_at = now() + interval '1 h'",
		"UPDATE stint.leases SET owned_at = owned_at + interval '1 h', " +
			"deadline = deadline + interval '1 h'",
		"UPDATE stint.finished SET finished_at = finished_at + interval '1 h'",
		"INSERT INTO stint.sessions (id, gone_at, grace, topics) " +
			"VALUES (1, now() + interval '1 h', '1 s', '{}')",
		"UPDATE stint.tasks SET inserted_at = inserted_at + interval '1 h'",
	} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	got := toldOfClocks(t, pool, store)
	for _, kind := range []string{
		"1 rates", "1 rates of keys", "1 schedules", "1 leases", "1 sessions", "1 ends of tasks",
		"note: 1 scheduled task was inserted by a clock that was ahead",
	} {
		if !slices.ContainsFunc(got, func(text string) bool {
			return strings.Contains(text, kind)
		}) {
			t.Errorf("it does not tell of %s: %q", kind, got)
		}
	}
	if err := store.Maintain(ctx); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"leases", "sessions", "ends of tasks"} {
		got := strings.Join(toldOfClocks(t, pool, store), "\n")
		if strings.Contains(got, "1 "+kind) {
			t.Errorf("it still tells of %s: %s", kind, got)
		}
	}
}

// A key that owes a lot is told of only if a clock that was ahead has written that.
// Proves G301, G342.
func TestExamine_TellsBudgetsOfAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	if err != nil {
		t.Fatal(err)
	}
	rate := stint.Rate{Tasks: 10, Per: time.Hour, Burst: 10}
	_, err = store.OwnTasks(ctx, "worker", 1, []string{"act"}, time.Minute)
	for _, err := range []error{
		err, store.SetLimits(ctx, "act", stint.Limits{RatePerKey: rate, ByCost: true}),
		store.InsertTasks(ctx, []stint.Task{{Action: "act", Key: "key", Cost: 1000}}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	owned, err := store.OwnTasks(ctx, "worker", 1, []string{"act"}, time.Minute)
	if err != nil || len(owned) != 1 {
		t.Fatalf("OwnTasks = %v, %v", owned, err)
	}
	wantTold := func(want int) {
		t.Helper()
		if got := toldOfClocks(t, pool, store); len(got) != want {
			t.Errorf("it says %q", got)
		}
	}
	wantTold(0)
	_, err = pool.Exec(ctx, `UPDATE stint.key_rates
		SET full_at = full_at + interval '1 h', seen_at = seen_at + interval '1 h'`)
	if err != nil {
		t.Fatal(err)
	}
	wantTold(1)
	if err := store.Maintain(ctx); err != nil {
		t.Fatal(err)
	}
	wantTold(0)
}

// touchAll has a store write an instant of each kind.
func touchAll(t *testing.T, store *stint.Store) {
	t.Helper()
	ctx := t.Context()
	rate := stint.Rate{Tasks: 10, Per: time.Second, Burst: 10}
	for _, err := range []error{
		store.SetLimits(ctx, "act", stint.Limits{Rate: rate, RatePerKey: rate}),
		store.InsertTasks(ctx, []stint.Task{
			{ID: "a", Action: "act", Key: "k"},
			{ID: "b", Action: "act", Key: "k"},
			{ID: "c", Action: "act", NotBefore: time.Now().Add(3 * time.Hour)},
		}),
		store.PutSchedules(ctx, []stint.Schedule{{
			Name: "s", Spec: "@yearly", Tasks: []stint.Task{{Action: "act"}},
		}}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	owned, err := store.OwnTasks(ctx, "actor", 2, []string{"act"}, time.Hour)
	if err != nil || len(owned) != 2 {
		t.Fatalf("OwnTasks = %v, %v", owned, err)
	}
	err = store.ReturnTask(ctx, owned[0].ID, owned[0].Token, "", stint.StatusCompleted)
	if err != nil {
		t.Fatal(err)
	}
}

// toldOfClocks is what is told of a clock that was ahead.
func toldOfClocks(t *testing.T, pool *pgxpool.Pool, store *stint.Store) (told []string) {
	t.Helper()
	findings, err := Examine(t.Context(), pool, store, migrations.DefaultSchema)
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range findings {
		if finding.Topic == "clock" && strings.Contains(finding.Text, "ahead") {
			told = append(told, string(finding.Severity)+": "+finding.Text)
		}
	}
	return told
}
