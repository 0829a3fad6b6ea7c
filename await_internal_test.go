package stint

import "testing"

// Whoever is woken and leaves without having looked wakes another one.
func TestAwaiting_LeavingPassesTheWakeOn(t *testing.T) {
	t.Parallel()
	var a awaiting
	first := a.join([]string{"x"})
	a.ready("x")
	second := a.join([]string{"y", "x"})
	a.leave([]string{"x"}, first)
	if len(second.wake) != 1 {
		t.Error("nobody was woken instead of who left")
	}
	a.leave([]string{"y", "x"}, second)
	third := a.join([]string{"x"})
	if len(third.wake) != 0 {
		t.Error("somebody was woken who came later")
	}
}

func TestAwaiting_WakesOneAndThenTwo(t *testing.T) {
	t.Parallel()
	var a awaiting
	wakes := make([]*ownWaiter, 5)
	for i := range wakes {
		wakes[i] = a.join([]string{"x", "y"})
	}
	woken := func() int {
		n := 0
		for _, wake := range wakes {
			n += len(wake.wake)
		}
		return n
	}
	a.ready("x")
	if n := woken(); n != 1 {
		t.Errorf("%d were woken, want 1", n)
	}
	a.readyForMore([]string{"y", "x"})
	if n := woken(); n != 3 {
		t.Errorf("%d were woken, want 3", n)
	}
	a.any()
	if n := woken(); n != 5 {
		t.Errorf("%d were woken, want 5", n)
	}
}

// Of those who wait for the same actions, one polls at a time.
func TestAwaiting_LetsOneOfAllPoll(t *testing.T) {
	t.Parallel()
	var a awaiting
	first, second := a.join([]string{"x"}), a.join([]string{"x"})
	other := a.join([]string{"x", "y"})
	<-first.queue.turn
	select {
	case <-second.queue.turn:
		t.Error("two poll at a time")
	case <-other.queue.turn: // for y, too
	}
	first.queue.turn <- struct{}{}
	<-second.queue.turn
	a.leave([]string{"x"}, first)
	a.leave([]string{"x"}, second)
	a.leave([]string{"x", "y"}, other)
	if len(a.queues) > 0 {
		t.Errorf("%d queues are left", len(a.queues))
	}
}

// The last one who has looked knows when something is due. When it leaves, another one looks.
func TestAwaiting_HandsOnWhatTheLastLookTold(t *testing.T) {
	t.Parallel()
	var a awaiting
	first, second := a.join([]string{"x"}), a.join([]string{"x"})
	a.look(first)
	a.look(second)
	if a.isLast(first) || !a.isLast(second) {
		t.Error("the last look is not that of the second")
	}
	a.leave([]string{"x"}, second)
	if len(first.queue.left) != 1 {
		t.Error("nobody looks instead of who left")
	}
}
