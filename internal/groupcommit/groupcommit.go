// Package groupcommit lets calls of one kind that are made at the same time share a statement and a
// commit. The store uses it for calls about few tasks, and the worker for returns.
package groupcommit

import (
	"context"
	"runtime"
	"sync"
	"time"
)

const (
	// SizeMax is how much goes into one batch, in the unit of [Group.Size]. A call of more than
	// half of that gains nothing by sharing a batch.
	SizeMax = 1000

	// How many batches of a key run at once. A second one could execute while the first commits,
	// but is not worth its statements: fewer calls would share each of them (ADR 5).
	batchesAtOnce = 1

	// abandonedMax is how long a batch may go on after all its callers have left.
	abandonedMax = time.Second

	// countedMax is for how long a batch counts as running: a batch that has to wait for somebody's
	// lock must not keep all others from running.
	countedMax = 50 * time.Millisecond
)

// A Group makes batches of the calls with equal keys that gather while an earlier batch runs. A
// call that meets no other runs at once and alone. Before a batch runs, it lets all goroutines run
// that can run at that moment, so that callers that have just been answered call again and join it.
//
// The fields are set before the first call.
type Group[K comparable, C, A any] struct {
	// Run makes the calls of a batch, and returns an answer to each. Shared says that the calls are
	// of several callers: Run then fails rather than keep some of them waiting for a lock that only
	// one of them needs.
	Run func(ctx context.Context, key K, calls []C, shared bool) ([]A, error)

	// Size is how much of SizeMax a call takes; nil if each call takes 1.
	Size func(C) int

	// Clone copies a call, whose caller may leave and change what it has passed; nil if calls need
	// no copy, since they are values that share nothing with their callers.
	Clone func(C) C

	// Undo is given the answers whose callers have left; nil if nothing need be undone. If it is
	// set, a batch that all callers have left goes on for a while, to have an answer to undo.
	Undo func(A)

	// MayHaveRun reports whether a batch that failed may have taken effect. If not, its calls are
	// made again, each alone.
	MayHaveRun func(error) bool

	// Go starts a goroutine for a batch, or returns the error that its callers get.
	Go func(run func()) error

	mutex  sync.Mutex
	queues map[K]*queue[C, A]
}

// A queue is the calls with one key.
type queue[C, A any] struct {
	running int // batches
	waiting []*caller[C, A]
}

// A caller waits for the outcome of its call.
type caller[C, A any] struct {
	call    C
	outcome chan outcome[A] // has room for one; nil if nobody waits for it
	batch   *batch          // nil as long as the call is in the queue

	left, answered bool // the caller has left; the outcome was sent
}

// An outcome is what a caller gets; alone says that the caller must make the call again, outside a
// batch.
type outcome[A any] struct {
	answer A
	err    error
	alone  bool
}

// A batch is cancelled when all its callers have left.
type batch struct {
	callers int
	cancel  context.CancelFunc
}

// Do makes a call. If ctx ends meanwhile, the call may or may not have taken effect.
func (g *Group[K, C, A]) Do(ctx context.Context, key K, call C) (A, error) {
	g.mutex.Lock()
	q := g.queue(key)
	self := &caller[C, A]{call: call, outcome: make(chan outcome[A], 1)}
	free := q.running < batchesAtOnce
	if free {
		q.running++
		g.mutex.Unlock()
		runtime.Gosched() // those who are about to call do so first and join the batch
		g.mutex.Lock()
	}
	switch {
	case !free:
		self.call = g.clone(call)
		q.waiting = append(q.waiting, self)
	case len(q.waiting) > 0:
		self.call = g.clone(call)
		q.waiting = append([]*caller[C, A]{self}, q.waiting...)
		g.start(context.Background(), key, q, g.take(q))
	case g.Undo == nil:
		g.mutex.Unlock()
		defer g.count(key, q)()
		return g.runAlone(ctx, key, call)
	default:
		g.start(context.WithoutCancel(ctx), key, q, []*caller[C, A]{self})
	}
	g.mutex.Unlock()
	select {
	case out := <-self.outcome:
		return g.finish(ctx, key, call, out)
	case <-ctx.Done():
		if g.leave(q, self) {
			var none A
			return none, ctx.Err()
		}
		return g.finish(ctx, key, call, <-self.outcome)
	}
}

// Post makes calls that nobody waits for: Run must deal with their outcomes.
func (g *Group[K, C, A]) Post(key K, calls ...C) {
	posted := make([]*caller[C, A], len(calls))
	for i, call := range calls {
		posted[i] = &caller[C, A]{call: call}
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	q := g.queue(key)
	if q.running >= batchesAtOnce {
		q.waiting = append(q.waiting, posted...)
		return
	}
	q.running++
	g.mutex.Unlock()
	runtime.Gosched() // as in Do
	g.mutex.Lock()
	q.waiting = append(posted, q.waiting...)
	g.start(context.Background(), key, q, g.take(q))
}

// clone returns the call that a batch gets.
func (g *Group[K, C, A]) clone(call C) C {
	if g.Clone == nil {
		return call
	}
	return g.Clone(call)
}

// size is how much of SizeMax a call takes.
func (g *Group[K, C, A]) size(call C) int {
	if g.Size == nil {
		return 1
	}
	return g.Size(call)
}

// queue returns the queue of a key; the mutex is held.
func (g *Group[K, C, A]) queue(key K) *queue[C, A] {
	if g.queues == nil {
		g.queues = map[K]*queue[C, A]{}
	}
	q := g.queues[key]
	if q == nil {
		q = &queue[C, A]{}
		g.queues[key] = q
	}
	return q
}

func (g *Group[K, C, A]) finish(
	ctx context.Context, key K, call C, out outcome[A],
) (A, error) {
	if out.alone {
		return g.runAlone(ctx, key, call)
	}
	return out.answer, out.err
}

func (g *Group[K, C, A]) runAlone(ctx context.Context, key K, call C) (answer A, err error) {
	answers, err := g.Run(ctx, key, []C{call}, false)
	if err != nil {
		return answer, err
	}
	return answers[0], nil
}

// leave lets a caller leave, unless it was answered already.
func (g *Group[K, C, A]) leave(q *queue[C, A], self *caller[C, A]) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if self.answered {
		return false
	}
	self.left = true
	if self.batch == nil {
		for i, other := range q.waiting {
			if other == self {
				q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
				break
			}
		}
		return true
	}
	self.batch.callers--
	if self.batch.callers == 0 {
		self.batch.cancel()
	}
	return true
}

// count counts a batch as running until the returned function is called, or it takes too long.
func (g *Group[K, C, A]) count(key K, q *queue[C, A]) (end func()) {
	var once sync.Once
	next := func() { once.Do(func() { g.next(key, q) }) }
	overdue := time.AfterFunc(countedMax, next)
	return func() {
		overdue.Stop()
		next()
	}
}

// next starts the next batch of a queue, when one has ended.
func (g *Group[K, C, A]) next(key K, q *queue[C, A]) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if len(q.waiting) == 0 {
		g.end(key, q)
		return
	}
	g.start(context.Background(), key, q, g.take(q))
}

// end notes that a batch has ended and no other follows; the mutex is held.
func (g *Group[K, C, A]) end(key K, q *queue[C, A]) {
	q.running--
	if q.running == 0 {
		delete(g.queues, key)
	}
}

// take takes the first callers of a queue, as many as go into a batch; the mutex is held.
func (g *Group[K, C, A]) take(q *queue[C, A]) []*caller[C, A] {
	n, size := 0, 0
	for n < len(q.waiting) {
		size += g.size(q.waiting[n].call)
		if n > 0 && size > SizeMax {
			break
		}
		n++
	}
	taken := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return taken
}

// start runs a batch; the mutex is held.
func (g *Group[K, C, A]) start(
	ctx context.Context, key K, q *queue[C, A], callers []*caller[C, A],
) {
	ctx, cancel := context.WithCancel(ctx)
	of := &batch{callers: len(callers), cancel: cancel}
	if g.Undo != nil {
		of.cancel = func() { time.AfterFunc(abandonedMax, cancel) }
	}
	calls := make([]C, len(callers))
	for i, caller := range callers {
		caller.batch = of
		calls[i] = caller.call
	}
	err := g.Go(func() {
		defer g.count(key, q)()
		defer cancel()
		answers, err := g.Run(ctx, key, calls, len(calls) > 1)
		g.answer(callers, answers, err)
		runtime.Gosched() // those who were answered may call again and join those who wait
	})
	if err != nil {
		cancel()
		for _, caller := range append(callers, q.waiting...) {
			caller.answered = true
			if caller.outcome != nil {
				caller.outcome <- outcome[A]{err: err}
			}
		}
		q.waiting = nil
		g.end(key, q)
	}
}

// answer gives each caller its outcome.
func (g *Group[K, C, A]) answer(callers []*caller[C, A], answers []A, err error) {
	g.mutex.Lock()
	var abandoned []A
	for i, caller := range callers {
		caller.answered = true
		switch {
		case caller.outcome == nil:
		case caller.left && err == nil:
			abandoned = append(abandoned, answers[i])
		case caller.left:
		case err == nil:
			caller.outcome <- outcome[A]{answer: answers[i]}
		case len(callers) == 1 || g.MayHaveRun(err):
			caller.outcome <- outcome[A]{err: err}
		default:
			caller.outcome <- outcome[A]{alone: true}
		}
	}
	g.mutex.Unlock()
	if g.Undo == nil {
		return
	}
	for _, answer := range abandoned {
		g.Undo(answer)
	}
}

// Divide gives each call its part of the answers, one for each element of the calls.
func Divide[Q, A any](answers []A, calls [][]Q) [][]A {
	parts := make([][]A, len(calls))
	for i, call := range calls {
		n := len(call)
		parts[i], answers = answers[:n:n], answers[n:]
	}
	return parts
}
