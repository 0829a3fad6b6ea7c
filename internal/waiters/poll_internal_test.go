package waiters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// polls counts the polls of a poller, with what they ask for.
type polls struct {
	*Poller
	mutex  sync.Mutex // of all that follows
	asked  [][]string
	settle []bool
	answer Poll
	err    error
}

// count returns how many polls there were.
func (p *polls) count() int {
	synctest.Wait()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return len(p.asked)
}

// settles says of each poll whether it settles what is due.
func (p *polls) settles() []bool {
	synctest.Wait()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.Clone(p.settle)
}

// answers sets what the polls find from now on.
func (p *polls) answers(answer Poll, err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.answer, p.err = answer, err
}

func newPolls(every time.Duration) *polls {
	p := &polls{}
	p.Poller = &Poller{
		Waiters: &Waiters{}, Every: every,
		Look: func(_ context.Context, actions []string, settle bool) (Poll, error) {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			p.asked, p.settle = append(p.asked, actions), append(p.settle, settle)
			return p.answer, p.err
		},
		Failed: func(_ context.Context, err error) bool { return err != nil },
	}
	return p
}

func (p *polls) start(t *testing.T) {
	t.Helper()
	p.Start(func(work func(context.Context)) bool {
		go work(t.Context())
		return true
	})
}

// However many actions are waited for, one poll an interval is for all of them, and it wakes those
// alone for whom there is something.
// Proves G207.
func TestPoller_PollsOnceForAllWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const actions, seconds = 1000, 20
		p := newPolls(time.Second)
		waiting := make([]*Waiter, actions)
		for i := range waiting {
			waiting[i] = p.Waiters.Join([]string{fmt.Sprint(i)})
			p.start(t)
		}
		p.answers(Poll{Ready: []string{"7"}}, nil)
		time.Sleep(seconds * time.Second)
		if n := p.count(); n < seconds*3/4 || n > seconds*4/3+1 {
			t.Errorf("%d polls in %d s, want about one a second", n, seconds)
		}
		if n := len(p.asked[0]); n != actions {
			t.Errorf("a poll is for %d actions, want %d", n, actions)
		}
		for i, w := range waiting {
			if woken := len(w.wake) > 0; woken != (i == 7) {
				t.Errorf("waiter %d was woken: %t", i, woken)
			}
			p.Waiters.Leave([]string{fmt.Sprint(i)}, w)
		}
		before := p.count()
		time.Sleep(time.Minute)
		if n := p.count() - before; n > 0 {
			t.Errorf("%d polls, though nobody waits", n)
		}
	})
}

// While others look for all who wait, nobody polls but to see whether they do. Once they stop, a
// poll comes within an interval and a quarter.
// Proves G207, R19.
func TestPoller_RestsWhileOthersLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPolls(time.Second)
		p.Waiters.Join([]string{"x"})
		p.start(t)
		for range 600 {
			p.Looked()
			time.Sleep(900 * time.Millisecond)
		}
		if n := p.count(); n < 10 || n > 30 {
			t.Errorf("%d polls in nine minutes, want one about every thirty seconds", n)
		}
		p.Looked()
		before := p.count()
		time.Sleep(1251 * time.Millisecond)
		if p.count() == before {
			t.Error("nobody polls though nobody else looks")
		}
	})
}

// What is due before the next poll is settled when it is due, and all of it.
func TestPoller_SettlesWhatIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPolls(time.Hour)
		p.Waiters.Join([]string{"x"})
		p.start(t)
		pause := 300 * time.Millisecond
		p.answers(Poll{Pause: &pause}, nil)
		p.DueIn(400 * time.Millisecond)
		p.DueIn(2 * time.Hour) // a poll comes before
		time.Sleep(400 * time.Millisecond)
		if p.count() > 0 {
			t.Error("something was settled before it is due")
		}
		time.Sleep(dueMargin)
		if !slices.Equal(p.settles(), []bool{true}) {
			t.Errorf("the polls settle %v, want one that does", p.settles())
		}
		p.answers(Poll{}, nil)
		time.Sleep(pause + dueMargin)
		if !slices.Equal(p.settles(), []bool{true, true}) {
			t.Errorf("the polls settle %v, want another one that does", p.settles())
		}
	})
}

func TestPoller_SettlesWhatIsOverdueAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPolls(time.Second)
		look := p.Look
		p.Look = func(ctx context.Context, actions []string, settle bool) (Poll, error) {
			found, err := look(ctx, actions, settle)
			p.mutex.Lock()
			defer p.mutex.Unlock()
			found.Overdue = len(p.settle) < 3
			return found, err
		}
		p.Waiters.Join([]string{"x"})
		p.start(t)
		time.Sleep(1260 * time.Millisecond)
		if !slices.Equal(p.settles(), []bool{false, true, true}) {
			t.Errorf("the polls settle %v, want two that do behind one", p.settles())
		}
	})
}

// Who waits learns that nobody can look, and the polls grow rare.
// Proves G86.
func TestPoller_TellsAllWhoWaitThatItFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPolls(time.Second)
		failure := errors.New("no server")
		p.answers(Poll{}, failure)
		first, second := p.Waiters.Join([]string{"x"}), p.Waiters.Join([]string{"x", "y"})
		p.start(t)
		for _, w := range []*Waiter{first, second} {
			looks, err := p.Waiters.Await(t.Context(), w, nil, true, nil)
			if looks || !errors.Is(err, failure) {
				t.Errorf("Await = %t, %v, want %v", looks, err, failure)
			}
		}
		time.Sleep(time.Minute)
		if n := p.count(); n < 10 || n > 30 {
			t.Errorf("%d polls in a minute without a server", n)
		}
		p.answers(Poll{}, nil)
		time.Sleep(4 * time.Second)
		before := p.count()
		time.Sleep(10 * time.Second)
		if n := p.count() - before; n < 7 {
			t.Errorf("%d polls in ten seconds once it works again", n)
		}
	})
}
