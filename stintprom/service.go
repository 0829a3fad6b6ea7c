package stintprom

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	procedureLabel = "procedure"
	codeLabel      = "code"
)

// ServiceMetrics counts and times the calls of services. It is a service.Metrics, for
// service.Options, and a [prometheus.Collector], for a registry. The package comment lists the
// metrics.
type ServiceMetrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	running  *prometheus.GaugeVec
	known    sync.Map // of the procedures whose series exist
}

var _ prometheus.Collector = (*ServiceMetrics)(nil)

// NewServiceMetrics returns metrics that count from zero. The services of a process share them: a
// registry takes only one.
func NewServiceMetrics() *ServiceMetrics {
	return &ServiceMetrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stint_service_calls_total", Help: "Calls that have ended.",
		}, []string{procedureLabel, codeLabel}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "stint_service_duration_seconds",
			Help:    "How long calls took, with the time that they waited for tasks.",
			Buckets: durationBuckets(), NativeHistogramBucketFactor: nativeFactor,
			NativeHistogramMaxBucketNumber:  nativeBucketsMax,
			NativeHistogramMinResetDuration: nativeResetAfter,
		}, []string{procedureLabel}),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "stint_service_running", Help: "Calls and streams under way.",
		}, []string{procedureLabel}),
	}
}

// Begin counts a call that begins. The service calls it.
func (m *ServiceMetrics) Begin(procedure string) {
	if _, known := m.known.Load(procedure); !known {
		m.know(procedure)
	}
	m.running.WithLabelValues(procedure).Inc()
}

// know makes the series of a procedure, with the codes that mean that the service fails, so that
// the first failure is seen to increase something.
func (m *ServiceMetrics) know(procedure string) {
	for _, code := range []string{"ok", "internal", "unavailable"} {
		m.calls.WithLabelValues(procedure, code)
	}
	m.duration.WithLabelValues(procedure)
	m.known.Store(procedure, true)
}

// End counts a call that has ended. The service calls it.
func (m *ServiceMetrics) End(procedure, code string, took time.Duration) {
	m.running.WithLabelValues(procedure).Dec()
	m.calls.WithLabelValues(procedure, code).Inc()
	m.duration.WithLabelValues(procedure).Observe(took.Seconds())
}

// Describe is for the registry.
func (m *ServiceMetrics) Describe(descs chan<- *prometheus.Desc) {
	m.calls.Describe(descs)
	m.duration.Describe(descs)
	m.running.Describe(descs)
}

// Collect is for the registry.
func (m *ServiceMetrics) Collect(metrics chan<- prometheus.Metric) {
	m.calls.Collect(metrics)
	m.duration.Collect(metrics)
	m.running.Collect(metrics)
}
