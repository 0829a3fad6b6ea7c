package stint

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"
)

// A flightCall is a call as the plan has it. Times are virtual.
type flightCall struct {
	number int
	key    int
	size   int
	at     time.Duration
	leaves time.Duration // after the call; 0: never
	bad    bool          // what it asks for is refused, whoever goes along
}

// A flightPlan is calls, and what becomes of the flights in their order.
type flightPlan struct {
	calls   []flightCall
	lengths []time.Duration
	cut     []bool // the connection is cut behind the commit
	gives   bool   // what callers leave behind is given back
	closing time.Duration
}

func drawFlightPlan(t *rapid.T) flightPlan {
	millis := func(limit int, label string) time.Duration {
		return time.Duration(rapid.IntRange(0, limit).Draw(t, label)) * time.Millisecond
	}
	var p flightPlan
	for number := range rapid.IntRange(1, 40).Draw(t, "calls") {
		call := flightCall{
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
	p.gives = rapid.Bool().Draw(t, "gives")
	if rapid.IntRange(0, 4).Draw(t, "closes") == 0 {
		p.closing = millis(40, "closing") + time.Microsecond
	}
	return p
}

// A flightLog is what flights and callers saw of each other.
type flightLog struct {
	mutex                        sync.Mutex
	flown, together              int
	produced, delivered, givenUp []int
	problems                     []string
}

func (l *flightLog) problem(text string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.problems = append(l.problems, text)
}

func (p flightPlan) fly(
	l *flightLog,
) func(context.Context, int, []flightCall, bool) ([]int, error) {
	return func(ctx context.Context, key int, calls []flightCall, together bool) ([]int, error) {
		l.mutex.Lock()
		n := l.flown
		l.flown++
		if together {
			l.together++
		}
		tooMany := l.together > 2*flightsAtOnce // of two keys
		l.mutex.Unlock()
		if together { // counts until it has landed, or has taken too long
			over := sync.OnceFunc(func() {
				l.mutex.Lock()
				l.together--
				l.mutex.Unlock()
			})
			defer time.AfterFunc(occupying-time.Nanosecond, over).Stop()
			defer over()
		}
		size, bad := 0, false
		for _, call := range calls {
			size += call.size
			bad = bad || call.bad
			if call.key != key {
				l.problem("a call travels under another key")
			}
		}
		switch {
		case tooMany:
			l.problem("too many flights at once")
		case size > flightSizeMax && len(calls) > 1:
			l.problem("a flight is too large")
		case together != (len(calls) > 1):
			l.problem("a flight does not know whether it is alone")
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(p.lengths[n%len(p.lengths)]):
		}
		switch {
		case bad:
			return nil, &pgconn.PgError{Code: "22000", SeverityUnlocalized: "ERROR"}
		case p.cut[n%len(p.cut)]:
			return nil, io.ErrUnexpectedEOF
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
func (p flightPlan) call(f *flights[int, flightCall, int], call flightCall, l *flightLog) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	<-time.After(call.at)
	if call.leaves > 0 {
		defer time.AfterFunc(call.leaves, cancel).Stop()
	}
	began := time.Now()
	answer, err := f.do(ctx, call.key, call)
	var refused *pgconn.PgError
	switch {
	case err == nil && answer != call.number:
		l.problem("a caller gets the answer of another one")
	case err == nil && call.bad:
		l.problem("a bad call succeeds")
	case err == nil:
		l.mutex.Lock()
		l.delivered = append(l.delivered, answer)
		l.mutex.Unlock()
	case errors.As(err, &refused) && !call.bad:
		l.problem("a caller suffers for another one's mistake")
	case errors.Is(err, context.Canceled) && ctx.Err() == nil:
		l.problem("a caller suffers for another one's leave")
	case errors.Is(err, ErrClosed) && p.closing == 0:
		l.problem("the store is not closed")
	}
	if call.leaves > 0 && time.Since(began) > call.leaves {
		l.problem("a caller cannot leave")
	}
}

// Whatever calls travel together, fail and leave, each caller gets its own answer or its own error,
// and what it leaves behind is given back, once.
func TestFlights_KeepCallersApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		p := drawFlightPlan(rt)
		l := &flightLog{}
		synctest.Test(t, func(*testing.T) {
			f := &flights[int, flightCall, int]{
				fly: p.fly(l), size: func(call flightCall) int { return call.size },
				clone:      func(call flightCall) flightCall { return call },
				background: newBackground(),
			}
			if p.gives {
				f.abandoned = func(number int) {
					l.mutex.Lock()
					defer l.mutex.Unlock()
					l.givenUp = append(l.givenUp, number)
				}
			}
			var callers sync.WaitGroup
			for _, call := range p.calls {
				callers.Go(func() { p.call(f, call, l) })
			}
			if p.closing > 0 {
				<-time.After(p.closing)
				if err := f.background.stop(context.Background()); err != nil {
					l.problem("the flights do not end")
				}
			}
			callers.Wait()
			if err := f.background.stop(context.Background()); err != nil || len(f.runways) > 0 {
				l.problem("something is left behind")
			}
		})
		if len(l.problems) > 0 {
			rt.Fatalf("%q\n%+v", l.problems, p)
		}
		if !p.gives {
			return
		}
		got := slices.Concat(l.delivered, l.givenUp)
		slices.Sort(got)
		slices.Sort(l.produced)
		if !slices.Equal(got, l.produced) {
			rt.Fatalf("%v were delivered, %v given back, of %v", l.delivered, l.givenUp, l.produced)
		}
	})
}

// What a caller that has left does with what it has given does not reach the flight.
func TestFlights_CopyCallsThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var flown [][]int
		f := &flights[int, []int, int]{
			size: func([]int) int { return 1 }, clone: slices.Clone[[]int],
			background: newBackground(),
			fly: func(_ context.Context, _ int, calls [][]int, together bool) ([]int, error) {
				<-time.After(occupying / 2)
				if together {
					flown = append(flown, calls...)
				}
				return make([]int, len(calls)), nil
			},
		}
		for range flightsAtOnce {
			go func() { _, _ = f.do(t.Context(), 0, []int{0}) }()
		}
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		call := []int{1}
		left := make(chan error)
		go func() {
			_, err := f.do(ctx, 0, call)
			left <- err
		}()
		go func() { _, _ = f.do(t.Context(), 0, []int{2}) }()
		synctest.Wait()
		<-time.After(occupying * 3 / 4) // their flight is under way
		leave()
		<-left
		call[0] = 7
		<-time.After(occupying)
		synctest.Wait()
		slices.SortFunc(flown, slices.Compare[[]int])
		if want := [][]int{{1}, {2}}; !slices.EqualFunc(flown, want, slices.Equal[[]int]) {
			t.Errorf("flown %v, want %v", flown, want)
		}
	})
}
