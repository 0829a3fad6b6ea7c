package stintprom_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/stintprom"
	"github.com/stint-tasks/stint/worker"
)

func TestWorkerMetrics_CountPerformancesByOutcome(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t, testdb.New(t))
	err := store.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "copy"}, {ID: "b", Action: "copy", MaxTries: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	metrics := stintprom.NewWorkerMetrics()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	perform := func(_ context.Context, task *worker.Task) (worker.Result, error) {
		if n := seriesOf(t, registry)["stint_worker_running action=copy"]; n != 1 {
			t.Errorf("%v running while a task is performed, want 1", n)
		}
		if task.ID == "b" {
			return worker.Result{}, errors.New("no")
		}
		return worker.Result{}, nil
	}
	w, err := worker.New(store, worker.Options{Metrics: metrics}, worker.Handle("copy", perform))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, ok, err := w.PerformNext(t.Context()); !ok || err != nil {
			t.Fatalf("PerformNext = %v, %v", ok, err)
		}
	}
	err = testutil.CollectAndCompare(metrics, strings.NewReader(`
# HELP stint_worker_performances_total Performances that have ended.
# TYPE stint_worker_performances_total counter
stint_worker_performances_total{action="copy",outcome="aborted"} 1
stint_worker_performances_total{action="copy",outcome="completed"} 1
stint_worker_performances_total{action="copy",outcome="lost"} 0
stint_worker_performances_total{action="copy",outcome="overdue"} 0
stint_worker_performances_total{action="copy",outcome="retried"} 0
stint_worker_performances_total{action="copy",outcome="snoozed"} 0
stint_worker_performances_total{action="copy",outcome="stopped"} 0
# HELP stint_worker_running Performances under way.
# TYPE stint_worker_running gauge
stint_worker_running{action="copy"} 0
`), "stint_worker_performances_total", "stint_worker_running")
	if err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(metrics); err != nil || len(problems) > 0 {
		t.Errorf("names: %v, %v", problems, err)
	}
}

func TestWorkerMetrics_TimePerformances(t *testing.T) {
	t.Parallel()
	metrics, task := stintprom.NewWorkerMetrics(), &stint.OwnedTask{Action: "copy"}
	for _, took := range []time.Duration{0, time.Second / 2, time.Second, time.Hour} {
		metrics.Begin(task)
		metrics.End(task, worker.OutcomeCompleted, took)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	families, err := registry.Gather()
	if err != nil || families[0].GetName() != "stint_worker_duration_seconds" {
		t.Fatalf("Gather = %v, %v", families, err)
	}
	histogram := families[0].GetMetric()[0].GetHistogram()
	if n, sum := histogram.GetSampleCount(), histogram.GetSampleSum(); n != 4 || sum != 3601.5 {
		t.Errorf("%d durations of %v s in all, want 4 of 3601.5", n, sum)
	}
	got := map[float64]uint64{}
	for _, bucket := range histogram.GetBucket() {
		got[bucket.GetUpperBound()] = bucket.GetCumulativeCount()
	}
	if got[0.001] != 1 || got[0.5] != 2 || got[1] != 3 || got[600] != 3 {
		t.Errorf("buckets = %v", got)
	}
	if len(histogram.GetPositiveSpan()) == 0 {
		t.Error("there is no native histogram")
	}
}

func ExampleNewWorkerMetrics() {
	ctx := context.Background()
	pool, drop, err := testdb.Open(ctx)
	if err != nil {
		panic(err)
	}
	defer func() { _ = drop() }()
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = store.Close(ctx) }()

	metrics := stintprom.NewWorkerMetrics()
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(stintprom.NewCollector(store), metrics)
	send := func(context.Context, *worker.Task) (worker.Result, error) {
		return worker.Result{}, nil
	}
	w, err := worker.New(store, worker.Options{Metrics: metrics}, worker.Handle("mail", send))
	if err != nil {
		panic(err)
	}

	if err := store.InsertTasks(ctx, []stint.Task{{ID: "1", Action: "mail"}}); err != nil {
		panic(err)
	}
	if _, _, err := w.PerformNext(ctx); err != nil {
		panic(err)
	}
	n, err := testutil.GatherAndCount(registry, "stint_tasks", "stint_worker_performances_total")
	fmt.Println(n, "series: seven states and seven outcomes", err)
	// Output: 14 series: seven states and seven outcomes <nil>
}
