package stintprom_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/stintprom"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func newStore(t *testing.T, pool *pgxpool.Pool) *stint.Store {
	t.Helper()
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return store
}

// seriesOf are the values of the gauges and counters that are gathered, by name and labels.
func seriesOf(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetName() + "=" + label.GetValue()
			}
			series[name] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	return series
}

func TestCollector_TellsHowManyTasksThereAre(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t, testdb.New(t))
	err := store.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "copy"},
		{ID: "b", Action: "copy"},
		{ID: "c", Action: "report", After: []stint.TaskID{"a", "b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	collector := stintprom.NewCollector(store)
	err = testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP stint_tasks Tasks in the store.
# TYPE stint_tasks gauge
stint_tasks{action="copy",state="aborted"} 0
stint_tasks{action="copy",state="blocked"} 0
stint_tasks{action="copy",state="completed"} 0
stint_tasks{action="copy",state="in-progress"} 0
stint_tasks{action="copy",state="ready"} 2
stint_tasks{action="copy",state="scheduled"} 0
stint_tasks{action="copy",state="skipped"} 0
stint_tasks{action="report",state="aborted"} 0
stint_tasks{action="report",state="blocked"} 1
stint_tasks{action="report",state="completed"} 0
stint_tasks{action="report",state="in-progress"} 0
stint_tasks{action="report",state="ready"} 0
stint_tasks{action="report",state="scheduled"} 0
stint_tasks{action="report",state="skipped"} 0
`), "stint_tasks")
	if err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(collector); err != nil || len(problems) > 0 {
		t.Errorf("names: %v, %v", problems, err)
	}
}

func TestCollector_CountsTries(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t, testdb.New(t))
	err := store.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "copy"}, {ID: "b", Action: "copy"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.OwnTasks(t.Context(), "actor", 2, []string{"copy"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	collector := stintprom.NewCollector(store)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)
	for seriesOf(t, registry)["stint_tries_total action=copy"] == 0 { // in a second or so
		<-time.After(10 * time.Millisecond)
	}
	err = testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP stint_retries_total Tasks that were fetched not for their first try.
# TYPE stint_retries_total counter
stint_retries_total{action="copy"} 0
# HELP stint_tries_total Tasks that were fetched.
# TYPE stint_tries_total counter
stint_tries_total{action="copy"} 2
`), "stint_tries_total", "stint_retries_total")
	if err != nil {
		t.Error(err)
	}
}

// A series that comes only with the first task of its kind hides that task from an alarm, and one
// that goes leaves a gap in a graph.
func TestCollector_KeepsItsSeriesWhateverBecomesOfTheTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t, testdb.New(t))
	if err := store.InsertTasks(t.Context(), []stint.Task{{ID: "a", Action: "copy"}}); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(stintprom.NewCollector(store))
	want := seriesOf(t, registry)
	if n := want["stint_oldest_ready_seconds action=copy"]; n == 0 {
		t.Errorf("the oldest ready task has been ready for %v s, want more", n)
	}
	owned, err := store.OwnTasks(t.Context(), "actor", 1, []string{"copy"}, time.Hour)
	if err != nil || len(owned) != 1 {
		t.Fatalf("OwnTasks = %v, %v", owned, err)
	}
	err = store.ReturnTask(t.Context(), "a", owned[0].Token, "", stint.StatusCompleted)
	if err != nil {
		t.Fatal(err)
	}
	got := seriesOf(t, registry)
	if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
		t.Errorf("series: %v, want those of before: %v", got, want)
	}
	if got["stint_tasks action=copy state=completed"] != 1 ||
		got["stint_tasks action=copy state=ready"] != 0 ||
		got["stint_oldest_ready_seconds action=copy"] != 0 {
		t.Errorf("series: %v", got)
	}
	// Seven states, the oldest, the lost and two counters of the action; seven estimates; pruning.
	if len(got) != 7+1+1+2+7+1 {
		t.Errorf("%d series: %v", len(got), got)
	}
}

func TestCollector_FailsTheScrapeWithoutADatabase(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	store := newStore(t, pool)
	pool.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(stintprom.NewCollector(store))
	if _, err := registry.Gather(); err == nil || !strings.Contains(err.Error(), "stats") {
		t.Errorf("Gather = %v, want the error of Stats", err)
	}
}

func TestCollector_TellsOfLimits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	store := newStore(t, testdb.New(t))
	err := errors.Join(
		store.SetLimits(ctx, "copy", stint.Limits{Concurrency: 3, ConcurrencyPerKey: 1}),
		store.Pause(ctx, "report"),
		store.InsertTasks(ctx, []stint.Task{
			{ID: "a", Action: "copy", Key: "k"},
			{ID: "b", Action: "copy", Key: "k"},
			{ID: "c", Action: "free"},
		}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.OwnTasks(ctx, "actor", 2, []string{"copy"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	collector := stintprom.NewCollector(store)
	err = testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP stint_concurrency_limit How many tasks may be in progress at once.
# TYPE stint_concurrency_limit gauge
stint_concurrency_limit{action="copy"} 3
# HELP stint_parked_tasks Ready tasks that wait for room, a resume or the turn of their key.
# TYPE stint_parked_tasks gauge
stint_parked_tasks{action="copy"} 1
stint_parked_tasks{action="report"} 0
# HELP stint_paused 1 if the action is paused, else 0.
# TYPE stint_paused gauge
stint_paused{action="copy"} 0
stint_paused{action="report"} 1
`), "stint_concurrency_limit", "stint_parked_tasks", "stint_paused")
	if err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(collector); err != nil || len(problems) > 0 {
		t.Errorf("names: %v, %v", problems, err)
	}
}
