package worker_test

import (
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stint-tasks/stint/worker"
)

// noted counts what it is told.
type noted struct {
	mutex sync.Mutex
	begun map[string]int
	ended map[worker.Outcome]int
	wrong []time.Duration
}

func (n *noted) Begin(action string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.begun[action]++
}

func (n *noted) End(action string, outcome worker.Outcome, took time.Duration) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.begun[action]--
	n.ended[outcome]++
	if took < 0 || took > patience {
		n.wrong = append(n.wrong, took)
	}
}

func TestWorker_TellsMetricsOfEachPerformance(t *testing.T) {
	t.Parallel()
	metrics := &noted{begun: map[string]int{}, ended: map[worker.Outcome]int{}}
	ends(t, worker.Options{Metrics: metrics})
	metrics.mutex.Lock()
	defer metrics.mutex.Unlock()
	if want := map[string]int{"a": 0}; !maps.Equal(metrics.begun, want) {
		t.Errorf("under way at the end: %v, want %v", metrics.begun, want)
	}
	want := map[worker.Outcome]int{
		worker.OutcomeCompleted: 1, worker.OutcomeAborted: 3, worker.OutcomeLost: 1,
	}
	if !maps.Equal(metrics.ended, want) || len(metrics.wrong) > 0 {
		t.Errorf("ended: %v, want %v; took %v", metrics.ended, want, metrics.wrong)
	}
}
