package worker

import (
	"context"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
)

// gatherMax is how long a return waits for the next question, and an owned task for a slot. A
// question that has to wait for somebody must not hold up returns, nor a handler that takes longer
// than those before it tasks that others could perform.
const gatherMax = 50 * time.Millisecond

// An asker owns tasks and has them performed. Only one goroutine uses its fields.
//
// While there may be more tasks of a slot group, the asker asks for that group alone, for as many
// tasks as it has slots, without waiting. The tasks whose handlers have ended are returned by the
// same call, so that a cycle costs one commit, and the slots of a cycle are filled together. Where
// no such question is to be asked, they are returned alone.
//
// A slot that has to wait for a call stands still. So where handlers take about as long as a call,
// the asker asks for some tasks more than there are slots: for as many as will have one by the time
// of the next answer. They are given back if they have to wait for long, or the worker stops.
//
// The asker asks for all groups that had no more tasks together, in a question that waits. If
// another group gets a slot while such a question is open, another question asks for it: to cancel
// a question is to risk that nobody knows of the tasks that it owns, so that is done only at the
// end.
//
// Questions that wait may be open for ever, so they must keep no slots from busy groups. If there
// are several groups, such a question asks for one task only; if no slot is free when the answer
// comes, the task is released, and its group gets its turn as others do.
type asker struct {
	*Worker
	begin   func(owned []stint.OwnedTask, until time.Time)
	release func(owned []stint.OwnedTask)
	// releaseAlone gives back what comes when nobody waits for it.
	releaseAlone func(ctx context.Context, owned []stint.OwnedTask)
	performing   *sync.WaitGroup
	// giveBack returns performances alone; judge deals with what became of returns.
	giveBack func([]*performance)
	judge    func(performances []*performance, verdicts []error, err error)
	ended    *endedQueue
	due      []*performance // what the next question returns, since gathered
	since    time.Time      // when the first of these became due
	// tick is for what waits too long.
	tick *time.Timer
	// all is who has the slots of the whole worker.
	all crowd
	// asks is how long a question takes, about.
	asks time.Duration
	// unreturned is how many performances have ended and are not over.
	unreturned int
	groups     []*slotGroup // in the order in which they are asked
	byAction   map[string]*slotGroup
	free       int // of the whole worker, as the slots of the crowd are
	answers    chan answer
	left       chan struct{} // closed when nobody waits for answers any more
	open       []*question
	probed     time.Time
	failures   int
}

// A question asks for at most max tasks of its slot groups. Each group keeps as many slots for the
// answer.
type question struct {
	groups []*slotGroup
	max    int
	// wait says that the question stays open until there is a task, and that the worker keeps no
	// slots for the answer meanwhile.
	wait bool
	// kept is how many slots of the only group are kept; the other tasks are to wait for one.
	kept int
	// began is when the question was asked.
	began time.Time
	// returns are the performances that are returned along with a question that does not wait.
	returns []*performance
	cancel  context.CancelFunc
	// endWait ends the wait for tasks, and interrupts nothing.
	endWait func()
}

type answer struct {
	*question
	owned []stint.OwnedTask
	// at is a little later than the leases began.
	at  time.Time
	err error
}

// A slotGroup is a set of actions that share slots: one action with a concurrency of its own, or
// all the others.
type slotGroup struct {
	crowd
	actions []string
	// free is how many slots are neither used by a handler nor kept for an open question.
	free int
	// asked is how many open questions are about the group.
	asked int
	// more says that there may be more tasks: the last answer had as many as were asked for.
	more bool
	// ahead are owned tasks that wait for a slot; coming is how many more are asked for.
	ahead  []fetch
	coming int
	// takes is how long a handler takes, about; 0: not known.
	takes time.Duration
	// last says that the last answer had tasks on their last try.
	last bool
}

func (g *slotGroup) waiting() (n int) {
	for _, b := range g.ahead {
		n += len(b.owned)
	}
	return n
}

// A fetch is tasks that were owned together.
type fetch struct {
	owned []stint.OwnedTask
	until time.Time // when their leases expire
	since time.Time
}

// newAsker returns an asker for e. It calls begin to have tasks performed.
func newAsker(e *execution, begin func([]stint.OwnedTask, time.Time)) *asker {
	w := e.Worker
	a := &asker{
		Worker: w, begin: begin, release: e.release, judge: e.judge, ended: &e.ended,
		giveBack: e.giveBackAlone, tick: time.NewTimer(gatherMax),
		free: w.options.Concurrency, all: crowd{slots: w.options.Concurrency},
		byAction: map[string]*slotGroup{}, answers: make(chan answer),
		left: make(chan struct{}), performing: &e.performing, releaseAlone: e.releaseAlone,
	}
	shared := &slotGroup{free: a.free, crowd: crowd{slots: a.free}}
	for _, action := range w.names() {
		g := shared
		if own := w.actions[action].concurrency; own > 0 && own < a.free {
			g = &slotGroup{free: own, crowd: crowd{slots: own}}
		}
		if len(g.actions) == 0 {
			a.groups = append(a.groups, g)
		}
		g.actions = append(g.actions, action)
		a.byAction[action] = g
		if gatherer := w.actions[action].gatherer; gatherer != nil {
			g.gatherers = append(g.gatherers, gatherer)
			a.all.gatherers = append(a.all.gatherers, gatherer)
		}
	}
	return a
}
