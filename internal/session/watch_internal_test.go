package session

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// checks are those of a watch.
type checks struct {
	*Watch
	mutex sync.Mutex // of all that follows
	all   []oneCheck
	seen  Seen
	err   error
}

type oneCheck struct {
	at      time.Time
	inGrace bool
}

// list returns the checks so far.
func (c *checks) list() []oneCheck {
	synctest.Wait()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Clone(c.all)
}

// answers sets what a check sees from now on.
func (c *checks) answers(seen Seen, err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.seen, c.err = seen, err
}

func newChecks(t *testing.T, others int) *checks {
	t.Helper()
	c := &checks{seen: Seen{Watching: others + 1, Others: others}}
	c.Watch = NewWatch(nil, slog.New(slog.DiscardHandler),
		func(_ context.Context, inGrace bool) (Seen, error) {
			c.mutex.Lock()
			defer c.mutex.Unlock()
			c.all = append(c.all, oneCheck{time.Now(), inGrace})
			return c.seen, c.err
		})
	go c.Run(t.Context())
	return c
}

// during returns how many checks there are in a time.
func (c *checks) during(length time.Duration) int {
	before := len(c.list())
	time.Sleep(length)
	return len(c.list()) - before
}

// While tasks are in progress, all stores together check about ten times a second, and four times
// at most each.
func TestWatch_ChecksOftenWhileTasksAreInProgress(t *testing.T) {
	t.Parallel()
	for others, want := range map[int]int{0: 100, 1: 400, 9: 100, 59: 16} {
		synctest.Test(t, func(t *testing.T) {
			c := newChecks(t, others)
			time.Sleep(10 * time.Second)
			if n := c.during(100 * time.Second); n < want*4/5 || n > want*5/4 {
				t.Errorf("beside %d others: %d checks in 100 s, want about %d", others, n, want)
			}
		})
	}
}

// While there is word that no task is in progress, the stores leave the check to the one that looks
// for work; but they begin again as soon as there is another sign, or no more word.
func TestWatch_RestsWhileItIsQuiet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newChecks(t, 1)
		quiet := func(length time.Duration) (n int) {
			t.Helper()
			for began := time.Now(); time.Since(began) < length; {
				c.Heard(false)
				n += c.during(900 * time.Millisecond)
			}
			return n
		}
		quiet(3 * time.Second)
		if n := quiet(time.Minute); n > 0 {
			t.Errorf("%d checks while it is quiet", n)
		}
		c.Looked(t.Context(), false, true)
		if all := c.list(); len(all) == 0 || time.Since(all[len(all)-1].at) > 0 {
			t.Error("the store that looks for work does not check")
		}
		const soon = watchEvery * 5 / 4
		for name, sign := range map[string]func(){
			"a task is ready":       func() { c.Stir() },
			"a task is in progress": func() { c.Heard(true) },
		} {
			quiet(5 * time.Second)
			sign()
			if c.during(soon) == 0 {
				t.Errorf("%s: no check for %v", name, soon)
			}
		}
		c.Stir()
		c.Heard(false) // by one that has looked before
		if n := c.during(stirredFor); n < 5 {
			t.Errorf("%d checks within %v of a sign", n, stirredFor)
		}
		quiet(5 * time.Second)
		if n := c.during(quietFor + time.Second); n == 0 {
			t.Error("no check though nobody says that it is quiet")
		}
	})
}

// Who could not check for a while gives the others time to come back.
// Proves G33.
func TestWatch_LeavesTimeAfterAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newChecks(t, 1)
		time.Sleep(10 * time.Second)
		if all := c.list(); all[len(all)-1].inGrace {
			t.Error("the others have time though there was no outage")
		}
		seen := Seen{Watching: 2, Others: 1}
		c.answers(seen, errors.New("no server"))
		if n := c.during(time.Minute); n > 30 {
			t.Errorf("%d checks in a minute without a server", n)
		}
		c.answers(seen, nil)
		before := len(c.list())
		time.Sleep(outageGrace + 4*time.Second)
		all := c.list()[before:]
		for _, one := range all {
			since := one.at.Sub(all[0].at)
			if within := since < outageGrace; one.inGrace != within {
				t.Errorf("%v after the outage: in grace %t", since, one.inGrace)
			}
		}
	})
}

// The end of a grace is not missed.
func TestWatch_IsThereWhenAGraceEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newChecks(t, 59)
		seen := Seen{Watching: 60, Others: 59}
		seen.Note(time.Hour)
		seen.Note(70 * time.Millisecond)
		c.answers(seen, nil)
		for len(c.list()) == 0 {
			time.Sleep(time.Millisecond)
		}
		c.answers(Seen{Watching: 60, Others: 59}, nil)
		if n := c.during(71 * time.Millisecond); n != 1 {
			t.Errorf("%d checks until the grace has ended, want one", n)
		}
	})
}
