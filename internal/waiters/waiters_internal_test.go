package waiters

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever is woken and leaves without having looked wakes another one.
func TestWaiters_LeavingPassesTheWakeOn(t *testing.T) {
	t.Parallel()
	var a Waiters
	first := a.Join([]string{"x"})
	a.Ready("x")
	second := a.Join([]string{"y", "x"})
	a.Leave([]string{"x"}, first)
	if len(second.wake) != 1 {
		t.Error("nobody was woken instead of who left")
	}
	a.Leave([]string{"y", "x"}, second)
	third := a.Join([]string{"x"})
	if len(third.wake) != 0 {
		t.Error("somebody was woken who came later")
	}
}

func TestWaiters_WakesOneAndThenTwo(t *testing.T) {
	t.Parallel()
	var a Waiters
	wakes := make([]*Waiter, 5)
	for i := range wakes {
		wakes[i] = a.Join([]string{"x", "y"})
	}
	woken := func() int {
		n := 0
		for _, wake := range wakes {
			n += len(wake.wake)
		}
		return n
	}
	a.Ready("x")
	if n := woken(); n != 1 {
		t.Errorf("%d were woken, want 1", n)
	}
	a.ReadyForMore([]string{"y", "x"})
	if n := woken(); n != 3 {
		t.Errorf("%d were woken, want 3", n)
	}
	a.Any()
	if n := woken(); n != 5 {
		t.Errorf("%d were woken, want 5", n)
	}
}

// The last one who has looked knows when something is due. When it leaves, another one looks.
func TestWaiters_HandsOnWhatTheLastLookTold(t *testing.T) {
	t.Parallel()
	var a Waiters
	first, second := a.Join([]string{"x"}), a.Join([]string{"x"})
	a.Look(first)
	a.Look(second)
	if a.isLast(first) || !a.isLast(second) {
		t.Error("the last look is not that of the second")
	}
	a.Leave([]string{"x"}, second)
	if len(first.queue.left) != 1 {
		t.Error("nobody looks instead of who left")
	}
}

// After a fetch that took all, nobody looks, until tasks are said to be ready since it began, or
// a look in vain is long ago.
// Proves G207.
func TestWaiters_KnowThatAllIsTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var a Waiters
		of := []string{"x", "y"}
		is := func(when string, want bool) {
			t.Helper()
			if rest := a.EmptyFor(of); (rest > 0) != want || rest > emptyFor {
				t.Errorf("%s: empty for %v", when, rest)
			}
		}
		is("at first", false)
		a.Emptied(of, a.Told(), false)
		is("when nobody has looked in vain", false)
		a.Emptied(of, a.Told(), true)
		is("after a look in vain", true)
		if a.EmptyFor([]string{"x"}) > 0 {
			t.Error("other actions are taken to be empty, too")
		}
		told := a.Told()
		a.Ready("x")
		is("when a task is ready", false)
		a.Emptied(of, told, false)
		is("when a fetch began before", false)
		a.Emptied(of, a.Told(), false)
		is("when a fetch began since", true)
		a.Any()
		is("when any task may be ready", false)
		a.Emptied(of, a.Told(), false)
		time.Sleep(emptyFor)
		is("when the look in vain is long ago", false)
		a.Emptied(of, a.Told(), true)
		for i := range 3 * emptyMax {
			a.Emptied([]string{strconv.Itoa(i)}, a.Told(), true)
		}
		if n := len(a.empty); n > emptyMax+1 {
			t.Errorf("%d sets of actions are remembered", n)
		}
	})
}
