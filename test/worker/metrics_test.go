package worker_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

// noted counts what it is told.
type noted struct {
	mutex sync.Mutex
	begun map[string]int
	ended map[worker.Outcome]int
	wrong []time.Duration
}

func (n *noted) Begin(task *stint.OwnedTask) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.begun[task.Action]++
}

func (n *noted) End(task *stint.OwnedTask, outcome worker.Outcome, took time.Duration) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.begun[task.Action]--
	n.ended[outcome]++
	if took < 0 || took > patience {
		n.wrong = append(n.wrong, took)
	}
}

func TestWorker_TellsMetricsOfEachPerformance(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
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

// seen looks at tasks when it is told that their performances have ended.
type seen struct {
	look func(*stint.OwnedTask)
}

func (seen) Begin(*stint.OwnedTask) {}

func (s seen) End(task *stint.OwnedTask, _ worker.Outcome, _ time.Duration) { s.look(task) }

// Whoever counts by what is in a task, such as its customer, sees each task, and as it is in the
// store.
func TestWorker_TellsMetricsOfATaskWhenItsReturnIsCommitted(t *testing.T) {
	t.Parallel()
	store := newStore(t, testdb.New(t))
	insert(t, store, stint.Task{ID: "a", Action: "a", Key: "ann", Body: []byte("body")})
	looked := 0
	w := newWorker(t, store, worker.Options{Metrics: seen{func(task *stint.OwnedTask) {
		looked++
		infos, err := store.GetTasks(t.Context(), []stint.TaskID{task.ID})
		if err != nil || infos[0].State != stint.StateCompleted {
			t.Errorf("when it has ended, the task is %v, %v", infos, err)
		}
		if task.Key != "ann" || string(task.Body) != "body" || task.Try != 1 {
			t.Errorf("the task is %+v", task)
		}
	}}}, worker.Handle("a", func(context.Context, *worker.Task) (worker.Result, error) {
		return worker.Result{}, nil
	}))
	if _, ok, err := w.PerformNext(t.Context()); !ok || err != nil || looked != 1 {
		t.Errorf("PerformNext = %t, %v, and %d tasks have ended", ok, err, looked)
	}
}
