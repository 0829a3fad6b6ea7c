package queuefloors

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// rank is the rank of a span, as the table computes it.
func rank(priority, position int64) int64 {
	return (math.MaxInt16-priority)<<rankPositionBits | position
}

func TestFloors_ScanTheWholeOfUnknownQueues(t *testing.T) {
	t.Parallel()
	var f Floors
	scan := f.Scan([]string{"b", "a", "b"}, false)
	if want := []string{"a", "b"}; !scan.Whole || !slices.Equal(scan.Actions, want) {
		t.Errorf("whole %t, actions %q, want the whole of %q", scan.Whole, scan.Actions, want)
	}
	if !slices.Equal(scan.From, []int64{0, 0}) ||
		!slices.Equal(scan.To, []int64{math.MaxInt64, math.MaxInt64}) {
		t.Errorf("from %d to %d", scan.From, scan.To)
	}
	f.Learn(scan, nil)
	if f.Scan([]string{"a", "b"}, false).Whole {
		t.Error("the whole is looked at twice")
	}
	if !f.Scan([]string{"a", "c"}, false).Whole {
		t.Error("what is unknown is not looked at")
	}
	if !f.Scan([]string{"a"}, true).Whole {
		t.Error("what is asked for is not looked at")
	}
}

func TestFloors_LeaveOutWhatWasTaken(t *testing.T) {
	t.Parallel()
	var f Floors
	found := map[string][]int64{"a": {rank(0, 500), rank(7, 300)}, "b": {rank(0, 0)}}
	f.Learn(f.Scan([]string{"a", "b"}, true), found)
	if scan := f.Scan([]string{"a", "b"}, false); scan.Whole || len(scan.Actions) != 2 {
		t.Errorf("what was seen just now is left out: from %d to %d", scan.From, scan.To)
	}
	for range 2 { // the time comes
		for _, action := range []string{"a", "b"} {
			f.known[action].turn = now()
		}
		f.Learn(f.Scan([]string{"a", "b"}, false), found)
	}
	scan := f.Scan([]string{"a", "b"}, false)
	wantActions := []string{"a", "a", "a", "b"}
	// Tasks of any other priority are seen, and those that are first again.
	wantFrom := []int64{0, rank(7, 300), rank(0, 500), 0}
	wantTo := []int64{rank(7, 0), rank(0, 0), math.MaxInt64, math.MaxInt64}
	if scan.Whole || !slices.Equal(scan.Actions, wantActions) ||
		!slices.Equal(scan.From, wantFrom) || !slices.Equal(scan.To, wantTo) {
		t.Errorf("actions %q, from %d to %d; want %q, from %d to %d",
			scan.Actions, scan.From, scan.To, wantActions, wantFrom, wantTo)
	}
}

// An insert may take as long to commit: until then its tasks may be below a floor that was found.
func TestFloors_AreUsedOnceTheyAreOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f Floors
		queues := func() int {
			f.Learn(f.Scan([]string{"a"}, true), map[string][]int64{"a": {rank(0, 500)}})
			return len(f.Scan([]string{"a"}, false).Actions)
		}
		for range 3 {
			if parts := queues(); parts != 1 {
				t.Errorf("a floor that was found just now cuts the queue into %d parts", parts)
			}
		}
		time.Sleep(floorAge)
		if parts := queues(); parts != 2 {
			t.Errorf("a floor that is old cuts the queue into %d parts, want 2", parts)
		}
	})
}

// A scan that finds what was overlooked has it seen from then on.
func TestFloors_LowerTheirFloorsAtOnce(t *testing.T) {
	t.Parallel()
	var f Floors
	for range 3 {
		f.Learn(f.Scan([]string{"a"}, true), map[string][]int64{"a": {rank(0, 500)}})
		f.known["a"].turn = now()
	}
	f.Learn(f.Scan([]string{"a"}, true), map[string][]int64{"a": {rank(0, 40)}})
	for range 2 {
		scan := f.Scan([]string{"a"}, false)
		if want := []int64{0, rank(0, 40)}; !slices.Equal(scan.From, want) {
			t.Errorf("scans from %d, want %d", scan.From, want)
		}
		f.known["a"].turn = now()
		f.Learn(scan, map[string][]int64{"a": {rank(0, 40)}})
	}
}

func TestFloors_ScanTheWholeOfAQueueThatIsForgotten(t *testing.T) {
	t.Parallel()
	var f Floors
	f.Learn(f.Scan([]string{"a"}, true), map[string][]int64{"a": {rank(0, 500)}})
	f.known["a"].turn = now()
	f.Learn(f.Scan([]string{"a"}, true), map[string][]int64{"a": {rank(0, 500)}})
	f.Forget("a")
	if scan := f.Scan([]string{"a"}, false); !scan.Whole || scan.From[0] != 0 {
		t.Errorf("it scans from %d", scan.From)
	}
}

func TestFloors_ScanTheWholeAgainInTime(t *testing.T) {
	t.Parallel()
	var f Floors
	scan := f.Scan([]string{"a"}, false)
	f.Learn(scan, map[string][]int64{"a": {rank(0, 500)}})
	if pause := f.Pause([]string{"a"}); pause <= 0 || pause > wholeScanEvery {
		t.Errorf("the next scan is in %v", pause)
	}
	scan.began = scan.began.Add(-time.Second) // it took long
	f.Learn(scan, map[string][]int64{"a": {rank(0, 500)}})
	due := time.Until(f.wholeScans["a"].due)
	if due < (wholeScanPart-1)*time.Second {
		t.Errorf("the next scan is in %v, after one that took a second", due)
	}
	f.wholeScans["a"] = wholeScan{due: now()}
	if !f.Scan([]string{"a"}, false).Whole {
		t.Error("the whole is not looked at when it is due")
	}
}

// While a scan of the whole takes long, those that begin meanwhile leave out what they can.
func TestFloors_ScanTheWholeOnceAtATime(t *testing.T) {
	t.Parallel()
	var f Floors
	scan := f.Scan([]string{"a"}, false)
	scan.began = scan.began.Add(-time.Second)
	f.Learn(scan, map[string][]int64{"a": {rank(0, 500)}})
	last := f.wholeScans["a"]
	last.due = now()
	f.wholeScans["a"] = last
	if !f.Scan([]string{"a"}, false).Whole {
		t.Fatal("the whole is not looked at when it is due")
	}
	due := time.Until(f.wholeScans["a"].due)
	if due < (wholeScanPart-1)*time.Second {
		t.Errorf("the next scan is in %v, while one is under way that takes a second", due)
	}
}

// A scan of the queues of several actions may fetch tasks of one of them only, and then tells
// nothing of the others. It does not stand for a scan of the whole of one of them.
func TestFloors_ScanTheWholeForEachSetOfActions(t *testing.T) {
	t.Parallel()
	var f Floors
	found := map[string][]int64{"a": {rank(0, 500)}, "b": {rank(0, 500)}}
	f.Learn(f.Scan([]string{"a"}, false), found)
	f.wholeScans["a"] = wholeScan{due: now()}
	f.Learn(f.Scan([]string{"b", "a"}, true), found)
	if f.Scan([]string{"a", "b"}, false).Whole {
		t.Error("the whole of both is looked at twice")
	}
	if !f.Scan([]string{"a"}, false).Whole {
		t.Error("the whole of one is not looked at when it is due")
	}
}
