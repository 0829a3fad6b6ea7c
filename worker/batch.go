package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-tasks/stint/internal/callctx"
	"github.com/stint-tasks/stint/internal/safely"
)

// A BatchHandler performs several tasks of one action in one call. It says with [BatchTask.End] how
// each has ended. A task of which it says nothing ends as the handler does: it is completed without
// a result if the handler returns no error, and otherwise given back for another try, or as
// [Abort], [RetryAfter] and [Snooze] say. If the handler panics, that concerns only the tasks of
// which it has said nothing.
//
// Ctx ends when the contexts of all the tasks have ended, with the cause of the last; it has the
// values that the context of the first task has, except its span and its baggage, which are those
// of [BatchTask.Context]. The tasks are in no order.
type BatchHandler func(ctx context.Context, tasks []*BatchTask) error

// A Batch says which tasks a [BatchHandler] is given in one call.
type Batch struct {
	// Size is how many tasks a call is given at most. Each takes a slot, so the action must have
	// as many: [WithConcurrency] or [Options.Concurrency]; for several calls at once it needs a
	// multiple of them. Default: 100, or the slots of the action if these are fewer.
	Size int

	// Wait is how long the first task of a call waits for others. A limit of the action
	// ([stint.Limits]) that is less than Size lets each call wait so long. At most an hour.
	// Default: 100 ms.
	Wait time.Duration

	// ByKey says that the tasks of a call have the same key ([stint.Task.Key]), or all have none.
	ByKey bool
}

const (
	batchSizeDefault = 100
	batchWaitDefault = 100 * time.Millisecond
	batchWaitMax     = time.Hour
)

// Context returns the context of the task: it ends as that of a [Handler] does, for example when
// this task is lost and the others of the call are not.
func (t *BatchTask) Context() context.Context { return t.ctx }

// End says how the task has ended, as a [Handler] says it by what it returns. The task is returned
// when the call ends, with the others, or as soon as the worker no longer waits for the call: when
// it stops, or the time-out has passed for long ([WithTimeoutGrace]). The last call counts; one
// after the handler has returned has no effect.
func (t *BatchTask) End(result Result, err error) {
	said := call(t.ctx, func(context.Context, *Task) (Result, error) { return result, err }, nil)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if !t.closed {
		t.ended, t.result, t.err, t.said = true, result, err, said
	}
}

// ending returns how the handler has said that the task has ended, if it has.
func (t *BatchTask) ending() (ending, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.said, t.ended
}

// close ends the task as the handler has ended, unless it has said how.
func (t *BatchTask) close(err error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.closed = true; !t.ended {
		t.err = err
	}
	close(t.over)
}

func (b Batch) check() error {
	switch {
	case b.Size < 0:
		return argumentError("Batch.Size", "must not be negative")
	case b.Wait < 0:
		return argumentError("Batch.Wait", "must not be negative")
	case b.Wait > batchWaitMax:
		return argumentError("Batch.Wait", "must not exceed an hour")
	}
	return nil
}

// A gatherer gathers the tasks of an action of a worker into the calls of its handler.
type gatherer struct {
	Batch
	handler   BatchHandler
	telemetry *telemetry

	// crowded says that all slots are taken: then joined is sent to when a task joins.
	crowded atomic.Bool
	joined  chan<- struct{}

	mutex sync.Mutex // guards the fields below
	// open says that tasks wait for others: the worker runs and does not stop.
	open     bool
	gathered map[string]*gathering // by key
	begunAt  time.Time             // of the last call
}

// A gathering is the tasks of one call.
type gathering struct {
	*gatherer
	key   string
	since time.Time
	tasks []*BatchTask
	timer *time.Timer
}

// size sets the size of a batch where the action has so many slots.
func (g *gatherer) size(slots int) error {
	if g.Size > slots {
		return argumentError("Batch.Size", "must not exceed the slots of the action, since each "+
			"task takes one: see WithConcurrency and Options.Concurrency")
	}
	if g.Size == 0 {
		g.Size = min(batchSizeDefault, slots)
	}
	return nil
}

// setOpen has tasks wait for others from now on, or no longer.
func (g *gatherer) setOpen(open bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.open = open; !open {
		for _, ready := range g.gathered {
			ready.begin()
		}
	}
}

// perform is the [Handler] of each task. The call is made by a goroutine of its own.
func (g *gatherer) perform(ctx context.Context, task *Task) (Result, error) {
	t := &BatchTask{Task: task, ctx: ctx, over: make(chan struct{})}
	task.inBatch.Store(t)
	joined := g.join(t)
	if g.crowded.Load() {
		wakeUp(g.joined)
	}
	select {
	case <-t.over:
	case <-ctx.Done():
		if g.leave(joined, t) {
			return Result{}, context.Cause(ctx)
		}
		<-t.over
	}
	return t.result, t.err
}

// join adds a task to the next call.
func (g *gatherer) join(t *BatchTask) *gathering {
	key := ""
	if g.ByKey {
		key = t.Key
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	joined := g.gathered[key]
	if joined == nil {
		joined = &gathering{gatherer: g, key: key, since: now()}
		joined.timer = time.AfterFunc(g.Wait, joined.beginNow)
		g.gathered[key] = joined
	}
	joined.tasks = append(joined.tasks, t)
	if !g.open || len(joined.tasks) == g.Size {
		joined.begin()
	}
	return joined
}

// leave takes a task out of a call that has not begun, and reports whether it could.
func (g *gatherer) leave(joined *gathering, t *BatchTask) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.gathered[joined.key] != joined {
		return false
	}
	for i := range joined.tasks {
		if joined.tasks[i] == t {
			joined.tasks = append(joined.tasks[:i], joined.tasks[i+1:]...)
			break
		}
	}
	if len(joined.tasks) == 0 {
		joined.timer.Stop()
		delete(g.gathered, joined.key)
	}
	return true
}

// A gathered is what gathers for calls: how many tasks in all, the call for which most do, for how
// many, and when the last call began.
type gathered struct {
	all, most int
	fullest   *gathering
	begunAt   time.Time
}

// add counts what gathers for the calls of g as well.
func (s *gathered) add(g *gatherer) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for _, ready := range g.gathered {
		n := len(ready.tasks)
		if s.all += n; n > s.most || n == s.most && ready.since.Before(s.fullest.since) {
			s.most, s.fullest = n, ready
		}
	}
	if g.begunAt.After(s.begunAt) {
		s.begunAt = g.begunAt
	}
}

// beginNow begins a call unless it has begun.
func (g *gathering) beginNow() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.gathered[g.key] == g {
		g.begin()
	}
}

// begin begins a call. The caller has locked the mutex.
func (g *gathering) begin() {
	g.timer.Stop()
	delete(g.gathered, g.key)
	g.begunAt = now()
	go g.perform()
}

// perform calls the handler, and ends the tasks also if that ends the goroutine.
func (g *gathering) perform() {
	ctx, stop := g.context()
	err := errExited
	defer func() {
		stop(err)
		for _, t := range g.tasks {
			t.close(err)
		}
	}()
	for _, t := range g.tasks {
		if t.callBegins != nil {
			t.callBegins()
		}
	}
	err = g.call(ctx)
}

// call calls the handler. A panic is an error.
func (g *gathering) call(ctx context.Context) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{safely.Recovered(value)}
		}
	}()
	return g.handler(ctx, append([]*BatchTask(nil), g.tasks...))
}

// context returns the context of the call, and what ends it with the error of the handler.
func (g *gathering) context() (_ context.Context, stop func(error)) {
	ctx, span := g.telemetry.beginBatch(g.tasks)
	ctx, end := context.WithCancelCause(ctx)
	var left atomic.Int64
	left.Store(int64(len(g.tasks)))
	of, stops := make([]context.Context, len(g.tasks)), make([]func() bool, len(g.tasks))
	for i, t := range g.tasks {
		of[i] = t.ctx
		stops[i] = context.AfterFunc(t.ctx, func() {
			if left.Add(-1) == 0 {
				end(context.Cause(t.ctx))
			}
		})
	}
	// A call that waits keeps the slots of all.
	return callctx.WithWatches(ctx, of), func(err error) {
		for _, stop := range stops {
			stop()
		}
		end(nil)
		g.telemetry.endBatch(span, err)
	}
}
