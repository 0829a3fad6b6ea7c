package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

// A paperQueue is a queue without a database, for tests in a bubble: their clock stands while
// anything runs, so that what takes how long is exact. It keeps tries as a store does.
type paperQueue struct {
	// takes is how long a fetch takes.
	takes time.Duration
	// fails, if it is set, says with which error a call for returns fails. It may wait.
	fails func(ctx context.Context, returns []stint.Return) error

	mutex    sync.Mutex
	ready    []stint.OwnedTask
	owned    map[stint.Token]stint.OwnedTask
	ended    map[stint.TaskID]stint.Return
	released []released
	extended map[stint.Token]int
	handed   map[stint.Token]time.Time
	changed  chan struct{}
	tokens   int
	silent   bool          // no call is answered
	slow     time.Duration // how long a fetch of a silent queue goes on behind its context
}

// released is a task that was given back unbegun, and when.
type released struct {
	id stint.TaskID
	at time.Time
}

func newPaperQueue(tasks ...stint.OwnedTask) *paperQueue {
	for i := range tasks {
		tasks[i].MaxTries = max(tasks[i].MaxTries, 1)
	}
	return &paperQueue{
		takes: time.Millisecond, ready: tasks, owned: map[stint.Token]stint.OwnedTask{},
		ended: map[stint.TaskID]stint.Return{}, extended: map[stint.Token]int{},
		handed: map[stint.Token]time.Time{}, changed: make(chan struct{}),
	}
}

// paperTasks are tasks with so many tries.
func paperTasks(n int, action string, maxTries int) []stint.OwnedTask {
	tasks := make([]stint.OwnedTask, n)
	for i := range tasks {
		tasks[i] = stint.OwnedTask{
			ID: stint.TaskID(fmt.Sprintf("%s/%03d", action, i)), Action: action, MaxTries: maxTries,
		}
	}
	return tasks
}

func (q *paperQueue) insert(tasks ...stint.OwnedTask) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.ready = append(q.ready, tasks...)
	q.wake()
}

// wake wakes those who wait. The mutex is held.
func (q *paperQueue) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *paperQueue) take(most int, actions []string) (owned []stint.OwnedTask) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	var rest []stint.OwnedTask
	for ; len(owned) < most && len(q.ready) > 0; q.ready = q.ready[1:] {
		task := q.ready[0]
		if !slices.Contains(actions, task.Action) {
			rest = append(rest, task)
			continue
		}
		q.tokens++
		task.Try++
		task.Token = stint.Token{
			6: 0x80, 8: 0x80, 14: byte(q.tokens >> 8), 15: byte(q.tokens),
		}
		q.owned[task.Token], q.handed[task.Token] = task, bubbleNow()
		owned = append(owned, task)
	}
	if len(rest) > 0 {
		q.ready = append(rest, q.ready...)
	}
	return owned
}

func (q *paperQueue) OwnTasks(
	ctx context.Context, _ stint.ActorID, most int, actions []string, _ time.Duration,
) ([]stint.OwnedTask, error) {
	select {
	case <-time.After(q.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := q.answers(ctx); err != nil {
		time.Sleep(q.slow)
		return nil, err
	}
	return q.take(most, actions), nil
}

func (q *paperQueue) WaitToOwnTasks(
	ctx context.Context, actor stint.ActorID, most int, actions []string, lease time.Duration,
) ([]stint.OwnedTask, error) {
	for {
		q.mutex.Lock()
		changed := q.changed
		q.mutex.Unlock()
		owned, err := q.OwnTasks(ctx, actor, most, actions, lease)
		if err != nil || len(owned) > 0 {
			return owned, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if q.answers(ctx) != nil && q.isSilent() {
				time.Sleep(q.slow)
			}
			return nil, ctx.Err()
		}
	}
}

func (q *paperQueue) ReturnTasks(ctx context.Context, returns []stint.Return) ([]error, error) {
	if err := q.answers(ctx); err != nil {
		return nil, err
	}
	if q.fails != nil {
		if err := q.fails(ctx, returns); err != nil {
			return nil, err
		}
	}
	q.mutex.Lock()
	defer q.mutex.Unlock()
	verdicts := make([]error, len(returns))
	for i, r := range returns {
		task, ok := q.owned[r.Token]
		if !ok {
			verdicts[i] = &stint.TaskError{IDs: []stint.TaskID{r.ID}, Err: stint.ErrInvalidToken}
			continue
		}
		delete(q.owned, r.Token)
		if r.Release && r.Status == "" {
			q.released = append(q.released, released{r.ID, bubbleNow()})
		}
		if r.Release {
			task.Try--
		}
		if r.Code == stint.StatusPending && (task.MaxTries == 0 || task.Try < task.MaxTries) {
			q.ready = append(q.ready, task)
		} else {
			q.ended[r.ID] = r
		}
	}
	q.wake()
	return verdicts, nil
}

func (q *paperQueue) ReturnAndOwnTasks(
	ctx context.Context, returns []stint.Return, want stint.Want,
) (verdicts []error, owned []stint.OwnedTask, err error) {
	if want.MaxTasks > 0 {
		owned, err = q.OwnTasks(ctx, want.Actor, want.MaxTasks, want.Actions, want.Lease)
	}
	if err == nil {
		verdicts, err = q.ReturnTasks(ctx, returns)
	}
	return verdicts, owned, err
}

func (q *paperQueue) ExtendTasksOwnership(
	ctx context.Context, _ stint.ActorID, owned []stint.OwnedTask, _ time.Duration,
) ([]bool, error) {
	if err := q.answers(ctx); err != nil {
		return nil, err
	}
	q.mutex.Lock()
	defer q.mutex.Unlock()
	kept := make([]bool, len(owned))
	for i, task := range owned {
		if _, kept[i] = q.owned[task.Token]; kept[i] {
			q.extended[task.Token]++
		}
	}
	return kept, nil
}

// answers waits for ever if the queue is silent.
func (q *paperQueue) answers(ctx context.Context) error {
	if q.isSilent() {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (q *paperQueue) RegisterActor(ctx context.Context, _ stint.ActorID, _ []string) error {
	return q.answers(ctx)
}

func (q *paperQueue) UnregisterActor(ctx context.Context, _ stint.ActorID) error {
	return q.answers(ctx)
}

func (q *paperQueue) WatchOwnership(
	func() []stint.OwnedTask, func(stint.OwnedTask, error),
) (stop func()) {
	return func() {}
}

func (q *paperQueue) SetStatus(context.Context, stint.OwnedTask, string, float64) error {
	return errors.ErrUnsupported
}

func (q *paperQueue) Fence(context.Context, stint.OwnedTask) (int64, error) {
	return 0, errors.ErrUnsupported
}

func (q *paperQueue) Inputs(context.Context, stint.OwnedTask) ([]stint.Input, error) {
	return nil, errors.ErrUnsupported
}

func (q *paperQueue) RecordStep(
	context.Context, stint.OwnedTask, string, []byte,
) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

func (q *paperQueue) Steps(context.Context, stint.OwnedTask) ([]stint.RecordedStep, error) {
	return nil, errors.ErrUnsupported
}

// paperWorker runs a worker in a bubble, until stop is called, which returns what Run returned.
func paperWorker(
	t *testing.T, q *paperQueue, options worker.Options, handlers ...worker.Registration,
) (stop func() error) {
	t.Helper()
	w, err := worker.New(q, options, handlers...)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, w)
}

func (q *paperQueue) silence(silent bool) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.silent = silent
}

func (q *paperQueue) isSilent() bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return q.silent
}

func (q *paperQueue) inProgress() int {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return len(q.owned)
}

var errCut = errors.New("connection was cut")

// bubbleNow is the time of the bubble.
func bubbleNow() time.Time { return time.Now() }
