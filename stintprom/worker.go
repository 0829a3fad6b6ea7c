package stintprom

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

// durationBuckets are the bounds of the classic histogram, from a millisecond to ten minutes.
func durationBuckets() []float64 {
	return []float64{
		0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
		1, 2.5, 5, 10, 30, 60, 120, 300, 600,
	}
}

// The native histogram, for servers that ask for one: each bucket is a tenth wider than the one
// before it, and there are as many as OpenTelemetry has.
const (
	nativeFactor     = 1.1
	nativeBucketsMax = 160
	nativeResetAfter = time.Hour
)

// WorkerMetrics counts and times the performances of workers. It is a [worker.Metrics], for
// [worker.Options], and a [prometheus.Collector], for a registry. The package comment lists the
// metrics.
type WorkerMetrics struct {
	performances *prometheus.CounterVec
	duration     *prometheus.HistogramVec
	running      *prometheus.GaugeVec
	known        sync.Map // of the actions whose series exist
}

var (
	_ worker.Metrics       = (*WorkerMetrics)(nil)
	_ prometheus.Collector = (*WorkerMetrics)(nil)
)

// NewWorkerMetrics returns metrics that count from zero. The workers of a process share them: a
// registry takes only one.
func NewWorkerMetrics() *WorkerMetrics {
	return &WorkerMetrics{
		performances: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stint_worker_performances_total", Help: "Performances that have ended.",
		}, []string{actionLabel, outcomeLabel}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "stint_worker_duration_seconds",
			Help:    "How long performances took until the task was returned.",
			Buckets: durationBuckets(), NativeHistogramBucketFactor: nativeFactor,
			NativeHistogramMaxBucketNumber:  nativeBucketsMax,
			NativeHistogramMinResetDuration: nativeResetAfter,
		}, []string{actionLabel}),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "stint_worker_running", Help: "Performances under way.",
		}, []string{actionLabel}),
	}
}

// Begin counts a performance that begins. The worker calls it.
func (m *WorkerMetrics) Begin(task *stint.OwnedTask) {
	if _, known := m.known.Load(task.Action); !known {
		m.know(task.Action)
	}
	m.running.WithLabelValues(task.Action).Inc()
}

// know makes the series of an action, so that its first failure is seen to increase something.
func (m *WorkerMetrics) know(action string) {
	for _, outcome := range []worker.Outcome{
		worker.OutcomeCompleted, worker.OutcomeRetried, worker.OutcomeSnoozed,
		worker.OutcomeAborted, worker.OutcomeStopped, worker.OutcomeLost,
		worker.OutcomeOverdue,
	} {
		m.performances.WithLabelValues(action, string(outcome))
	}
	m.duration.WithLabelValues(action)
	m.known.Store(action, true)
}

// End counts a performance that has ended. The worker calls it.
func (m *WorkerMetrics) End(task *stint.OwnedTask, outcome worker.Outcome, took time.Duration) {
	m.running.WithLabelValues(task.Action).Dec()
	m.performances.WithLabelValues(task.Action, string(outcome)).Inc()
	m.duration.WithLabelValues(task.Action).Observe(took.Seconds())
}

// Describe is for the registry.
func (m *WorkerMetrics) Describe(descs chan<- *prometheus.Desc) {
	m.performances.Describe(descs)
	m.duration.Describe(descs)
	m.running.Describe(descs)
}

// Collect is for the registry.
func (m *WorkerMetrics) Collect(metrics chan<- prometheus.Metric) {
	m.performances.Collect(metrics)
	m.duration.Collect(metrics)
	m.running.Collect(metrics)
}
