package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
)

// evidence is what is known of a run from outside the store.
type evidence struct {
	requests int // How many there were to be.
	entries  []entry
	torn     int
	results  []result
}

// A ledger is the evidence by what it is about, and what is wrong with it.
type ledger struct {
	evidence
	problems []string

	asked, answered map[int][]int // The places of the entries, by request.
	owners          map[string]*owner
	tokens          map[stint.Token]string
	tasks           map[stint.TaskID][]*task // In the order of their insertion.
	deletions       map[stint.TaskID][]int
	killed, dead    map[string]int
	crashes         []span
}

// An owner is a performance.
type owner struct {
	entry          // With which it began.
	place      int // Of that entry.
	returning  bool
	verdict    kind
	extendingA int   // The place of the newest entry extending.
	confirmed  []int // The places after which it owned the task.
}

// A task is one of those that had the same ID, one after the other.
type task struct {
	id         stint.TaskID
	insertedAt time.Time
	answers    []entry
	owners     []*owner // In the order of their tries.
	results    []result
}

// A span is when the server was away.
type span struct{ from, until time.Time }

func newLedger(e evidence) *ledger {
	l := &ledger{
		evidence: e,
		asked:    map[int][]int{}, answered: map[int][]int{},
		owners: map[string]*owner{}, tokens: map[stint.Token]string{},
		tasks:     map[stint.TaskID][]*task{},
		deletions: map[stint.TaskID][]int{},
		killed:    map[string]int{}, dead: map[string]int{},
	}
	for place, e := range e.entries {
		l.enter(place, e)
	}
	for _, tasks := range l.tasks {
		slices.SortFunc(tasks, func(a, b *task) int { return a.insertedAt.Compare(b.insertedAt) })
	}
	for _, o := range l.owners {
		if t := l.taskOf(o); t != nil {
			t.owners = append(t.owners, o)
		}
	}
	for _, row := range l.results {
		o := l.owners[row.Performance]
		if o == nil || o.Computation != row.Computation {
			l.problem("a result of %s by %q, which had no such task", row.Computation,
				row.Performance)
		} else if t := l.taskOf(o); t != nil {
			t.results = append(t.results, row)
		}
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
	case asked:
		l.asked[e.Request] = append(l.asked[e.Request], place)
	case answered:
		l.answered[e.Request] = append(l.answered[e.Request], place)
		l.enterAnswer(e)
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
		l.deletions[e.Computation] = append(l.deletions[e.Computation], place)
	case pausing:
	default:
		l.problem("an entry of unknown kind %q", e.Kind)
	}
}

func (l *ledger) enterAnswer(e entry) {
	tasks := l.tasks[e.Computation]
	i := slices.IndexFunc(tasks, func(t *task) bool { return t.insertedAt.Equal(e.InsertedAt) })
	if i < 0 {
		i = len(tasks)
		tasks = append(tasks, &task{id: e.Computation, insertedAt: e.InsertedAt})
		l.tasks[e.Computation] = tasks
	}
	tasks[i].answers = append(tasks[i].answers, e)
}

func (l *ledger) enterOwner(place int, e entry) {
	if l.owners[e.Performance] != nil {
		l.problem("%s began twice", e.Performance)
	}
	if other, taken := l.tokens[e.Token]; taken {
		l.problem("%s and %s had the same token", other, e.Performance)
	}
	l.tokens[e.Token] = e.Performance
	l.owners[e.Performance] = &owner{entry: e, place: place, extendingA: -1}
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
		o.extendingA = place
	case extended:
		o.confirmed = append(o.confirmed, o.extendingA)
	case returning:
		o.returning = true
	default:
		if o.verdict != "" {
			l.problem("%s is %s after it was %s", o.Performance, e.Kind, o.verdict)
		}
		o.verdict = e.Kind
	}
}

// taskOf is the newest task that was there when the owner was given it, on the database's clock.
func (l *ledger) taskOf(o *owner) *task {
	for _, t := range slices.Backward(l.tasks[o.Computation]) {
		if !t.insertedAt.After(o.From) {
			return t
		}
	}
	return nil
}

func (l *ledger) eachTask() func(yield func(*task) bool) {
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
