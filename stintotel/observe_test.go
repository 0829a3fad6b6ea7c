package stintotel_test

import (
	"context"
	"maps"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/stintotel"
)

func TestObserve_TellsHowManyTasksThereAre(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, err := stint.New(testdb.New(t), stint.Options{Maintenance: stint.MaintainNever})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	err = store.InsertTasks(ctx, []stint.Task{
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
	got := collect(t, reader)
	want := map[string]int64{"copy ready": 2, "report blocked": 1}
	if !maps.Equal(got, want) {
		t.Errorf("stint.tasks = %v, want %v", got, want)
	}
	if err := registration.Unregister(); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, reader); len(got) > 0 {
		t.Errorf("stint.tasks = %v, want nothing once it is over", got)
	}
}

// collect returns the values of stint.tasks, by action and state.
func collect(t *testing.T, reader metric.Reader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			gauge, ok := m.Data.(metricdata.Gauge[int64])
			if m.Name != "stint.tasks" || !ok {
				continue
			}
			for _, point := range gauge.DataPoints {
				action, _ := point.Attributes.Value(attribute.Key("stint.task.action"))
				state, _ := point.Attributes.Value(attribute.Key("stint.task.state"))
				found[action.AsString()+" "+state.AsString()] = point.Value
			}
		}
	}
	return found
}
