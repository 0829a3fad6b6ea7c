package stint

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

// Queues is where in the queue of each action the rows begin that there are. Ahead of them come the
// dead entries of what was taken, which every look at the queue would walk as long as some
// transaction is older than them, and until they are vacuumed.
//
// A task that becomes ready with a lower rank, because the transaction that inserted it took long,
// is found by the next look at the whole queue; so that none waits for long, there is one ten
// times a second, unless it takes too long, and whenever an OwnTasks call finds nothing.
type queues struct {
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

// A queueLook says which ranks of the queues of which actions to look at. An action may come
// several times.
type queueLook struct {
	set      string // names the actions
	actions  []string
	from, to []int64
	// whole says that nothing is left out, began when the look did.
	whole bool
	began time.Time
}

// look returns the next look at the queues of actions. If whole is set, nothing is left out.
func (q *queues) look(actions []string, whole bool) queueLook {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	actions = slices.Compact(slices.Sorted(slices.Values(actions)))
	l := queueLook{set: actionSet(actions), began: now()}
	unknown := func(action string) bool { return q.known[action] == nil }
	l.whole = whole || !q.wholeLooks[l.set].After(l.began) ||
		slices.ContainsFunc(actions, unknown)
	for _, action := range actions {
		if l.whole {
			l.add(action, nil)
		} else {
			l.add(action, q.known[action].floors)
		}
	}
	if _, ok := q.wholeLooks[l.set]; ok && l.whole { // others need not do the same meanwhile
		q.wholeLooks[l.set] = l.began.Add(wholeLookEvery)
	}
	return l
}

// actionSet names a set of sorted actions, none of which holds a NUL.
func actionSet(actions []string) string { return strings.Join(actions, "\x00") }

// add adds a queue, but for what lies between the beginning of a priority and its floor. Tasks that
// are first again are at the very beginning.
func (l *queueLook) add(action string, floors map[int64]int64) {
	from := int64(0)
	beginnings := make([]int64, 0, len(floors))
	for beginning := range floors {
		beginnings = append(beginnings, beginning)
	}
	slices.Sort(beginnings)
	for _, beginning := range beginnings {
		if floor := floors[beginning]; floor > beginning {
			l.actions = append(l.actions, action)
			l.from, l.to = append(l.from, from), append(l.to, beginning)
			from = floor
		}
	}
	l.actions = append(l.actions, action)
	l.from, l.to = append(l.from, from), append(l.to, math.MaxInt64)
}

// pause is how long it is until the next whole look at the queues of actions.
func (q *queues) pause(actions []string) time.Duration {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	set := actionSet(slices.Compact(slices.Sorted(slices.Values(actions))))
	return min(max(q.wholeLooks[set].Sub(now()), 0), wholeLookEvery)
}

// learn takes note of the floors that a look has found, by action and in no order.
func (q *queues) learn(l queueLook, found map[string][]int64) {
	const actionsMax = 10_000
	if !l.whole && len(found) == 0 {
		return
	}
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.known == nil || len(q.known) > actionsMax || len(q.wholeLooks) > actionsMax {
		q.known, q.wholeLooks = map[string]*queue{}, map[string]time.Time{}
	}
	end := now()
	if l.whole {
		q.wholeLooks[l.set] = end.Add(max(wholeLookEvery, wholeLookPart*end.Sub(l.began)))
	}
	for _, action := range slices.Compact(slices.Clone(l.actions)) {
		known := q.known[action]
		if known == nil {
			known = &queue{floors: map[int64]int64{}}
			q.known[action] = known
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
