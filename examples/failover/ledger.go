//go:build linux

package main

import (
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
)

// A ledger is what clients were told. It is kept in this process, and asks nobody.
type ledger struct {
	mutex    sync.Mutex
	inserted map[stint.TaskID]bool // acknowledged
	repeated int                   // inserts that were repeated
	owners   map[stint.TaskID][]*owner
	byToken  map[stint.Token]*owner
	faultAt  time.Time
	changed  chan struct{} // sent to when a return is accepted
}

// An owner is one that was given a task.
type owner struct {
	actor      stint.ActorID
	token      stint.Token
	try        int
	givenAt    time.Time
	acceptedAt time.Time // zero: its return was not accepted, as far as it knows
}

func newLedger() *ledger {
	return &ledger{
		inserted: map[stint.TaskID]bool{}, owners: map[stint.TaskID][]*owner{},
		byToken: map[stint.Token]*owner{}, changed: make(chan struct{}, 1),
	}
}

// resultOf is the result with which the owner with a token returns its task, so that the table of
// finished tasks tells whose return took effect.
func resultOf(token stint.Token) string { return hex.EncodeToString(token[:]) }

// insert notes that an insert was acknowledged, after so many calls that were not.
func (l *ledger) insert(id stint.TaskID, repeats int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.inserted[id] = true
	l.repeated += min(repeats, 1)
}

func (l *ledger) give(actor stint.ActorID, task stint.OwnedTask) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	o := &owner{actor: actor, token: task.Token, try: task.Try, givenAt: time.Now()}
	l.owners[task.ID] = append(l.owners[task.ID], o)
	l.byToken[task.Token] = o
}

func (l *ledger) accept(token stint.Token) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if o := l.byToken[token]; o != nil && o.acceptedAt.IsZero() {
		o.acceptedAt = time.Now()
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// strike notes when the fault began.
func (l *ledger) strike() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.faultAt = time.Now()
}

// performedSince are the workers that have had a return accepted of a task that was given later
// than that.
func (l *ledger) performedSince(begin time.Time) map[stint.ActorID]bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	actors := map[stint.ActorID]bool{}
	for _, o := range l.byToken {
		if o.givenAt.After(begin) && !o.acceptedAt.IsZero() {
			actors[o.actor] = true
		}
	}
	return actors
}

// gap is the longest time from the fault on in which no return was accepted, of one worker or, with
// an empty name, of any; the mutex is held.
func (l *ledger) gap(of stint.ActorID) time.Duration {
	var moments []time.Time
	for _, o := range l.byToken {
		if o.acceptedAt.After(l.faultAt) && (of == "" || of == o.actor) {
			moments = append(moments, o.acceptedAt)
		}
	}
	slices.SortFunc(moments, time.Time.Compare)
	var longest time.Duration
	before := l.faultAt
	for _, moment := range moments {
		longest = max(longest, moment.Sub(before))
		before = moment
	}
	return longest
}

// slowest is the longest time in which a worker has had no return accepted; the mutex is held.
func (l *ledger) slowest() time.Duration {
	var longest time.Duration
	for _, o := range l.byToken {
		longest = max(longest, l.gap(o.actor))
	}
	return longest
}

// ids are the tasks whose insertion was acknowledged, and those that somebody was given all the
// same.
func (l *ledger) ids() []stint.TaskID {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	ids := make([]stint.TaskID, 0, len(l.inserted))
	for id := range l.inserted {
		ids = append(ids, id)
	}
	for id := range l.owners {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// A verdict sums up a run.
type verdict struct {
	tasks, repeated int
	// gap is the longest time in which no task was performed, slowest that of one worker.
	gap, slowest time.Duration
	// underWay is how many tasks were owned at the fault; triesMax is the most tries that one of
	// them took, retried how many took more than one.
	underWay, triesMax, retried int

	insertsLost, returnsLost, doubles int
	acceptedByOld                     int // by the primary that had the fault
	problems                          int // that Check has found
	details                           []string
}

// bad reports whether a promise was broken.
func (v *verdict) bad() bool {
	return v.insertsLost+v.returnsLost+v.doubles+v.acceptedByOld+v.problems > 0
}

// judge compares what clients were told with what the store holds at the end.
func (l *ledger) judge(found []stint.TaskInfo) *verdict {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	v := &verdict{
		tasks: len(l.inserted), repeated: l.repeated, gap: l.gap(""), slowest: l.slowest(),
	}
	infos := map[stint.TaskID]stint.TaskInfo{}
	for _, info := range found {
		infos[info.ID] = info
	}
	for id := range l.inserted {
		if _, ok := infos[id]; !ok {
			v.insertsLost++
			v.details = append(v.details, fmt.Sprintf("%s: inserted, and not there", id))
		}
	}
	for id, owners := range l.owners {
		l.judgeTask(v, infos[id], id, owners)
	}
	slices.Sort(v.details)
	return v
}

func (l *ledger) judgeTask(
	v *verdict, info stint.TaskInfo, id stint.TaskID, owners []*owner,
) {
	accepted, tries, underWay := 0, 0, false
	for _, o := range owners {
		tries = max(tries, o.try)
		atFault := o.givenAt.Before(l.faultAt) &&
			(o.acceptedAt.IsZero() || o.acceptedAt.After(l.faultAt))
		underWay = underWay || atFault
		if o.acceptedAt.IsZero() {
			continue
		}
		accepted++
		if info.StatusCode != stint.StatusCompleted || string(info.Result) != resultOf(o.token) {
			v.returnsLost++
			v.details = append(v.details, fmt.Sprintf("%s: the return of try %d was accepted, but "+
				"the task is %s, with another result", id, o.try, info.StatusCode))
		}
	}
	if accepted > 1 {
		v.doubles++
		v.details = append(v.details, fmt.Sprintf("%s: %d returns were accepted", id, accepted))
	}
	if underWay {
		v.underWay++
		v.triesMax = max(v.triesMax, tries)
		if tries > 1 {
			v.retried++
		}
	}
}
