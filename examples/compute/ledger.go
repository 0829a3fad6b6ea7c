package main

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
)

// evidence is what is known of a run from outside the store.
type evidence struct {
	expected int // How many requests there were to be.
	entries  []entry
	torn     int
	results  []result
}

// A ledger is the evidence by what it is about, and what is wrong with it.
type ledger struct {
	evidence
	problems []string

	requests     map[int]*request
	owners       map[string]*owner // By the names of the performances.
	tokens       map[stint.Token]string
	tasks        map[stint.TaskID][]*task // In the order of their insertion.
	deletions    map[stint.TaskID]int
	killed, dead map[string]int
	crashes      []span
}

// A request has one entry of each kind if all is well.
type request struct {
	task            *task
	asked, answered []entry
}

// An owner is a performance.
type owner struct {
	entry     // With which it began.
	place     int
	task      *task
	returning bool
	verdict   kind
	extending int   // The place of the newest entry extending.
	confirmed []int // The places after which it owned the task.
}

// A task is one of those that had the same ID, one after the other was deleted.
type task struct {
	id      stint.TaskID
	answers []entry
	owners  []*owner // In the order of their tries.
	results []result
}

// A span is when the server was away.
type span struct{ from, until time.Time }

func newLedger(e evidence) *ledger {
	l := &ledger{
		evidence: e,
		requests: map[int]*request{},
		owners:   map[string]*owner{}, tokens: map[stint.Token]string{},
		tasks: map[stint.TaskID][]*task{}, deletions: map[stint.TaskID]int{},
		killed: map[string]int{}, dead: map[string]int{},
	}
	for place, e := range e.entries {
		l.enter(place, e)
	}
	for _, row := range l.results {
		o := l.owners[row.Performance]
		if o == nil || o.Computation != row.Computation {
			l.problem("a result of %s by %q, which had no such task", row.Computation,
				row.Performance)
			continue
		}
		o.task.results = append(o.task.results, row)
	}
	for t := range l.eachTask() {
		slices.SortFunc(t.owners, func(a, b *owner) int { return a.Try - b.Try })
	}
	return l
}

func (l *ledger) problem(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

func (l *ledger) enter(place int, e entry) {
	if died, ok := l.dead[e.Process]; ok {
		l.problem("%s, dead since line %d, wrote %s", e.Process, died, e.Kind)
	}
	switch e.Kind {
	case asked, answered:
		l.enterRequest(e)
	case began:
		l.enterOwner(place, e)
	case extending, extended, returning, accepted, refused, lost:
		l.enterDeed(place, e)
	case killing:
		l.killed[e.Victim] = place
	case died:
		l.dead[e.Victim] = place
	case crashing:
		l.crashes = append(l.crashes, span{from: e.At})
	case restarted:
		if last := len(l.crashes) - 1; last >= 0 {
			l.crashes[last].until = e.At
		}
	case deleted:
		l.deletions[e.Computation]++
	case pausing:
	default:
		l.problem("an entry of unknown kind %q", e.Kind)
	}
}

// task is the one of that ID that is there since the last deletion.
func (l *ledger) task(id stint.TaskID) *task {
	for len(l.tasks[id]) <= l.deletions[id] {
		l.tasks[id] = append(l.tasks[id], &task{id: id})
	}
	return l.tasks[id][l.deletions[id]]
}

func (l *ledger) enterRequest(e entry) {
	r := l.requests[e.Request]
	if r == nil {
		r = &request{}
		l.requests[e.Request] = r
	}
	if e.Kind == asked {
		r.asked = append(r.asked, e)
		r.task = l.task(e.Computation)
		return
	}
	r.answered = append(r.answered, e)
	if r.task == nil {
		l.problem("request %d: answered before it was asked", e.Request)
		return
	}
	r.task.answers = append(r.task.answers, e)
}

func (l *ledger) enterOwner(place int, e entry) {
	if l.owners[e.Performance] != nil {
		l.problem("%s began twice", e.Performance)
	}
	if other, taken := l.tokens[e.Token]; taken {
		l.problem("%s and %s had the same token", other, e.Performance)
	}
	if len(l.tasks[e.Computation]) <= l.deletions[e.Computation] {
		l.problem("%s owned %s before anybody asked for it", e.Performance, e.Computation)
	}
	o := &owner{entry: e, place: place, task: l.task(e.Computation), extending: -1}
	o.task.owners = append(o.task.owners, o)
	l.owners[e.Performance] = o
	l.tokens[e.Token] = e.Performance
}

// enterDeed enters what an owner did.
func (l *ledger) enterDeed(place int, e entry) {
	o := l.owners[e.Performance]
	if o == nil || o.Process != e.Process {
		l.problem("%s wrote %s of %q, which it did not begin", e.Process, e.Kind, e.Performance)
		return
	}
	switch e.Kind {
	case extending:
		o.extending = place
	case extended:
		o.confirmed = append(o.confirmed, o.extending)
	case returning:
		o.returning = true
	default:
		if o.verdict != "" {
			l.problem("%s is %s after it was %s", o.Performance, e.Kind, o.verdict)
		}
		o.verdict = e.Kind
	}
}

func (l *ledger) eachTask() iter.Seq[*task] {
	return func(yield func(*task) bool) {
		for _, tasks := range l.tasks {
			for _, t := range tasks {
				if !yield(t) {
					return
				}
			}
		}
	}
}
