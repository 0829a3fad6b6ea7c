package stint

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// How many flights of one runway are under way at once. A second one, to execute while the
	// first commits, is not worth the statements that it takes: fewer travel in each (ADR 5).
	flightsAtOnce = 1

	// How much travels in one flight. What is half as large gains nothing by company.
	flightSizeMax = 1000
)

// Flights are group commit: they let calls of one kind that are made at the same time travel
// together, in one statement and one commit: those that gather while earlier ones are under way.
// A call that meets no other goes at once and alone. Calls travel together if their keys are equal.
// Before a flight leaves, whoever can run at that moment runs first: callers who have just landed
// call again, and come along.
type flights[K comparable, Q, A any] struct {
	// fly makes calls, and returns an answer to each. Together says that they are of several
	// callers: it then fails rather than keep some of them waiting for what holds up another.
	fly func(ctx context.Context, key K, calls []Q, together bool) ([]A, error)

	// size is what a call takes of flightSizeMax.
	size func(Q) int

	// clone copies a call, whose caller may leave and use what it has given for something else.
	clone func(Q) Q

	// abandoned is given answers whose callers have left; nil if nothing need be done about them.
	// If it is set, a flight that everybody has left goes on for a while, to have an answer.
	abandoned func(A)

	background *background
	mutex      sync.Mutex
	runways    map[K]*runway[Q, A]
}

const (
	// lingering is how long a flight that everybody has left may go on.
	lingering = time.Second
	// occupying is for how long a flight counts as one under way: one that has to wait for
	// somebody's lock shall not keep all others from going.
	occupying = 50 * time.Millisecond
)

// A runway is the calls with one key.
type runway[Q, A any] struct {
	airborne int
	waiting  []*passenger[Q, A]
}

// A passenger is a call on its way.
type passenger[Q, A any] struct {
	call   Q
	landed chan landing[A] // has room for one
	// flight is nil as long as the passenger waits. left and met say that the caller has left, or
	// its landing was sent.
	flight    *flight
	left, met bool
}

// A landing is what comes of a call; alone says that the caller should go again, by itself.
type landing[A any] struct {
	answer A
	err    error
	alone  bool
}

// A flight ends when all who are aboard have left.
type flight struct {
	aboard int
	cancel context.CancelFunc
}

// do makes a call. If ctx ends while it is under way, the call may or may not have taken effect.
func (f *flights[K, Q, A]) do(ctx context.Context, key K, call Q) (A, error) {
	f.mutex.Lock()
	if f.runways == nil {
		f.runways = map[K]*runway[Q, A]{}
	}
	l := f.runways[key]
	if l == nil {
		l = &runway[Q, A]{}
		f.runways[key] = l
	}
	self := &passenger[Q, A]{call: call, landed: make(chan landing[A], 1)}
	free := l.airborne < flightsAtOnce
	if free {
		l.airborne++
		f.mutex.Unlock()
		runtime.Gosched() // those who are about to call do so first and come along
		f.mutex.Lock()
	}
	switch {
	case !free:
		self.call = f.clone(call)
		l.waiting = append(l.waiting, self)
	case len(l.waiting) > 0:
		self.call = f.clone(call)
		l.waiting = append([]*passenger[Q, A]{self}, l.waiting...)
		f.takeOff(context.Background(), key, l, f.board(l))
	case f.abandoned == nil:
		f.mutex.Unlock()
		defer f.occupy(key, l)()
		return f.alone(ctx, key, call)
	default:
		f.takeOff(context.WithoutCancel(ctx), key, l, []*passenger[Q, A]{self})
	}
	f.mutex.Unlock()
	select {
	case landing := <-self.landed:
		return f.disembark(ctx, key, call, landing)
	case <-ctx.Done():
		if f.leave(l, self) {
			var none A
			return none, ctx.Err()
		}
		return f.disembark(ctx, key, call, <-self.landed)
	}
}

func (f *flights[K, Q, A]) disembark(
	ctx context.Context, key K, call Q, landing landing[A],
) (A, error) {
	if landing.alone {
		return f.alone(ctx, key, call)
	}
	return landing.answer, landing.err
}

func (f *flights[K, Q, A]) alone(ctx context.Context, key K, call Q) (answer A, err error) {
	answers, err := f.fly(ctx, key, []Q{call}, false)
	if err != nil {
		return answer, err
	}
	return answers[0], nil
}

// leave takes a caller's leave, unless it has landed already.
func (f *flights[K, Q, A]) leave(l *runway[Q, A], self *passenger[Q, A]) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if self.met {
		return false
	}
	self.left = true
	if self.flight == nil {
		for i, other := range l.waiting {
			if other == self {
				l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
				break
			}
		}
		return true
	}
	self.flight.aboard--
	if self.flight.aboard == 0 {
		self.flight.cancel()
	}
	return true
}

// occupy counts a flight as under way until the returned function is called, or it takes too long.
func (f *flights[K, Q, A]) occupy(key K, l *runway[Q, A]) (vacate func()) {
	var once sync.Once
	next := func() { once.Do(func() { f.next(key, l) }) }
	overdue := time.AfterFunc(occupying, next)
	return func() {
		overdue.Stop()
		next()
	}
}

// next sends those who wait off together, when a flight of the runway has landed.
func (f *flights[K, Q, A]) next(key K, l *runway[Q, A]) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if len(l.waiting) == 0 {
		f.descend(key, l)
		return
	}
	f.takeOff(context.Background(), key, l, f.board(l))
}

// board takes those who wait, as many as may go together; the mutex is held.
func (f *flights[K, Q, A]) board(l *runway[Q, A]) []*passenger[Q, A] {
	n, size := 0, 0
	for n < len(l.waiting) {
		size += f.size(l.waiting[n].call)
		if n > 0 && size > flightSizeMax {
			break
		}
		n++
	}
	together := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	return together
}

// takeOff starts a flight; the mutex is held.
func (f *flights[K, Q, A]) takeOff(
	ctx context.Context, key K, l *runway[Q, A], passengers []*passenger[Q, A],
) {
	ctx, cancel := context.WithCancel(ctx)
	aboard := &flight{aboard: len(passengers), cancel: cancel}
	if f.abandoned != nil {
		aboard.cancel = func() { time.AfterFunc(lingering, cancel) }
	}
	calls := make([]Q, len(passengers))
	for i, passenger := range passengers {
		passenger.flight = aboard
		calls[i] = passenger.call
	}
	started := f.background.start(func(context.Context) {
		defer f.occupy(key, l)()
		defer cancel()
		answers, err := f.fly(ctx, key, calls, len(calls) > 1)
		f.land(passengers, answers, err)
		runtime.Gosched() // those who have landed may call again and go with those who wait
	})
	if !started {
		cancel()
		for _, passenger := range append(passengers, l.waiting...) {
			passenger.met = true
			passenger.landed <- landing[A]{err: ErrClosed}
		}
		l.waiting = nil
		f.descend(key, l)
	}
}

// descend notes that a flight of the runway is over and no other follows; the mutex is held.
func (f *flights[K, Q, A]) descend(key K, l *runway[Q, A]) {
	l.airborne--
	if l.airborne == 0 {
		delete(f.runways, key)
	}
}

// land gives each its answer. What failed for all is tried again by each alone, unless it may have
// taken effect.
func (f *flights[K, Q, A]) land(passengers []*passenger[Q, A], answers []A, err error) {
	f.mutex.Lock()
	var abandoned []A
	for i, passenger := range passengers {
		passenger.met = true
		switch {
		case passenger.left && err == nil:
			abandoned = append(abandoned, answers[i])
		case passenger.left:
		case err == nil:
			passenger.landed <- landing[A]{answer: answers[i]}
		case len(passengers) == 1 || wasCutOff(err):
			passenger.landed <- landing[A]{err: err}
		default:
			passenger.landed <- landing[A]{alone: true}
		}
	}
	f.mutex.Unlock()
	if f.abandoned == nil {
		return
	}
	for _, answer := range abandoned {
		f.abandoned(answer)
	}
}

func (s *Store) prepareFlights() {
	s.inserts = flights[struct{}, Task, error]{
		fly: s.insertTogether, size: taskSize, clone: cloneTask, background: s.travels,
	}
	s.owning = flights[ownKey, int, hand]{
		fly: s.ownTogether, size: func(wanted int) int { return wanted },
		clone:     func(wanted int) int { return wanted },
		abandoned: s.release, background: s.travels,
	}
	s.extends = flights[extendKey, []OwnedTask, []bool]{
		fly: s.extendTogether, size: func(owned []OwnedTask) int { return len(owned) },
		clone:      slices.Clone[[]OwnedTask],
		background: s.travels,
	}
	s.returns = flights[struct{}, []Return, []error]{
		fly: s.returnTogether, size: returnsSize, clone: cloneReturns, background: s.travels,
	}
}
