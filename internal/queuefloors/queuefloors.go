// Package queuefloors remembers the rank at which the queue of each action begins, so that OwnTasks
// need not read the dead index entries before that rank (ADR 6). The store uses it.
package queuefloors

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// rankPositionBits is how far the priority is shifted in the column ready.rank.
	rankPositionBits = 47

	// floorAge is how old a floor is before it is used. An insert may take that long to commit, and
	// none of its tasks is ever overlooked.
	floorAge = 100 * time.Millisecond

	// How often a store scans whole queues: at most once per wholeScanEvery, and for at most one
	// part in wholeScanPart of its time, but once per wholeScanMost even if that takes long, or the
	// pool has no connection for long.
	wholeScanEvery = 100 * time.Millisecond
	wholeScanPart  = 50
	wholeScanMost  = time.Minute
)

// Floors are the lowest ranks of the rows in the queue of each action. Below them are the dead
// entries of tasks that were taken, which every scan of the queue would walk as long as some
// transaction is older than them, and until they are vacuumed.
//
// A task that becomes ready with a lower rank, because the transaction that inserted it took long,
// is found by the next scan of the whole queue. So that the task does not wait for long, there is
// such a scan ten times a second, unless it takes too long, and whenever an OwnTasks call finds
// nothing.
type Floors struct {
	mutex sync.Mutex
	known map[string]*queue

	// wholeScans are the scans of whole queues, by the actions of a scan. Each set of actions has
	// whole scans of its own: a scan that fetches tasks with one action says nothing about
	// another action.
	wholeScans map[string]wholeScan
}

// A wholeScan says when the next one is due, and how long to wait behind one that begins now, going
// by how long the last one took.
type wholeScan struct {
	due   time.Time
	pause time.Duration
}

// A queue is what is known of the tasks with one action.
type queue struct {
	// floors are the least ranks that were found, by the rank with which their priority begins.
	// coming are the floors that were found later; they are used from turn on.
	floors, coming map[int64]int64
	turn           time.Time
}

// A Scan says which ranks of the queues of which actions to read. An action may come several
// times.
type Scan struct {
	Actions  []string
	From, To []int64
	// Whole says that nothing is to be left out, Partial that something is: neither is the case if
	// nothing could be.
	Whole, Partial bool

	set   string // names the actions
	began time.Time
}

// Scan returns the next scan of the queues of actions. If whole is set, nothing is left out.
func (f *Floors) Scan(actions []string, whole bool) Scan {
	actions = slices.Compact(slices.Sorted(slices.Values(actions)))
	return f.scan(actionSet(actions), actions, whole)
}

// ScanAll returns the next scan for all who wait, of the sorted actions that they wait for now.
// Call Scanned behind it.
func (f *Floors) ScanAll(actions []string) Scan {
	const all = "\x00" // no set of actions is called so
	return f.scan(all, actions, false)
}

func (f *Floors) scan(set string, actions []string, whole bool) Scan {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	scan := Scan{set: set, began: now()}
	unknown := func(action string) bool { return f.known[action] == nil }
	scan.Whole = whole || !f.wholeScans[scan.set].due.After(scan.began) ||
		slices.ContainsFunc(actions, unknown)
	for _, action := range actions {
		if scan.Whole {
			scan.add(action, nil)
		} else {
			scan.add(action, f.known[action].floors)
		}
	}
	// Others need not do the same meanwhile, however long this one takes.
	if last, ok := f.wholeScans[scan.set]; ok && scan.Whole {
		last.due = scan.began.Add(last.pause)
		f.wholeScans[scan.set] = last
	}
	return scan
}

// Part returns the scan in two parts: of the queues of all other actions, and of those given.
func (scan *Scan) Part(given func(action string) bool) (others, those Scan) {
	others, those = *scan, *scan
	others.Actions, others.From, others.To = nil, nil, nil
	those.Actions, those.From, those.To = nil, nil, nil
	for i, action := range scan.Actions {
		part := &others
		if given(action) {
			part = &those
		}
		part.Actions = append(part.Actions, action)
		part.From, part.To = append(part.From, scan.From[i]), append(part.To, scan.To[i])
	}
	return others, those
}

// actionSet names a set of sorted actions, none of which holds a NUL.
func actionSet(actions []string) string { return strings.Join(actions, "\x00") }

// add adds a queue, except for the ranks between the beginning of a priority and its floor. Tasks
// that are first in line again are at the very beginning.
func (scan *Scan) add(action string, floors map[int64]int64) {
	from := int64(0)
	beginnings := make([]int64, 0, len(floors))
	for beginning := range floors {
		beginnings = append(beginnings, beginning)
	}
	slices.Sort(beginnings)
	for _, beginning := range beginnings {
		if floor := floors[beginning]; floor > beginning {
			scan.Partial = true
			scan.Actions = append(scan.Actions, action)
			scan.From, scan.To = append(scan.From, from), append(scan.To, beginning)
			from = floor
		}
	}
	scan.Actions = append(scan.Actions, action)
	scan.From, scan.To = append(scan.From, from), append(scan.To, math.MaxInt64)
}

// Pause is how long it is until the next whole scan of the queues of actions.
func (f *Floors) Pause(actions []string) time.Duration {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	set := actionSet(slices.Compact(slices.Sorted(slices.Values(actions))))
	return max(f.wholeScans[set].due.Sub(now()), 0)
}

// Forget has the next scan of a queue leave nothing out: tasks with lower ranks have become ready.
func (f *Floors) Forget(action string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	delete(f.known, action)
}

// Learn takes note of the floors that a scan has found, by action and in no order.
func (f *Floors) Learn(scan Scan, found map[string][]int64) {
	const actionsMax = 10_000
	if !scan.Whole && len(found) == 0 {
		return
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.known == nil || len(f.known) > actionsMax || len(f.wholeScans) > actionsMax {
		f.known, f.wholeScans = map[string]*queue{}, map[string]wholeScan{}
	}
	end := now()
	f.scanned(scan, end)
	for _, action := range slices.Compact(slices.Clone(scan.Actions)) {
		known := f.known[action]
		if known == nil {
			known = &queue{floors: map[int64]int64{}}
			f.known[action] = known
		}
		known.learn(end, found[action])
	}
}

// Scanned takes note that a scan has ended that did not look for floors.
func (f *Floors) Scanned(scan Scan) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.scanned(scan, now())
}

// scanned notes when to scan whole queues again; the mutex is held.
func (f *Floors) scanned(scan Scan, end time.Time) {
	if f.wholeScans == nil {
		f.wholeScans = map[string]wholeScan{}
	}
	if scan.Whole {
		pause := min(max(wholeScanEvery, wholeScanPart*end.Sub(scan.began)), wholeScanMost)
		f.wholeScans[scan.set] = wholeScan{end.Add(pause), pause}
	}
}

// learn takes note of floors that were found by now. Floors that are lower than the known ones are
// used at once, the others when it is their turn.
func (q *queue) learn(now time.Time, found []int64) {
	seen := make(map[int64]int64, len(found))
	for _, floor := range found {
		beginning := floor >> rankPositionBits << rankPositionBits
		seen[beginning] = floor
		for _, known := range []map[int64]int64{q.floors, q.coming} {
			if was, ok := known[beginning]; ok && floor < was {
				known[beginning] = floor
			}
		}
	}
	if !q.turn.After(now) {
		maps.Copy(q.floors, q.coming)
		q.coming, q.turn = seen, now.Add(floorAge)
	}
}

// now is for durations of this process; the database says when a task is due.
func now() time.Time {
	return time.Now() //nolint:forbidigo // as the comment says
}
