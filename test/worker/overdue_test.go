package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/worker"
)

// outcomes are the metrics of a test.
type outcomes struct {
	mutex sync.Mutex
	ended []worker.Outcome
}

func (*outcomes) Begin(*stint.OwnedTask) {}

func (o *outcomes) End(_ *stint.OwnedTask, outcome worker.Outcome, _ time.Duration) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.ended = append(o.ended, outcome)
}

func (o *outcomes) all() []worker.Outcome {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return slices.Clone(o.ended)
}

// deaf is a handler that ignores its context for so long, and then completes its task.
func deaf(takes time.Duration) worker.Handler {
	return func(context.Context, *worker.Task) (worker.Result, error) {
		time.Sleep(takes)
		return worker.Result{}, nil
	}
}

// An overdueCase is a handler that does not return within the grace of its time-out.
type overdueCase struct {
	options  []worker.HandlerOption
	maxTries int
	givenUp  time.Duration // when
}

// A handler that ignores its time-out keeps its task no longer than the grace. It keeps its slot.
// Proves G293.
func TestWithTimeoutGrace_GivesUpTheTaskOfAHandlerThatHangs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]overdueCase{
		"by default": {
			[]worker.HandlerOption{worker.WithTimeout(time.Minute)}, 25, 90 * time.Second,
		},
		"its own":     {timeouts(time.Minute, time.Hour), 25, 61 * time.Minute},
		"a short one": {timeouts(time.Second, time.Millisecond), 25, 1001 * time.Millisecond},
		"on the last": {timeouts(time.Minute, time.Minute), 1, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, c.check)
		})
	}
}

func (c overdueCase) check(t *testing.T) {
	t.Helper()
	q := newPaperQueue(paperTasks(2, "a", c.maxTries)...)
	logger, logged := recorder(t)
	var metrics outcomes
	givenUp := firstReturn(q)
	reader := metric.NewManualReader()
	stop := paperWorker(t, q, worker.Options{
		Concurrency: 1, StopGrace: 1, Logger: logger, Metrics: &metrics,
		MeterProvider: metric.NewMeterProvider(metric.WithReader(reader)),
		Retry:         worker.Retry{Base: time.Hour},
	}, worker.Handle("a", deaf(3*time.Hour), c.options...))
	time.Sleep(2 * time.Hour)
	synctest.Wait()
	if late := *givenUp - c.givenUp; late < 0 || late > 5*time.Millisecond {
		t.Errorf("the task was given up after %v, want %v", *givenUp, c.givenUp)
	}
	if n := q.inProgress(); n != 0 {
		t.Errorf("%d tasks are in progress, want none in a slot that is kept", n)
	}
	if got := metrics.all(); !slices.Equal(got, []worker.Outcome{worker.OutcomeOverdue}) {
		t.Errorf("the outcomes are %v", got)
	}
	var collected metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &collected); err != nil {
		t.Error(err)
	} else if !strings.Contains(fmt.Sprint(collected), "overdue") {
		t.Error("OpenTelemetry is not told of an overdue task")
	}
	logged(t, "task is overdue: its handler did not return within the grace of its time-out")
	c.wantEnd(t, q)
	time.Sleep(90 * time.Minute) // the handler has returned, and the slot is free
	synctest.Wait()
	if len(q.handed) != 2 {
		t.Errorf("%d fetches, want another one in the slot", len(q.handed))
	}
	wantErr(t, "Run", stop(), worker.ErrStillRunning)
	time.Sleep(3 * time.Hour) // until no handler is left
}

// firstReturn is how long after now the first task is returned.
func firstReturn(q *paperQueue) *time.Duration {
	began, after := bubbleNow(), time.Duration(0)
	q.fails = func(_ context.Context, returns []stint.Return) error {
		if after == 0 && len(returns) > 0 {
			after = bubbleNow().Sub(began)
		}
		return nil
	}
	return &after
}

// wantEnd checks that the task has ended only if it was its last try, and says why.
func (c overdueCase) wantEnd(t *testing.T, q *paperQueue) {
	t.Helper()
	q.mutex.Lock()
	defer q.mutex.Unlock()
	ended, ok := q.ended["a/000"]
	if ok != (c.maxTries == 1) {
		t.Errorf("the task ended: %t", ok)
	}
	if want := worker.ErrTimeout.Error(); ok && !strings.HasPrefix(ended.Status, want) {
		t.Errorf("the status is %q", ended.Status)
	}
}

func timeouts(timeout, grace time.Duration) []worker.HandlerOption {
	return []worker.HandlerOption{worker.WithTimeout(timeout), worker.WithTimeoutGrace(grace)}
}

// Proves G293.
func TestWithTimeoutGrace_KeepsTheTaskMeanwhile(t *testing.T) {
	t.Parallel()
	const longest = time.Duration(math.MaxInt64)
	for name, options := range map[string][]worker.HandlerOption{
		"by default":    {worker.WithTimeout(time.Minute)},
		"for ever":      timeouts(time.Minute, longest),
		"no matter how": {worker.WithTimeout(longest)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := newPaperQueue(paperTasks(1, "a", 1)...)
				var metrics outcomes
				stop := paperWorker(t, q, worker.Options{Metrics: &metrics},
					worker.Handle("a", deaf(80*time.Second), options...))
				time.Sleep(81 * time.Second)
				synctest.Wait()
				want := []worker.Outcome{worker.OutcomeCompleted}
				if got := metrics.all(); !slices.Equal(got, want) {
					t.Errorf("the outcomes are %v", got)
				}
				for _, n := range q.extended {
					if n < 5 {
						t.Errorf("the lease was extended %d times, want it to last", n)
					}
				}
				if err := stop(); err != nil {
					t.Errorf("Run = %v", err)
				}
			})
		})
	}
}

// Of a call that hangs, the tasks of which something was said end so.
// Proves G239, G293.
func TestWithTimeoutGrace_EndsTheTasksOfACallThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newPaperQueue(paperTasks(4, "a", 1)...)
		var metrics outcomes
		stop := paperWorker(t, q, worker.Options{
			Concurrency: 4, StopGrace: 1, Metrics: &metrics,
		}, worker.HandleBatch("a", worker.Batch{Size: 4, Wait: time.Hour},
			func(_ context.Context, tasks []*worker.BatchTask) error {
				for _, task := range tasks {
					switch task.ID {
					case "a/000":
						task.End(worker.Result{Bytes: []byte("well")}, nil)
					case "a/001":
						task.End(worker.Result{}, errors.New("badly"))
					}
				}
				time.Sleep(time.Hour)
				return nil
			}, timeouts(time.Minute, 10*time.Second)...))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		got := metrics.all()
		slices.Sort(got)
		want := []worker.Outcome{
			worker.OutcomeAborted, worker.OutcomeCompleted, worker.OutcomeOverdue,
			worker.OutcomeOverdue,
		}
		if !slices.Equal(got, want) {
			t.Errorf("the outcomes are %v, want %v", got, want)
		}
		if r := q.ended["a/000"]; r.Code != stint.StatusCompleted || string(r.Result) != "well" {
			t.Errorf("got %+v, want it as was said", r)
		}
		if r := q.ended["a/001"]; r.Status != "badly" {
			t.Errorf("got %+v, want it as was said", r)
		}
		_ = stop()
		time.Sleep(time.Hour) // until the call has ended
	})
}

func TestNew_RefusesAGraceWithoutATimeout(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]worker.HandlerOption{
		"no time-out": {worker.WithTimeoutGrace(time.Second)},
		"none":        timeouts(time.Second, 0),
		"negative":    timeouts(time.Second, -1),
	} {
		_, err := worker.New(newPaperQueue(), worker.Options{},
			worker.Handle("a", done, options...))
		if !errors.Is(err, stint.ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The lease of a task that its handler has returned in a transaction that stays open is not
// extended for ever either.
// Proves G293.
func TestWithTimeoutGrace_LeavesAnOpenTransactionToTheLease(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t)
	insert(t, store, stint.Task{ID: "a", Action: "a"})
	returned, hang := make(chan struct{}, 1), make(chan struct{})
	committed := make(chan error, 1)
	run(t, newWorker(t, store, worker.Options{Lease: 200 * time.Millisecond},
		worker.Handle("a", func(_ context.Context, task *worker.Task) (worker.Result, error) {
			ctx := context.WithoutCancel(t.Context())
			tx, err := pool.Begin(ctx)
			if err != nil {
				return worker.Result{}, err
			}
			defer func() { _ = tx.Rollback(ctx) }()
			if err := task.ReturnIn(ctx, tx, worker.Result{}); err != nil {
				return worker.Result{}, err // overdue already: again
			}
			returned <- struct{}{}
			<-hang
			err = tx.Commit(ctx)
			committed <- err
			return worker.Result{}, err
		}, timeouts(time.Second, time.Second)...)))
	receive(t, "the return", returned)
	const long = time.Second // several leases
	for late := time.After(patience); ; {
		if time.Since(info(t, store, "a").LeaseUntil) > long {
			break
		}
		select {
		case <-late:
			t.Fatal("the lease is extended for ever")
		case <-time.After(50 * time.Millisecond):
		}
	}
	close(hang)
	if err := receive(t, "the commit", committed); err != nil {
		t.Errorf("commit = %v", err)
	}
	if got := finished(t, store, "a")[0]; got.State != stint.StateCompleted {
		t.Errorf("got %+v, want it completed by its transaction", got)
	}
}
