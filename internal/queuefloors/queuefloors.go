// Package queuefloors remembers where the queues of ready tasks begin, so that a look at them need
// not walk the dead entries ahead (ADR 6).
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

	// floorAge is how long ago a floor was seen that is made use of: for so long an insert may take
	// to commit, and no task of it is ever overlooked.
	floorAge = 100 * time.Millisecond

	// How often a store looks at whole queues: not more often than this, nor for more than a part
	// of its time.
	wholeLookEvery = 100 * time.Millisecond
	wholeLookPart  = 50
)

// Floors are the lowest ranks of the rows in the queue of each action. Below them are the dead
// entries of tasks that were taken, which every look at the queue would walk as long as some
// transaction is older than them, and until they are vacuumed.
//
// A task that becomes ready with a lower rank, because the transaction that inserted it took long,
// is found by the next look at the whole queue. So that it does not wait for long, there is one ten
// times a second, unless it takes too long, and whenever an OwnTasks call finds nothing.
type Floors struct {
	mutex sync.Mutex
	known map[string]*queue

	// wholeLooks are when to look at whole queues, by the actions of a look. Each set of actions
	// has looks of its own: one that hands out tasks of another action tells nothing of this one.
	wholeLooks map[string]time.Time
}

// A queue is what is known of the tasks with one action.
type queue struct {
	// floors are the least ranks that there were, by the rank that their priority begins with;
	// those that are coming were seen later, and are to be made use of from turn on.
	floors, coming map[int64]int64
	turn           time.Time
}

// A Look says which ranks of the queues of which actions to look at. An action may come several
// times.
type Look struct {
	Actions  []string
	From, To []int64
	// Whole says that nothing is left out.
	Whole bool

	set   string // names the actions
	began time.Time
}

// Look returns the next look at the queues of actions. If whole is set, nothing is left out.
func (f *Floors) Look(actions []string, whole bool) Look {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	actions = slices.Compact(slices.Sorted(slices.Values(actions)))
	l := Look{set: actionSet(actions), began: now()}
	unknown := func(action string) bool { return f.known[action] == nil }
	l.Whole = whole || !f.wholeLooks[l.set].After(l.began) ||
		slices.ContainsFunc(actions, unknown)
	for _, action := range actions {
		if l.Whole {
			l.add(action, nil)
		} else {
			l.add(action, f.known[action].floors)
		}
	}
	if _, ok := f.wholeLooks[l.set]; ok && l.Whole { // others need not do the same meanwhile
		f.wholeLooks[l.set] = l.began.Add(wholeLookEvery)
	}
	return l
}

// actionSet names a set of sorted actions, none of which holds a NUL.
func actionSet(actions []string) string { return strings.Join(actions, "\x00") }

// add adds a queue, but for what lies between the beginning of a priority and its floor. Tasks that
// are first again are at the very beginning.
func (l *Look) add(action string, floors map[int64]int64) {
	from := int64(0)
	beginnings := make([]int64, 0, len(floors))
	for beginning := range floors {
		beginnings = append(beginnings, beginning)
	}
	slices.Sort(beginnings)
	for _, beginning := range beginnings {
		if floor := floors[beginning]; floor > beginning {
			l.Actions = append(l.Actions, action)
			l.From, l.To = append(l.From, from), append(l.To, beginning)
			from = floor
		}
	}
	l.Actions = append(l.Actions, action)
	l.From, l.To = append(l.From, from), append(l.To, math.MaxInt64)
}

// Pause is how long it is until the next whole look at the queues of actions.
func (f *Floors) Pause(actions []string) time.Duration {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	set := actionSet(slices.Compact(slices.Sorted(slices.Values(actions))))
	return min(max(f.wholeLooks[set].Sub(now()), 0), wholeLookEvery)
}

// Learn takes note of the floors that a look has found, by action and in no order.
func (f *Floors) Learn(l Look, found map[string][]int64) {
	const actionsMax = 10_000
	if !l.Whole && len(found) == 0 {
		return
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.known == nil || len(f.known) > actionsMax || len(f.wholeLooks) > actionsMax {
		f.known, f.wholeLooks = map[string]*queue{}, map[string]time.Time{}
	}
	end := now()
	if l.Whole {
		f.wholeLooks[l.set] = end.Add(max(wholeLookEvery, wholeLookPart*end.Sub(l.began)))
	}
	for _, action := range slices.Compact(slices.Clone(l.Actions)) {
		known := f.known[action]
		if known == nil {
			known = &queue{floors: map[int64]int64{}}
			f.known[action] = known
		}
		known.learn(end, found[action])
	}
}

// learn takes note of floors that were found by now: of those that are lower than was known at
// once, of the others in turn.
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
