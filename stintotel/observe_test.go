package stintotel_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/stintotel"
	"github.com/stint-tasks/stint/stintprom"
	"github.com/stint-tasks/stint/worker"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func newStore(t *testing.T) *stint.Store {
	t.Helper()
	store, err := stint.New(testdb.New(t), stint.Options{Maintenance: stint.MaintainNever})
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

func TestObserve_TellsHowManyTasksThereAre(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	store := newStore(t)
	err := store.InsertTasks(ctx, []stint.Task{
		{ID: "a", Action: "copy"},
		{ID: "b", Action: "copy"},
		{ID: "c", Action: "report", After: []stint.TaskID{"a", "b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	registration, err := stintotel.Observe(store, provider)
	if err != nil {
		t.Fatal(err)
	}
	got := collect(t, reader, "stint.tasks")
	want := map[string]int64{"copy ready": 2, "report blocked": 1}
	for state := range (stint.ActionStats{}).ByState() { // zeros included
		for _, action := range []string{"copy ", "report "} {
			want[action+string(state)] += 0
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("stint.tasks = %v, want %v", got, want)
	}
	if _, err := store.OwnTasks(ctx, "actor", 2, []string{"copy"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	want = map[string]int64{"copy ": 2, "report ": 0}
	for !maps.Equal(collect(t, reader, "stint.tries"), want) { // in a second or so
		<-time.After(10 * time.Millisecond)
	}
	if err := registration.Unregister(); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, reader, "stint.tasks"); len(got) > 0 {
		t.Errorf("stint.tasks = %v, want nothing once it is over", got)
	}
}

// Whoever changes from one to the other finds the metrics.
func TestObserve_NamesMetricsAsPackageStintpromDoes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	if err := store.InsertTasks(t.Context(), []stint.Task{{ID: "a", Action: "copy"}}); err != nil {
		t.Fatal(err)
	}
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	metrics := stintprom.NewWorkerMetrics()
	done := func(context.Context, *worker.Task) (worker.Result, error) {
		return worker.Result{}, nil
	}
	w, err := worker.New(store, worker.Options{MeterProvider: provider, Metrics: metrics},
		worker.Handle("copy", done))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := w.PerformNext(t.Context()); !ok || err != nil {
		t.Fatalf("PerformNext = %v, %v", ok, err)
	}
	err = store.SetLimits(t.Context(), "copy", stint.Limits{Concurrency: 3})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(stintprom.NewCollector(store), metrics)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, family := range families {
		want = append(want, family.GetName())
	}
	if _, err := stintotel.Observe(store, provider); err != nil {
		t.Fatal(err)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			name := strings.ReplaceAll(m.Name, ".", "_")
			if m.Unit == "s" {
				name += "_seconds"
			}
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && sum.IsMonotonic {
				name += "_total"
			}
			got = append(got, name)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) || !slices.Contains(want, "stint_worker_duration_seconds") {
		t.Errorf("by Prometheus' rules the names are %q, want %q", got, want)
	}
}

// collect returns the values of a metric, by action and state.
func collect(t *testing.T, reader metric.Reader, name string) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			var points []metricdata.DataPoint[int64]
			switch data := m.Data.(type) {
			case metricdata.Gauge[int64]:
				points = data.DataPoints
			case metricdata.Sum[int64]:
				points = data.DataPoints
			}
			for _, point := range points {
				action, _ := point.Attributes.Value(attribute.Key("stint.task.action"))
				state, _ := point.Attributes.Value(attribute.Key("stint.task.state"))
				found[action.AsString()+" "+state.AsString()] = point.Value
			}
		}
	}
	return found
}

func TestObserve_TellsOfLimits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	store := newStore(t)
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
	reader := metric.NewManualReader()
	_, err = stintotel.Observe(store, metric.NewMeterProvider(metric.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]map[string]int64{
		"stint.parked_tasks":      {"copy ": 1, "report ": 0},
		"stint.concurrency_limit": {"copy ": 3},
		"stint.paused":            {"copy ": 0, "report ": 1},
	} {
		if got := collect(t, reader, name); !maps.Equal(got, want) {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
}
