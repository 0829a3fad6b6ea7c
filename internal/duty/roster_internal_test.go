package duty

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-tasks/stint/internal/pg"
)

// A fleet is some stores that hear one another.
type fleet struct {
	stores []*store

	mutex sync.Mutex  // of all that follows, and of the stores
	looks []time.Time // of all stores
	// done says when each duty was done, and by which store.
	done map[string][]doing
	// found is what a look finds.
	found Found
}

type doing struct {
	by int
	at time.Time
}

// A store is one of a fleet.
type store struct {
	*Roster
	end context.CancelFunc
	// dead ones do nothing, deaf ones hear nothing. A stopped one does nothing until it goes on.
	dead, deaf bool
	stopped    chan struct{}
	fails      string // the duty that fails
}

// newFleet returns stores that have not begun. Change may change the duties of each.
func newFleet(n int, change func(i int, duties []Duty) []Duty) *fleet {
	f := &fleet{done: map[string][]doing{}}
	for i := range n {
		s := &store{}
		do := func(name string) func(context.Context) error {
			return func(context.Context) error {
				if s.fails == name {
					return errors.New("cannot")
				}
				f.mutex.Lock()
				defer f.mutex.Unlock()
				f.done[name] = append(f.done[name], doing{i, time.Now()})
				return nil
			}
		}
		duties := []Duty{
			{
				Name: "due", Every: time.Second, Do: do("due"),
				In: func(found Found) *time.Duration { return found.Due },
			},
			{
				Name: "schedules", Every: time.Second, Do: do("schedules"),
				In: func(found Found) *time.Duration { return found.Schedule },
			},
			{
				Name: Ready, Every: time.Second, Do: do(Ready),
				In: func(found Found) *time.Duration { return Now(found.Ready) },
			},
			{Name: "prune", Every: 30 * time.Second, Do: do("prune")},
		}
		if change != nil {
			duties = change(i, duties)
		}
		s.Roster = NewRoster(Config{
			Logger: slog.New(slog.DiscardHandler), Duties: duties,
			Look: func(ctx context.Context, news News) (Found, bool, error) {
				if f.wait(ctx, s); ctx.Err() != nil {
					return Found{}, false, ctx.Err()
				}
				f.mutex.Lock()
				f.looks = append(f.looks, time.Now())
				found := f.found
				f.mutex.Unlock()
				isNow := func(in *time.Duration) bool { return in != nil && *in <= 0 }
				text, _ := news.payload()
				if isNow(found.Due) || isNow(found.Schedule) || found.Ready || text == "" {
					return found, false, nil
				}
				f.tell(text)
				return found, true, nil
			},
			Tell: func(_ context.Context, news News) error {
				text, _ := news.payload()
				f.tell(text)
				return nil
			},
		})
		f.stores = append(f.stores, s)
	}
	return f
}

// wait waits as long as a store is stopped.
func (f *fleet) wait(ctx context.Context, s *store) {
	f.mutex.Lock()
	stopped := s.stopped
	f.mutex.Unlock()
	if stopped != nil {
		select {
		case <-stopped:
		case <-ctx.Done():
		}
	}
}

func (f *fleet) kill(s *store) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	s.dead = true
	s.end()
}

func (f *fleet) stop(s *store) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	s.stopped = make(chan struct{})
}

func (f *fleet) doings(name string) []doing {
	synctest.Wait()
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Clone(f.done[name])
}

func (f *fleet) tell(text string) {
	for _, s := range f.stores {
		f.mutex.Lock()
		hears := !s.deaf && !s.dead
		f.mutex.Unlock()
		if hears {
			s.Hear(ParseNews(strings.TrimPrefix(text, Kind+" ")))
		}
	}
}

func (f *fleet) begin(t *testing.T) {
	t.Helper()
	for _, s := range f.stores {
		var ctx context.Context
		ctx, s.end = context.WithCancel(t.Context())
		go s.Run(ctx)
	}
}

// holder is the store that does the work.
func (f *fleet) holder() *store {
	synctest.Wait()
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, s := range f.stores {
		s.mutex.Lock()
		isHolder := !s.dead && s.stopped == nil && !s.turns[0].checks &&
			time.Until(s.turns[0].at) < time.Second
		s.mutex.Unlock()
		if isHolder {
			return s
		}
	}
	return nil
}

// gap is the longest time without a look since then.
func (f *fleet) gap(since time.Time) time.Duration {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	longest, before := time.Duration(0), since
	for _, at := range f.looks {
		if at.After(since) {
			longest, before = max(longest, at.Sub(before)), at
		}
	}
	return max(longest, time.Since(before))
}

func (f *fleet) count() int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return len(f.looks)
}

// However many stores there are, one of them does the work of all.
// Proves G206.
func TestRoster_DoesItOnceForAll(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 60} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(n, nil)
			f.begin(t)
			time.Sleep(10 * time.Second)
			before, began := f.count(), time.Now()
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			// Once every 0.7 to 0.9 seconds, and each store checks that about every 30.
			if looks := f.count() - before; looks < 600 || looks > 860+n*600/22 {
				t.Errorf("%d stores: %d looks in ten minutes", n, looks)
			}
			if gap := f.gap(began); gap > time.Second {
				t.Errorf("%d stores: %v without a look", n, gap)
			}
			if prunes := len(f.doings("prune")); prunes < 15 || prunes > 35+n*2 {
				t.Errorf("%d stores: %d times pruned in ten minutes", n, prunes)
			}
		})
	}
}

// Another store goes on within two intervals, whatever becomes of the one that did the work.
// Proves G206.
func TestRoster_OthersGoOn(t *testing.T) {
	t.Parallel()
	const most = 1700 * time.Millisecond // since the last look of the other
	for name, stop := range map[string]func(*fleet, *store){
		"killed": (*fleet).kill, "stopped": (*fleet).stop,
	} {
		for _, n := range []int{2, 60} {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(n, nil)
				f.begin(t)
				time.Sleep(10 * time.Second)
				began := time.Now()
				var stopped []*store
				for range n - 1 { // all but one, one after the other
					holder := f.holder()
					if holder == nil {
						t.Fatal("nobody does the work")
					}
					stop(f, holder)
					stopped = append(stopped, holder)
					time.Sleep(5 * time.Second)
				}
				synctest.Wait()
				if gap := f.gap(began); gap > most {
					t.Errorf("%s, %d stores: %v without a look", name, n, gap)
				}
				for _, s := range stopped {
					if s.stopped != nil {
						close(s.stopped) // they go on, and one is enough again
					}
				}
				time.Sleep(10 * time.Second)
				before := f.count()
				time.Sleep(time.Minute)
				synctest.Wait()
				if looks := f.count() - before; looks < 60 || looks > 86+n*60/22+n {
					t.Errorf("%s, %d stores: %d looks in a minute afterwards", name, n, looks)
				}
			})
		}
	}
}

// If several stores do the work, each another part, one soon does all of it.
func TestRoster_OneStoreTakesAllDuties(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(3, nil)
		f.begin(t)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for i, s := range f.stores {
			s.mutex.Lock()
			for j, turn := range s.turns[:3] {
				turn.at, turn.checks = time.Now().Add(300*time.Millisecond), false
				if i != j { // that one is done by another one
					turn.at = turn.at.Add(time.Second)
				}
			}
			s.mutex.Unlock()
			pg.WakeUp(s.changed)
		}
		time.Sleep(5 * time.Second)
		before := f.count()
		time.Sleep(time.Minute)
		synctest.Wait()
		if looks := f.count() - before; looks > 86+10 {
			t.Errorf("%d looks in a minute", looks)
		}
	})
}

// A store that hears nothing does all of its work itself.
func TestRoster_ADeafStoreRelaxesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(3, nil)
		for _, s := range f.stores {
			s.deaf = true
		}
		f.begin(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		if looks := f.count(); looks < 3*60 {
			t.Errorf("%d looks of three stores in a minute, want one a second of each", looks)
		}
	})
}

// Whatever the notifications say, each store looks for itself now and then.
// Proves G84, G206.
func TestRoster_ReliesOnNobodyForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(1, nil)
		f.begin(t)
		began := time.Now()
		for range 10 * 60 * 2 {
			f.tell("did somebody due schedules ready prune")
			time.Sleep(500 * time.Millisecond)
		}
		synctest.Wait()
		if gap := f.gap(began); gap > trustedFor*time.Second*5/4 {
			t.Errorf("%v without a look", gap)
		}
		if looks := f.count(); looks > 30 {
			t.Errorf("%d looks in ten minutes, want one about every thirty seconds", looks)
		}
	})
}

// What one store cannot do, the others do; the rest stays with one.
func TestRoster_OthersDoWhatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(2, nil)
		f.found = Found{Schedule: Now(true)}
		f.stores[0].fails = "schedules"
		f.begin(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		done := f.doings("schedules")
		last := time.Now().Add(-time.Minute)
		for _, one := range done {
			if gap := one.at.Sub(last); gap > 2500*time.Millisecond {
				t.Errorf("schedules were left alone for %v", gap)
			}
			last = one.at
		}
		if len(done) < 30 {
			t.Errorf("schedules were looked after %d times in a minute", len(done))
		}
	})
}

// A duty that takes long keeps no other waiting, and is not done by everybody meanwhile.
func TestRoster_ADutyThatTakesLongHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := 0
		f := newFleet(1, func(_ int, duties []Duty) []Duty {
			duties[3].Do = func(ctx context.Context) error {
				begun++
				select {
				case <-time.After(50 * time.Second):
				case <-ctx.Done():
				}
				return nil
			}
			return duties
		})
		began := time.Now()
		f.begin(t)
		time.Sleep(80 * time.Second)
		synctest.Wait()
		if begun != 1 {
			t.Errorf("it was begun %d times, want once at a time", begun)
		}
		if gap := f.gap(began); gap > 1300*time.Millisecond {
			t.Errorf("%v without a look", gap)
		}
	})
}

// Something is done when it is due, though the next look would come later.
func TestRoster_IsThereWhenSomethingIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(1, nil)
		f.begin(t)
		time.Sleep(10 * time.Second)
		in := 120 * time.Millisecond
		f.mutex.Lock()
		f.found.Due = &in
		f.mutex.Unlock()
		for before := f.count(); f.count() == before; {
			time.Sleep(time.Millisecond)
		}
		f.mutex.Lock()
		f.found.Due = Now(true)
		f.mutex.Unlock()
		looked := time.Now()
		time.Sleep(in)
		synctest.Wait()
		if n := len(f.doings("due")); n != 1 {
			t.Errorf("it was done %d times in %v, want once", n, time.Since(looked))
		}
	})
}

// A store rests if others keep as little as it does, and not if they keep more.
// Proves G206.
func TestRoster_ShortestTermsWin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(3, func(i int, duties []Duty) []Duty {
			mine := i // the first keeps least
			duties[3].Terms = fmt.Sprint(mine)
			duties[3].Suits = func(terms string) bool { return terms <= fmt.Sprint(mine) }
			return duties
		})
		f.begin(t)
		time.Sleep(time.Hour)
		synctest.Wait()
		var by [3]int
		for _, one := range f.doings("prune") {
			by[one.by]++
		}
		if by[0] < 100 || by[1] > 10 || by[2] > 10 {
			t.Errorf("the stores pruned %v times in an hour, want the first alone", by)
		}
		f.kill(f.stores[0])
		time.Sleep(time.Hour)
		synctest.Wait()
		byOther := func(d doing) bool { return d.by == 1 }
		if n := slices.IndexFunc(f.doings("prune"), byOther); n < 0 {
			t.Error("the second store does not go on")
		}
	})
}

func TestNews_SurvivesJunk(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " ", "a", "a :", "a ::: :x x:", "\x00", "busy busy busy"} {
		f := newFleet(1, nil)
		news := ParseNews(text)
		f.stores[0].Hear(news)
		if news.Has("due") {
			t.Errorf("%q tells of a duty", text)
		}
	}
	var none *Roster
	none.Hear(ParseNews("a due"))
	news := ParseNews("a due prune:1/2 busy")
	text, ifBusy := news.payload()
	if !news.Has("due") || !news.Busy || text != "did a due prune:1/2" || ifBusy != " busy" {
		t.Errorf("news = %+v, %q, %q", news, text, ifBusy)
	}
}
