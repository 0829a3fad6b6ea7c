package worker

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
)

// probeEvery is how often a busy worker asks for the actions of which there was nothing last time.
const probeEvery = 100 * time.Millisecond

// A lane is actions that share slots: an action with a concurrency of its own, or all the others.
type lane struct {
	actions []string
	// free is how many slots are neither used by a performance nor kept for an open question.
	free int
	// asked says that an open question is about the lane.
	asked bool
	// more says that there may be more: the last answer was as much as was asked for.
	more bool
}

// A question asks for at most max tasks of its lanes. Each lane keeps as many slots for the answer.
type question struct {
	lanes []*lane
	max   int
	// wait says that the question stays open until there is something, and that the worker keeps no
	// slots for the answer meanwhile.
	wait   bool
	cancel context.CancelFunc
}

type answer struct {
	*question
	owned []stint.OwnedTask
	// at is when the leases began at the latest, or nearly so.
	at  time.Time
	err error
}

// An asker owns tasks and has them performed. What it knows belongs to one goroutine.
//
// While there may be more of a lane, it is asked for by itself, as much as there are slots, without
// waiting. All lanes of which there was no more are asked for together, in a question that waits. A
// lane that gets a slot while such a question is open is in another one: to call a question back is
// to risk that its tasks are owned by nobody, so that is done only at the end.
//
// Questions may be open for ever, so they must keep no slots from busy lanes. When one of several
// is answered and there is no slot any more, the task, of which it asked for one only, is released;
// its lane then gets its turn as others do.
type asker struct {
	*Worker
	begin    func(owned stint.OwnedTask, until time.Time)
	release  func(ctx context.Context, owned []stint.OwnedTask)
	freed    <-chan string
	lanes    []*lane // in the order in which they are asked
	byAction map[string]*lane
	free     int // slots of the worker, as those of a lane
	answers  chan answer
	open     []*question
	probed   time.Time
	failures int
}

// newAsker returns an asker for r, which has tasks performed by begin.
func newAsker(r *run, begin func(owned stint.OwnedTask, until time.Time)) *asker {
	w := r.Worker
	a := &asker{
		Worker: w, begin: begin, release: r.release, freed: r.freed, free: w.options.Concurrency,
		byAction: map[string]*lane{}, answers: make(chan answer),
	}
	shared := &lane{free: a.free}
	for _, action := range w.names() {
		l := shared
		if own := w.actions[action].concurrency; own > 0 && own < a.free {
			l = &lane{free: own}
		}
		if len(l.actions) == 0 {
			a.lanes = append(a.lanes, l)
		}
		l.actions = append(l.actions, action)
		a.byAction[action] = l
	}
	return a
}

// run asks until ctx ends or asking has become hopeless.
func (a *asker) run(ctx context.Context) error {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	var pause <-chan time.Time
	var failure error
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
			case hopeless(err):
				failure = err
				stop()
			case pause == nil:
				a.failures++
				a.options.Logger.LogAttrs(ctx, slog.LevelWarn, "could not own tasks",
					slog.Any("error", err))
				pause = time.After(reconnect().pause(a.failures))
			}
		case action := <-a.freed:
			a.byAction[action].free++
			a.free++
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

// askAll asks all questions that there is reason and room for.
func (a *asker) askAll(ctx context.Context) {
	for q := a.next(); q != nil; q = a.next() {
		a.ask(ctx, q)
	}
}

// next is the next question to ask, or nil if there is none now.
func (a *asker) next() *question {
	var promising, quiet []*lane
	for _, l := range a.lanes {
		switch {
		case l.asked || l.free == 0:
		case l.more:
			promising = append(promising, l)
		default:
			quiet = append(quiet, l)
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
	// The next one's turn is next.
	l := promising[0]
	place := slices.Index(a.lanes, l)
	a.lanes = append(slices.Delete(a.lanes, place, place+1), l)
	return a.newQuestion([]*lane{l}, false)
}

func (a *asker) newQuestion(lanes []*lane, wait bool) *question {
	q := &question{lanes: lanes, max: a.free, wait: wait}
	if wait && len(a.lanes) > 1 {
		q.max = 1
	}
	for _, l := range lanes {
		q.max = min(q.max, l.free)
	}
	for _, l := range lanes {
		l.asked = true
		l.free -= q.max
	}
	if !wait {
		a.free -= q.max
	}
	a.open = append(a.open, q)
	return q
}

func (a *asker) ask(ctx context.Context, q *question) {
	var actions []string
	for _, l := range q.lanes {
		actions = append(actions, l.actions...)
	}
	lease := a.options.Lease
	// Waiting has no end. Anything else than waiting is not worth it longer than a lease, since by
	// then what was given out has expired.
	ctx = context.WithoutCancel(ctx)
	if q.wait {
		ctx, q.cancel = context.WithCancel(ctx)
	} else {
		ctx, q.cancel = context.WithTimeout(ctx, lease)
	}
	go func() {
		defer q.cancel()
		ans := answer{question: q, at: now()}
		if q.wait {
			ans.owned, ans.err = a.store.AwaitTasks(ctx, a.options.Actor, q.max, actions, lease)
			// The lease began a little earlier, after a wait that may have been long. If it was
			// more than a little, the first heartbeat tells.
			ans.at = now()
		} else {
			ans.owned, ans.err = a.store.OwnTasks(ctx, a.options.Actor, q.max, actions, lease)
		}
		a.answers <- ans
	}()
}

// take closes a question, and begins with the tasks that are the answer.
func (a *asker) take(ctx context.Context, ans answer) error {
	a.open = slices.DeleteFunc(a.open, func(q *question) bool { return q == ans.question })
	if !ans.wait {
		a.free += ans.max
	}
	full := len(ans.owned) == ans.max
	for _, l := range ans.lanes {
		l.asked = false
		l.free += ans.max
		// Of several lanes, those are promising that are in a full answer.
		l.more = ans.err != nil && l.more || full && len(ans.lanes) == 1
	}
	var unbegun []stint.OwnedTask
	for _, task := range ans.owned {
		l := a.byAction[task.Action]
		l.more = l.more || full
		if a.free == 0 || ctx.Err() != nil {
			unbegun = append(unbegun, task)
			continue
		}
		l.free--
		a.free--
		a.begin(task, ans.at.Add(a.options.Lease))
	}
	if len(unbegun) > 0 {
		a.release(ctx, unbegun)
	}
	return ans.err
}
