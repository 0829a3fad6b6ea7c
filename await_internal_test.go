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
	if len(second) != 1 {
		t.Error("nobody was woken instead of who left")
	}
	a.leave([]string{"y", "x"}, second)
	third := a.join([]string{"x"})
	if len(third) != 0 {
		t.Error("somebody was woken who came later")
	}
}

func TestAwaiting_WakesOneAndThenTwo(t *testing.T) {
	t.Parallel()
	var a awaiting
	wakes := make([]chan struct{}, 5)
	for i := range wakes {
		wakes[i] = a.join([]string{"x", "y"})
	}
	woken := func() int {
		n := 0
		for _, wake := range wakes {
			n += len(wake)
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
