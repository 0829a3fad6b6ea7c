package stint

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

func TestQueues_LookAtTheWholeOfWhatIsUnknown(t *testing.T) {
	t.Parallel()
	var q queues
	l := q.look([]string{"b", "a", "b"}, false)
	if want := []string{"a", "b"}; !l.whole || !slices.Equal(l.actions, want) {
		t.Errorf("whole %t, actions %q, want the whole of %q", l.whole, l.actions, want)
	}
	if !slices.Equal(l.from, []int64{0, 0}) ||
		!slices.Equal(l.to, []int64{math.MaxInt64, math.MaxInt64}) {
		t.Errorf("from %d to %d", l.from, l.to)
	}
	q.learn(l, nil)
	if q.look([]string{"a", "b"}, false).whole {
		t.Error("the whole is looked at twice")
	}
	if !q.look([]string{"a", "c"}, false).whole {
		t.Error("what is unknown is not looked at")
	}
	if !q.look([]string{"a"}, true).whole {
		t.Error("what is asked for is not looked at")
	}
}

func TestQueues_LeaveOutWhatWasTaken(t *testing.T) {
	t.Parallel()
	var q queues
	found := map[string][]int64{"a": {rank(0, 500), rank(7, 300)}, "b": {rank(0, 0)}}
	q.learn(q.look([]string{"a", "b"}, true), found)
	if l := q.look([]string{"a", "b"}, false); l.whole || len(l.actions) != 2 {
		t.Errorf("what was seen just now is left out: from %d to %d", l.from, l.to)
	}
	for range 2 { // the time comes
		for _, action := range []string{"a", "b"} {
			q.known[action].turn = now()
		}
		q.learn(q.look([]string{"a", "b"}, false), found)
	}
	l := q.look([]string{"a", "b"}, false)
	wantActions := []string{"a", "a", "a", "b"}
	// Tasks of any other priority are seen, and those that are first again.
	wantFrom := []int64{0, rank(7, 300), rank(0, 500), 0}
	wantTo := []int64{rank(7, 0), rank(0, 0), math.MaxInt64, math.MaxInt64}
	if l.whole || !slices.Equal(l.actions, wantActions) || !slices.Equal(l.from, wantFrom) ||
		!slices.Equal(l.to, wantTo) {
		t.Errorf("actions %q, from %d to %d; want %q, from %d to %d", l.actions, l.from, l.to,
			wantActions, wantFrom, wantTo)
	}
}

// A look that finds what was overlooked has it seen from then on.
func TestQueues_LowerTheirFloorsAtOnce(t *testing.T) {
	t.Parallel()
	var q queues
	for range 3 {
		q.learn(q.look([]string{"a"}, true), map[string][]int64{"a": {rank(0, 500)}})
		q.known["a"].turn = now()
	}
	q.learn(q.look([]string{"a"}, true), map[string][]int64{"a": {rank(0, 40)}})
	for range 2 {
		l := q.look([]string{"a"}, false)
		if want := []int64{0, rank(0, 40)}; !slices.Equal(l.from, want) {
			t.Errorf("looks from %d, want %d", l.from, want)
		}
		q.known["a"].turn = now()
		q.learn(l, map[string][]int64{"a": {rank(0, 40)}})
	}
}

func TestQueues_LookAtTheWholeAgainInTime(t *testing.T) {
	t.Parallel()
	var q queues
	l := q.look([]string{"a"}, false)
	q.learn(l, map[string][]int64{"a": {rank(0, 500)}})
	if pause := q.pause([]string{"a"}); pause <= 0 || pause > wholeLookEvery {
		t.Errorf("the next look is in %v", pause)
	}
	l.began = l.began.Add(-time.Second) // it took long
	q.learn(l, map[string][]int64{"a": {rank(0, 500)}})
	due := time.Until(q.wholeLooks["a"])
	if due < (wholeLookPart-1)*time.Second {
		t.Errorf("the next look is in %v, after one that took a second", due)
	}
	q.wholeLooks["a"] = now()
	if !q.look([]string{"a"}, false).whole {
		t.Error("the whole is not looked at when it is due")
	}
}

// A look at the queues of several actions may hand out tasks of one of them only, and then tells
// nothing of the others. It does not stand for a look at the whole of one of them.
func TestQueues_LookAtTheWholeForEachSetOfActions(t *testing.T) {
	t.Parallel()
	var q queues
	found := map[string][]int64{"a": {rank(0, 500)}, "b": {rank(0, 500)}}
	q.learn(q.look([]string{"a"}, false), found)
	q.wholeLooks["a"] = now()
	q.learn(q.look([]string{"b", "a"}, true), found)
	if q.look([]string{"a", "b"}, false).whole {
		t.Error("the whole of both is looked at twice")
	}
	if !q.look([]string{"a"}, false).whole {
		t.Error("the whole of one is not looked at when it is due")
	}
}
