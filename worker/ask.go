package worker

import (
	"context"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/outage"
)

const (
	// probeEvery is how often a busy worker asks for the actions that had no more tasks last time.
	probeEvery = 100 * time.Millisecond

	// askedAtOnce is how many questions about a busy slot group are open at once: while the worker
	// performs the tasks of one answer, the next answer is under way.
	askedAtOnce = 2
)

// A slotGroup is a set of actions that share slots: one action with a concurrency of its own, or
// all the others.
type slotGroup struct {
	actions []string
	slots   int
	// free is how many slots are neither used by a performance nor kept for an open question.
	free int
	// asked is how many open questions are about the group.
	asked int
	// awaited is how many calls that return tasks must have ended before the worker asks for few
	// tasks.
	awaited int
	// more says that there may be more tasks: the last answer had as many as were asked for.
	more bool
}

// A question asks for at most max tasks of its slot groups. Each group keeps as many slots for the
// answer.
type question struct {
	groups []*slotGroup
	max    int
	// wait says that the question stays open until there is a task, and that the worker keeps no
	// slots for the answer meanwhile.
	wait   bool
	cancel context.CancelFunc
}

type answer struct {
	*question
	owned []stint.OwnedTask
	// at is a little later than the leases began.
	at  time.Time
	err error
}

// An asker owns tasks and has them performed. Only one goroutine uses its fields.
//
// While there may be more tasks of a slot group, the asker asks for that group alone, for as many
// tasks as it has slots, without waiting. A question for one task costs the database nearly as much
// as one for ten. So if few slots are free, the asker first lets the calls that are returning tasks
// end, which takes milliseconds, and then asks for as many tasks as have a slot.
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
	release func(ctx context.Context, owned []stint.OwnedTask)
	freed   <-chan []string
	// returned is sent to when a call that returns tasks has ended; returnCalls counts them.
	returned    <-chan struct{}
	returnCalls func() (ended, running int)
	groups      []*slotGroup // in the order in which they are asked
	byAction    map[string]*slotGroup
	slots       int // slots and free are those of the whole worker
	free        int
	answers     chan answer
	open        []*question
	probed      time.Time
	failures    int
}

// newAsker returns an asker for e. It calls begin to have tasks performed.
func newAsker(e *execution, begin func([]stint.OwnedTask, time.Time)) *asker {
	w := e.Worker
	a := &asker{
		Worker: w, begin: begin, release: e.release, freed: e.freed,
		returned: e.returnCalls.changed, returnCalls: e.returnCalls.counts,
		slots: w.options.Concurrency, free: w.options.Concurrency,
		byAction: map[string]*slotGroup{}, answers: make(chan answer),
	}
	shared := &slotGroup{free: a.free, slots: a.free}
	for _, action := range w.names() {
		g := shared
		if own := w.actions[action].concurrency; own > 0 && own < a.free {
			g = &slotGroup{free: own, slots: own}
		}
		if len(g.actions) == 0 {
			a.groups = append(a.groups, g)
		}
		g.actions = append(g.actions, action)
		a.byAction[action] = g
	}
	return a
}

// loop asks until ctx ends or asking has become hopeless.
func (a *asker) loop(ctx context.Context) error {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	var pause <-chan time.Time
	var failure error
	outages := outage.New(a.options.Logger, "could not own tasks")
	for asking.Err() == nil {
		if pause == nil {
			a.askAll(asking)
		}
		select {
		case ans := <-a.answers:
			err := a.take(asking, ans)
			switch {
			case err == nil:
				a.failures = 0
				outages.Worked(ctx)
			case hopeless(err):
				failure = err
				stop()
			case pause == nil:
				a.failures++
				outages.Failed(ctx, err)
				pause = time.After(reconnect().pause(a.failures))
			}
		case actions := <-a.freed:
			for _, action := range actions {
				a.byAction[action].free++
			}
			a.free += len(actions)
		case <-a.returned:
		case <-pause:
			pause = nil
		case <-asking.Done():
		}
	}
	a.close(asking)
	return failure
}

// close closes all open questions: those that wait at once, the others soon.
func (a *asker) close(ctx context.Context) {
	for _, q := range a.open {
		if q.wait {
			q.cancel()
		}
	}
	late := time.NewTimer(attemptMax)
	defer late.Stop()
	for len(a.open) > 0 {
		select {
		case ans := <-a.answers:
			_ = a.take(ctx, ans) // nobody asks any more
		case <-late.C:
			for _, q := range a.open {
				q.cancel()
			}
		}
	}
}

// askAll asks questions as long as next has one.
func (a *asker) askAll(ctx context.Context) {
	for q := a.next(); q != nil; q = a.next() {
		a.ask(ctx, q)
	}
}

// next returns the next question to ask, or nil if there is none now.
func (a *asker) next() *question {
	var promising, quiet []*slotGroup
	for _, g := range a.groups {
		switch {
		case g.free == 0:
		case g.more:
			if g.asked < askedAtOnce && a.enough(g) {
				promising = append(promising, g)
			}
		case g.asked == 0:
			quiet = append(quiet, g)
		}
	}
	switch {
	case a.free == 0 || len(promising) == 0 && len(quiet) == 0:
		return nil
	case len(promising) == 0:
		return a.newQuestion(quiet, true)
	case len(quiet) > 0 && now().Sub(a.probed) > probeEvery:
		a.probed = now()
		return a.newQuestion(quiet, false)
	}
	// Next time it is another group's turn.
	g := promising[0]
	place := slices.Index(a.groups, g)
	a.groups = append(slices.Delete(a.groups, place, place+1), g)
	return a.newQuestion([]*slotGroup{g}, false)
}

// enough reports whether the free slots of a group are worth a question: they are half of all, or
// no call is under way that would free more.
func (a *asker) enough(g *slotGroup) bool {
	const half = 2
	if half*min(a.free, g.free) >= min(a.slots, g.slots) {
		return true
	}
	ended, running := a.returnCalls()
	if g.awaited == 0 {
		g.awaited = ended + running
	}
	return running == 0 || ended >= g.awaited
}

func (a *asker) newQuestion(groups []*slotGroup, wait bool) *question {
	q := &question{groups: groups, max: a.free, wait: wait}
	if wait && len(a.groups) > 1 {
		q.max = 1
	}
	for _, g := range groups {
		q.max = min(q.max, g.free)
	}
	for _, g := range groups {
		g.asked++
		g.awaited = 0
		g.free -= q.max
	}
	if !wait {
		a.free -= q.max
	}
	a.open = append(a.open, q)
	return q
}

func (a *asker) ask(ctx context.Context, q *question) {
	var actions []string
	for _, g := range q.groups {
		actions = append(actions, g.actions...)
	}
	lease := a.options.Lease
	// No question has a time limit: the queue gives up a database that is silent, and keeps the
	// leases of what it hands out while large bodies are on their way.
	ctx, q.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer q.cancel()
		own := a.queue.OwnTasks
		if q.wait {
			own = a.queue.WaitToOwnTasks
		}
		ans := answer{question: q}
		ans.owned, ans.err = own(ctx, a.options.Actor, q.max, actions, lease)
		// The leases began a little earlier, after a wait for tasks or for a connection that may
		// have been long. If it was more than a little, the first heartbeat tells.
		ans.at = now()
		a.answers <- ans
	}()
}

// take closes a question, and begins the tasks of its answer.
func (a *asker) take(ctx context.Context, ans answer) error {
	a.open = slices.DeleteFunc(a.open, func(q *question) bool { return q == ans.question })
	if !ans.wait {
		a.free += ans.max
	}
	full := len(ans.owned) == ans.max
	for _, g := range ans.groups {
		g.asked--
		g.free += ans.max
		// If the question was about several groups, only those with tasks in a full answer may have
		// more.
		g.more = ans.err != nil && g.more || full && len(ans.groups) == 1
	}
	begun := min(a.free, len(ans.owned))
	if ctx.Err() != nil {
		begun = 0
	}
	for i := range ans.owned {
		g := a.byAction[ans.owned[i].Action]
		g.more = g.more || full
		if i < begun {
			g.free--
		}
	}
	a.free -= begun
	if begun > 0 {
		a.begin(ans.owned[:begun], ans.at.Add(a.options.Lease))
	}
	if begun < len(ans.owned) {
		a.release(ctx, ans.owned[begun:])
	}
	return ans.err
}
