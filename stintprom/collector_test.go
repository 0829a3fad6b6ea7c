package stintprom_test

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
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

func TestCollector_TellsHowManyTasksThereAre(t *testing.T) {
	t.Parallel()
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
stint_tasks{stint_task_action="copy",stint_task_state="ready"} 2
stint_tasks{stint_task_action="report",stint_task_state="blocked"} 1
`), "stint_tasks", "stint_estimated")
	if err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(collector, "stint_oldest_ready_seconds"); n != 1 {
		t.Errorf("%d actions have an oldest ready task, want 1", n)
	}
	if problems, err := testutil.CollectAndLint(collector); err != nil || len(problems) > 0 {
		t.Errorf("names: %v, %v", problems, err)
	}
}

func TestCollector_CountsTries(t *testing.T) {
	t.Parallel()
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
	for testutil.CollectAndCount(collector, "stint_tries_total") == 0 { // in a second or so
		<-time.After(10 * time.Millisecond)
	}
	err = testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP stint_retries_total Tasks that were handed out not for their first try.
# TYPE stint_retries_total counter
stint_retries_total{stint_task_action="copy"} 0
# HELP stint_tries_total Tasks that were handed out.
# TYPE stint_tries_total counter
stint_tries_total{stint_task_action="copy"} 2
`), "stint_tries_total", "stint_retries_total")
	if err != nil {
		t.Error(err)
	}
}

// The dashboard asks for what there is: by package worker, through OpenTelemetry, and by this one.
func TestDashboard_NamesMetricsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/grafana.json")
	if err != nil || !json.Valid(text) {
		t.Fatalf("ReadFile = %v, valid JSON: %v", err, json.Valid(text))
	}
	known := []string{
		"stint_tasks", "stint_oldest_ready_seconds", "stint_task_action", "stint_task_state",
		"stint_outcome",
		"stint_worker_performed_total", "stint_worker_duration_seconds_bucket",
		"stint_worker_running", "stint_tries_total", "stint_retries_total",
		"stint_pruning_behind_seconds",
	}
	for _, name := range regexp.MustCompile(`stint_\w+`).FindAllString(string(text), -1) {
		if !slices.Contains(known, name) {
			t.Errorf("there is no %s", name)
		}
	}
}

func TestCollector_FailsTheScrapeWithoutADatabase(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	store := newStore(t, pool)
	pool.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(stintprom.NewCollector(store))
	if _, err := registry.Gather(); err == nil || !strings.Contains(err.Error(), "stats") {
		t.Errorf("Gather = %v, want the error of Stats", err)
	}
}
