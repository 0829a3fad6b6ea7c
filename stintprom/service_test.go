package stintprom_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/stintprom"
)

func TestServiceMetrics_CountCallsByCode(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	metrics := stintprom.NewServiceMetrics()
	address, stop := testservice.Start(t, pool, newStore(t, pool),
		service.Options{Metrics: metrics})
	c := testservice.Client(t, address, client.Options{})
	if _, err := c.Stats(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Explain(t.Context(), "none"); err == nil {
		t.Error("Explain of no task = nil")
	}
	if err := stop(); err != nil { // then all calls have ended
		t.Fatal(err)
	}
	err := testutil.CollectAndCompare(metrics, strings.NewReader(`
# HELP stint_service_calls_total Calls that have ended.
# TYPE stint_service_calls_total counter
stint_service_calls_total{code="internal",procedure="/stint.v1.TaskService/ExplainTask"} 0
stint_service_calls_total{code="not_found",procedure="/stint.v1.TaskService/ExplainTask"} 1
stint_service_calls_total{code="ok",procedure="/stint.v1.TaskService/ExplainTask"} 0
stint_service_calls_total{code="unavailable",procedure="/stint.v1.TaskService/ExplainTask"} 0
stint_service_calls_total{code="internal",procedure="/stint.v1.TaskService/GetStats"} 0
stint_service_calls_total{code="ok",procedure="/stint.v1.TaskService/GetStats"} 1
stint_service_calls_total{code="unavailable",procedure="/stint.v1.TaskService/GetStats"} 0
# HELP stint_service_running Calls and streams under way.
# TYPE stint_service_running gauge
stint_service_running{procedure="/stint.v1.TaskService/ExplainTask"} 0
stint_service_running{procedure="/stint.v1.TaskService/GetStats"} 0
`), "stint_service_calls_total", "stint_service_running")
	if err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(metrics); err != nil || len(problems) > 0 {
		t.Errorf("names: %v, %v", problems, err)
	}
}

func TestServiceMetrics_TimeCalls(t *testing.T) {
	t.Parallel()
	metrics := stintprom.NewServiceMetrics()
	for _, took := range []time.Duration{time.Millisecond, time.Second} {
		metrics.Begin("other")
		metrics.End("other", "unimplemented", took)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		histogram := family.GetMetric()[0].GetHistogram()
		if histogram == nil {
			continue
		}
		if family.GetName() != "stint_service_duration_seconds" ||
			histogram.GetSampleCount() != 2 || histogram.GetSampleSum() != 1.001 {
			t.Errorf("%s = %v", family.GetName(), histogram)
		}
		return
	}
	t.Error("there is no histogram")
}
