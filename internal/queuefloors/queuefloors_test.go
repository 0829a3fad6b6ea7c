package queuefloors

import (
	"math"
	"slices"
	"testing"
	"time"
)

// rank is the rank of a span, as the table computes it.
func rank(priority, position int64) int64 {
	return (math.MaxInt16-priority)<<rankPositionBits | position
}

func TestFloors_LookAtTheWholeOfWhatIsUnknown(t *testing.T) {
	t.Parallel()
	var f Floors
	l := f.Look([]string{"b", "a", "b"}, false)
	if want := []string{"a", "b"}; !l.Whole || !slices.Equal(l.Actions, want) {
		t.Errorf("whole %t, actions %q, want the whole of %q", l.Whole, l.Actions, want)
	}
	if !slices.Equal(l.From, []int64{0, 0}) ||
		!slices.Equal(l.To, []int64{math.MaxInt64, math.MaxInt64}) {
		t.Errorf("from %d to %d", l.From, l.To)
	}
	f.Learn(l, nil)
	if f.Look([]string{"a", "b"}, false).Whole {
		t.Error("the whole is looked at twice")
	}
	if !f.Look([]string{"a", "c"}, false).Whole {
		t.Error("what is unknown is not looked at")
	}
	if !f.Look([]string{"a"}, true).Whole {
		t.Error("what is asked for is not looked at")
	}
}

func TestFloors_LeaveOutWhatWasTaken(t *testing.T) {
	t.Parallel()
	var f Floors
	found := map[string][]int64{"a": {rank(0, 500), rank(7, 300)}, "b": {rank(0, 0)}}
	f.Learn(f.Look([]string{"a", "b"}, true), found)
	if l := f.Look([]string{"a", "b"}, false); l.Whole || len(l.Actions) != 2 {
		t.Errorf("what was seen just now is left out: from %d to %d", l.From, l.To)
	}
	for range 2 { // the time comes
		for _, action := range []string{"a", "b"} {
			f.known[action].turn = now()
		}
		f.Learn(f.Look([]string{"a", "b"}, false), found)
	}
	l := f.Look([]string{"a", "b"}, false)
	wantActions := []string{"a", "a", "a", "b"}
	// Tasks of any other priority are seen, and those that are first again.
	wantFrom := []int64{0, rank(7, 300), rank(0, 500), 0}
	wantTo := []int64{rank(7, 0), rank(0, 0), math.MaxInt64, math.MaxInt64}
	if l.Whole || !slices.Equal(l.Actions, wantActions) || !slices.Equal(l.From, wantFrom) ||
		!slices.Equal(l.To, wantTo) {
		t.Errorf("actions %q, from %d to %d; want %q, from %d to %d", l.Actions, l.From, l.To,
			wantActions, wantFrom, wantTo)
	}
}

// A look that finds what was overlooked has it seen from then on.
func TestFloors_LowerTheirFloorsAtOnce(t *testing.T) {
	t.Parallel()
	var f Floors
	for range 3 {
		f.Learn(f.Look([]string{"a"}, true), map[string][]int64{"a": {rank(0, 500)}})
		f.known["a"].turn = now()
	}
	f.Learn(f.Look([]string{"a"}, true), map[string][]int64{"a": {rank(0, 40)}})
	for range 2 {
		l := f.Look([]string{"a"}, false)
		if want := []int64{0, rank(0, 40)}; !slices.Equal(l.From, want) {
			t.Errorf("looks from %d, want %d", l.From, want)
		}
		f.known["a"].turn = now()
		f.Learn(l, map[string][]int64{"a": {rank(0, 40)}})
	}
}

func TestFloors_LookAtTheWholeAgainInTime(t *testing.T) {
	t.Parallel()
	var f Floors
	l := f.Look([]string{"a"}, false)
	f.Learn(l, map[string][]int64{"a": {rank(0, 500)}})
	if pause := f.Pause([]string{"a"}); pause <= 0 || pause > wholeLookEvery {
		t.Errorf("the next look is in %v", pause)
	}
	l.began = l.began.Add(-time.Second) // it took long
	f.Learn(l, map[string][]int64{"a": {rank(0, 500)}})
	due := time.Until(f.wholeLooks["a"])
	if due < (wholeLookPart-1)*time.Second {
		t.Errorf("the next look is in %v, after one that took a second", due)
	}
	f.wholeLooks["a"] = now()
	if !f.Look([]string{"a"}, false).Whole {
		t.Error("the whole is not looked at when it is due")
	}
}

// A look at the queues of several actions may hand out tasks of one of them only, and then tells
// nothing of the others. It does not stand for a look at the whole of one of them.
func TestFloors_LookAtTheWholeForEachSetOfActions(t *testing.T) {
	t.Parallel()
	var f Floors
	found := map[string][]int64{"a": {rank(0, 500)}, "b": {rank(0, 500)}}
	f.Learn(f.Look([]string{"a"}, false), found)
	f.wholeLooks["a"] = now()
	f.Learn(f.Look([]string{"b", "a"}, true), found)
	if f.Look([]string{"a", "b"}, false).Whole {
		t.Error("the whole of both is looked at twice")
	}
	if !f.Look([]string{"a"}, false).Whole {
		t.Error("the whole of one is not looked at when it is due")
	}
}
