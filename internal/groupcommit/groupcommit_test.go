package groupcommit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

var (
	errClosed  = errors.New("closed")
	errRefused = errors.New("refused")
	errCutOff  = errors.New("cut off behind the commit")
)

// A runner runs goroutines until it is stopped.
type runner struct {
	mutex   sync.Mutex
	stopped bool
	running sync.WaitGroup
}

func (r *runner) start(run func()) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.stopped {
		return errClosed
	}
	r.running.Go(run)
	return nil
}

// stop waits for all that was started, and refuses more.
func (r *runner) stop() {
	r.mutex.Lock()
	r.stopped = true
	r.mutex.Unlock()
	r.running.Wait()
}

// A plannedCall is a call as the plan has it. Times are virtual.
type plannedCall struct {
	number int
	key    int
	size   int
	at     time.Duration
	leaves time.Duration // after the call; 0: never
	bad    bool          // what it asks for is refused, whoever goes along
}

// A plan is calls, and the outcomes of the batches in their order.
type plan struct {
	calls   []plannedCall
	lengths []time.Duration
	cut     []bool // the connection is cut behind the commit
	undoes  bool   // the answers of callers that have left are undone
	closing time.Duration
}

func drawPlan(t *rapid.T) plan {
	millis := func(limit int, label string) time.Duration {
		return time.Duration(rapid.IntRange(0, limit).Draw(t, label)) * time.Millisecond
	}
	var p plan
	for number := range rapid.IntRange(1, 40).Draw(t, "calls") {
		call := plannedCall{
			number: number, key: rapid.IntRange(0, 1).Draw(t, "key"), at: millis(20, "at"),
			size: rapid.SampledFrom([]int{1, 1, 1, 400, 999, 1000, 2500}).Draw(t, "size"),
			bad:  rapid.IntRange(0, 9).Draw(t, "bad") == 0,
		}
		if rapid.IntRange(0, 2).Draw(t, "leaving") == 0 {
			call.leaves = millis(30, "leaves") + time.Microsecond
		}
		p.calls = append(p.calls, call)
	}
	for range 8 {
		p.lengths = append(p.lengths, rapid.SampledFrom([]time.Duration{
			0, time.Millisecond, 7 * time.Millisecond, 25 * time.Millisecond, 3 * time.Second,
		}).Draw(t, "length"))
		p.cut = append(p.cut, rapid.IntRange(0, 7).Draw(t, "cut") == 0)
	}
	p.undoes = rapid.Bool().Draw(t, "undoes")
	if rapid.IntRange(0, 4).Draw(t, "closes") == 0 {
		p.closing = millis(40, "closing") + time.Microsecond
	}
	return p
}

// A record is what batches and callers saw of each other.
type record struct {
	mutex                       sync.Mutex
	batches, shared             int
	produced, delivered, undone []int
	cutOff                      []int // their callers were told that they may have taken effect
	problems                    []string
}

func (l *record) problem(text string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.problems = append(l.problems, text)
}

func (l *record) cut(calls []plannedCall) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, call := range calls {
		l.cutOff = append(l.cutOff, call.number)
	}
}

func (l *record) wasCutOff(call plannedCall) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Contains(l.cutOff, call.number)
}

func (p plan) run(
	l *record,
) func(context.Context, int, []plannedCall, bool) ([]int, error) {
	return func(ctx context.Context, key int, calls []plannedCall, shared bool) ([]int, error) {
		l.mutex.Lock()
		n := l.batches
		l.batches++
		if shared {
			l.shared++
		}
		tooMany := l.shared > 2*batchesAtOnce // of two keys
		l.mutex.Unlock()
		if shared { // counts until it has ended, or has taken too long
			over := sync.OnceFunc(func() {
				l.mutex.Lock()
				l.shared--
				l.mutex.Unlock()
			})
			defer time.AfterFunc(countedMax-time.Nanosecond, over).Stop()
			defer over()
		}
		size, bad := 0, false
		for _, call := range calls {
			size += call.size
			bad = bad || call.bad
			if call.key != key {
				l.problem("a call runs under another key")
			}
			if l.wasCutOff(call) {
				l.problem("a call that may have taken effect is made again")
			}
		}
		switch {
		case tooMany:
			l.problem("too many batches at once")
		case size > SizeMax && len(calls) > 1:
			l.problem("a batch is too large")
		case shared != (len(calls) > 1):
			l.problem("a batch does not know whether it is shared")
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(p.lengths[n%len(p.lengths)]):
		}
		switch {
		case bad:
			return nil, errRefused
		case p.cut[n%len(p.cut)]:
			l.cut(calls)
			return nil, errCutOff
		}
		answers := make([]int, len(calls))
		for i, call := range calls {
			answers[i] = call.number
		}
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.produced = append(l.produced, answers...)
		return answers, nil
	}
}

// call makes a call and looks at its answer.
func (p plan) call(g *Group[int, plannedCall, int], call plannedCall, l *record) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	<-time.After(call.at)
	if call.leaves > 0 {
		defer time.AfterFunc(call.leaves, cancel).Stop()
	}
	began := time.Now()
	answer, err := g.Do(ctx, call.key, call)
	switch {
	case err == nil && answer != call.number:
		l.problem("a caller gets the answer of another one")
	case err == nil && call.bad:
		l.problem("a bad call succeeds")
	case err == nil:
		l.mutex.Lock()
		l.delivered = append(l.delivered, answer)
		l.mutex.Unlock()
	case errors.Is(err, errRefused) && !call.bad:
		l.problem("a caller suffers for another one's mistake")
	case errors.Is(err, context.Canceled) && ctx.Err() == nil:
		l.problem("a caller suffers for another one's leave")
	case errors.Is(err, errClosed) && p.closing == 0:
		l.problem("nobody has closed the group")
	}
	if call.leaves > 0 && time.Since(began) > call.leaves {
		l.problem("a caller cannot leave")
	}
}

// Whatever calls share a batch, fail and leave, each caller gets its own answer or its own error,
// and the answer of one that has left is undone, once.
func TestGroup_KeepsCallersApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		l := &record{}
		synctest.Test(t, func(*testing.T) {
			var goroutines runner
			g := &Group[int, plannedCall, int]{
				Run: p.run(l), Go: goroutines.start,
				Size:       func(call plannedCall) int { return call.size },
				MayHaveRun: func(err error) bool { return errors.Is(err, errCutOff) },
			}
			if p.undoes {
				g.Undo = func(number int) {
					l.mutex.Lock()
					defer l.mutex.Unlock()
					l.undone = append(l.undone, number)
				}
			}
			var callers sync.WaitGroup
			for _, call := range p.calls {
				callers.Go(func() { p.call(g, call, l) })
			}
			if p.closing > 0 {
				<-time.After(p.closing)
				goroutines.stop()
			}
			callers.Wait()
			goroutines.stop()
			if len(g.queues) > 0 {
				l.problem("a queue is left")
			}
		})
		if len(l.problems) > 0 {
			rt.Fatalf("%q\n%+v", l.problems, p)
		}
		if !p.undoes {
			return
		}
		got := slices.Concat(l.delivered, l.undone)
		slices.Sort(got)
		slices.Sort(l.produced)
		if !slices.Equal(got, l.produced) {
			rt.Fatalf("%v were delivered, %v undone, of %v", l.delivered, l.undone, l.produced)
		}
	})
}

// A caller that has left may change what it has passed: the batch has a copy.
func TestGroup_ClonesCallsThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var goroutines runner
		var made [][]int
		g := &Group[int, []int, int]{
			Clone: slices.Clone[[]int], Go: goroutines.start,
			MayHaveRun: func(error) bool { return false },
			Run: func(_ context.Context, _ int, calls [][]int, shared bool) ([]int, error) {
				<-time.After(countedMax / 2)
				if shared {
					made = append(made, calls...)
				}
				return make([]int, len(calls)), nil
			},
		}
		for range batchesAtOnce {
			go func() { _, _ = g.Do(t.Context(), 0, []int{0}) }()
		}
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		call := []int{1}
		left := make(chan error)
		go func() {
			_, err := g.Do(ctx, 0, call)
			left <- err
		}()
		go func() { _, _ = g.Do(t.Context(), 0, []int{2}) }()
		synctest.Wait()
		<-time.After(countedMax * 3 / 4) // their batch is running
		leave()
		<-left
		call[0] = 7
		<-time.After(countedMax)
		synctest.Wait()
		slices.SortFunc(made, slices.Compare[[]int])
		if want := [][]int{{1}, {2}}; !slices.EqualFunc(made, want, slices.Equal[[]int]) {
			t.Errorf("made %v, want %v", made, want)
		}
	})
}

// A caller that leaves does not cancel the batch of the others.
func TestGroup_GoesOnWithoutACallerThatLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var goroutines runner
		g := &Group[int, int, int]{
			Go: goroutines.start, MayHaveRun: func(error) bool { return true },
			Run: func(ctx context.Context, _ int, calls []int, _ bool) ([]int, error) {
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(countedMax / 2):
					return calls, nil
				}
			},
		}
		call := func(ctx context.Context) <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := g.Do(ctx, 0, 0)
				done <- err
			}()
			return done
		}
		for range batchesAtOnce {
			call(t.Context())
		}
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		leaving, staying := call(ctx), call(t.Context())
		synctest.Wait()
		<-time.After(countedMax * 3 / 4) // their batch is running
		leave()
		if err := <-leaving; !errors.Is(err, context.Canceled) {
			t.Errorf("who leaves is told %v", err)
		}
		if err := <-staying; err != nil {
			t.Errorf("who stays is told %v", err)
		}
	})
}

// Without Size a batch has SizeMax calls at most, and without Clone it has what the callers passed.
func TestGroup_WithoutSizeAndCloneCountsCallsAndPassesThemOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var goroutines runner
		var sizes []int
		passed := map[*int]bool{}
		g := &Group[int, *int, *int]{
			Go: goroutines.start, MayHaveRun: func(error) bool { return false },
			Run: func(_ context.Context, _ int, calls []*int, _ bool) ([]*int, error) {
				<-time.After(countedMax / 2)
				sizes = append(sizes, len(calls))
				for _, call := range calls {
					passed[call] = true
				}
				return calls, nil
			},
		}
		for range 2 + SizeMax {
			go func() {
				call := new(int)
				if got, err := g.Do(t.Context(), 0, call); got != call || err != nil {
					t.Errorf("the answer is %p, %v, want that of %p", got, err, call)
				}
			}()
			synctest.Wait()
		}
		<-time.After(2 * countedMax)
		synctest.Wait()
		if want := []int{1, SizeMax, 1}; !slices.Equal(sizes, want) {
			t.Errorf("batches of %v calls, want %v", sizes, want)
		}
		if len(passed) != 2+SizeMax {
			t.Errorf("%d calls were passed on, want %d", len(passed), 2+SizeMax)
		}
	})
}

// Calls that nobody waits for share batches as others do, up to SizeMax, and each is made once, in
// the order in which they came. A batch that takes too long does not count.
func TestGroup_PostsShareBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var goroutines runner
		var mutex sync.Mutex
		var batches [][]int
		g := &Group[int, int, struct{}]{
			Size: func(call int) int { return call }, Go: goroutines.start,
			Run: func(_ context.Context, _ int, calls []int, _ bool) ([]struct{}, error) {
				mutex.Lock()
				batches = append(batches, calls)
				mutex.Unlock()
				<-time.After(countedMax / 2)
				return nil, errCutOff // nobody learns of it, and nothing is made again
			},
		}
		posted := []int{1, 2, 3, SizeMax - 5, SizeMax, 2 * SizeMax, 4}
		for _, call := range posted {
			g.Post(0, call)
			synctest.Wait()
		}
		goroutines.running.Wait()
		<-time.After(time.Second)
		goroutines.stop()
		want := [][]int{{1}, {2, 3, SizeMax - 5}, {SizeMax}, {2 * SizeMax}, {4}}
		if !slices.EqualFunc(batches, want, slices.Equal[[]int]) {
			t.Errorf("batches = %v, want %v", batches, want)
		}
		g.Post(0, 5) // is lost with the group, and leaves nothing behind
		if len(g.queues) > 0 {
			t.Error("a queue is left")
		}
	})
}
