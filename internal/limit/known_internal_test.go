package limit

import "testing"

// What is known of actions is what the last fetch said of them.
func TestKnown_ForgetsLimitsThatHaveGone(t *testing.T) {
	t.Parallel()
	var k Known
	if k.Any() || k.Unkeyed() || k.Of([]string{"a"}) != nil {
		t.Error("something is known at the beginning")
	}
	k.Learn([]string{"a", "b"}, map[string]Kind{"a": {}, "b": {Keyed: true}})
	if of := k.Of([]string{"b", "c"}); len(of) != 1 || !of["b"].Keyed {
		t.Errorf("known of b and c: %v", of)
	}
	if k.Unkeyed() {
		t.Error("the limits of keys are not known")
	}
	k.Learn([]string{"b"}, nil)
	if !k.Unkeyed() || !k.Any() {
		t.Error("the limits of keys are still known, or those of a are not")
	}
	k.Learn([]string{"a"}, nil)
	if k.Any() {
		t.Error("limits that have gone are still known")
	}
}

// Keys that come while somebody looks are looked at by the same, and one begins at a time.
func TestRechecks_OneLooksAtAllThatCome(t *testing.T) {
	t.Parallel()
	var r rechecks
	if !r.add([]Key{{"a", "x"}}) {
		t.Error("nobody begins")
	}
	if r.add([]Key{{"a", "y"}}) {
		t.Error("two begin")
	}
	if fresh, goesOn := r.take(false); len(fresh) != 2 || !goesOn {
		t.Errorf("it takes %v, and goes on: %t", fresh, goesOn)
	}
	if fresh, goesOn := r.take(true); len(fresh) != 0 || !goesOn {
		t.Errorf("with some left it takes %v, and goes on: %t", fresh, goesOn)
	}
	if _, goesOn := r.take(false); goesOn {
		t.Error("it goes on with nothing left")
	}
	r.add(make([]Key, recheckedKeysMax))
	r.add([]Key{{"a", "z"}})
	if fresh, _ := r.take(false); len(fresh) != recheckedKeysMax {
		t.Errorf("%d keys wait, want %d at most", len(fresh), recheckedKeysMax)
	}
}
