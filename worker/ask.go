package worker

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/callctx"
	"github.com/stint-tasks/stint/internal/outage"
)

const (
	// probeEvery is how often a busy worker asks for the actions that had no more tasks last time.
	probeEvery = 100 * time.Millisecond

	// gatherBriefly is how long a return waits for others where no question is to come, but
	// handlers are running that take no longer than a few times that.
	gatherBriefly = time.Millisecond

	// endWaitMax is how long a question may take that has been told to wait no longer.
	endWaitMax   = 2 * time.Second
	brieflyTimes = 5
)

// loop asks until ctx ends or asking has become hopeless.
func (a *asker) loop(ctx context.Context) error {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	a.ended.taken = true
	var pause <-chan time.Time
	var failure error
	outages := outage.New(a.options.Logger, "could not own tasks")
	for asking.Err() == nil {
		if pause == nil {
			a.askAll(asking)
		}
		if len(a.due) > 0 && !a.gathers() {
			a.giveBackDue()
		}
		a.setTick(a.disperseAll())
		select {
		case ans := <-a.answers:
			err := a.take(asking, ans)
			switch {
			case err == nil:
				a.failures = 0
				outages.Worked(ctx)
			case hopeless(err) && (len(ans.returns) == 0 ||
				!errors.Is(err, stint.ErrInvalidArgument)): // perhaps of what came along
				failure = err
				stop()
			case pause == nil:
				a.failures++
				outages.Failed(ctx, err)
				pause = time.After(reconnect().pause(a.failures))
			}
		case <-a.ended.changed:
			runtime.Gosched() // those that end at this moment join
			a.look()
		case <-a.tick.C:
			a.tooLong()
		case <-a.joined:
		case <-pause:
			pause = nil
		case <-asking.Done():
		}
	}
	a.close()
	if len(a.open) > 0 {
		a.performing.Go(func() { a.drain(asking) })
	}
	return failure
}

// look takes note of the performances that have ended.
func (a *asker) look() {
	freed, due, unreturned := a.ended.look()
	for _, slot := range freed {
		g := a.byAction[slot.action]
		g.free++
		g.add(-1)
		g.takes = smoothed(g.takes, slot.took)
	}
	if len(freed) > 0 {
		a.free += len(freed)
		a.all.add(-len(freed))
	}
	if len(a.due) == 0 {
		a.since = now()
	}
	a.due, a.unreturned = append(a.due, due...), unreturned
	a.beginAhead()
}

// setTick sets the tick to when something has waited too long, and to the rest of what gathers
// unless that is negative.
func (a *asker) setTick(rest time.Duration) {
	sooner := func(left time.Duration) {
		if rest < 0 || left < rest {
			rest = max(left, 0)
		}
	}
	if len(a.due) > 0 {
		sooner(a.gatherMost() - now().Sub(a.since))
	}
	for _, g := range a.groups {
		if len(g.ahead) > 0 {
			sooner(gatherMax - now().Sub(g.ahead[0].since))
		}
	}
	if rest >= 0 {
		a.tick.Reset(rest)
	}
}

// disperseAll begins calls of batches where no slot is left, as disperse does.
func (a *asker) disperseAll() time.Duration {
	if len(a.all.gatherers) == 0 {
		return -1
	}
	for _, g := range a.groups {
		for _, gatherer := range g.gatherers { // ahead of the looks, so that none is missed
			gatherer.crowded.Store(a.all.isFull() || g.isFull())
		}
	}
	rest := a.all.disperse()
	for _, g := range a.groups {
		if left := g.disperse(); rest < 0 || left >= 0 && left < rest {
			rest = left
		}
	}
	return rest
}

// tooLong gives back what has waited too long for a slot. What is due is looked at anyway.
func (a *asker) tooLong() {
	late := now().Add(-gatherMax)
	for _, g := range a.groups {
		for len(g.ahead) > 0 && !g.ahead[0].since.After(late) {
			a.release(g.ahead[0].owned)
			g.ahead = g.ahead[1:]
			g.takes = max(g.takes, time.Duration(g.slots+1)*aheadSoon) // until some take less
		}
	}
}

// gathers reports whether returns are to wait.
func (a *asker) gathers() bool { return now().Sub(a.since) < a.gatherMost() }

// gatherMost is how long returns wait at most: for the next question, if one is under way, or comes
// when the tasks are begun that wait for a slot; otherwise for handlers that end in a moment.
func (a *asker) gatherMost() time.Duration {
	comes := func(g *slotGroup) bool { return g.more && len(g.ahead) > 0 }
	asks := func(q *question) bool { return !q.wait }
	areShort := func(g *slotGroup) bool {
		return g.takes > 0 && g.takes <= brieflyTimes*gatherBriefly
	}
	switch {
	case slices.ContainsFunc(a.groups, comes), slices.ContainsFunc(a.open, asks):
		return gatherMax
	case a.all.running > 0 && slices.ContainsFunc(a.groups, areShort):
		return gatherBriefly
	}
	return 0
}

// giveBackDue returns what is due, without a question.
func (a *asker) giveBackDue() {
	a.giveBack(a.due)
	a.due = nil
}

// close gives back what has no slot, and ends the questions that wait.
func (a *asker) close() {
	a.giveBack(append(a.due, a.ended.close()...))
	for _, g := range a.groups {
		for _, b := range g.ahead {
			a.release(b.owned)
		}
	}
	for _, q := range a.open {
		q.endWait()
	}
}

// How long questions may stay open when the worker stops: they are cancelled then, and a little
// later nobody waits for their answers any more, since the server does not answer.
const (
	drainMax  = 3 * time.Second
	drainLate = time.Second
)

// drain waits for the answers to open questions, and gives back what they bring.
func (a *asker) drain(ctx context.Context) {
	for _, q := range a.open {
		if q.wait { // a queue that is no store may not know of endWait
			defer time.AfterFunc(endWaitMax, q.cancel).Stop()
		}
	}
	cancel, leave := time.NewTimer(drainMax), time.NewTimer(drainMax+drainLate)
	defer cancel.Stop()
	defer leave.Stop()
	for len(a.open) > 0 {
		select {
		case ans := <-a.answers:
			_ = a.take(ctx, ans) // nobody asks any more
		case <-cancel.C:
			for _, q := range a.open {
				q.cancel()
			}
		case <-leave.C:
			close(a.left)
			for _, q := range a.open {
				if len(q.returns) > 0 {
					a.judge(q.returns, nil, errUnanswered)
				}
			}
			return
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
		case g.more:
			if a.isWorthAQuestion(g) {
				promising = append(promising, g)
			}
		case g.free == 0:
		case g.asked == 0:
			quiet = append(quiet, g)
		}
	}
	switch {
	case len(promising) == 0 && (a.free == 0 || len(quiet) == 0):
		return nil
	case a.unreturned-len(a.due) >= a.all.slots: // they are held up
		return nil
	case len(promising) == 0:
		return a.newQuestion(quiet, true)
	case len(quiet) > 0 && a.free > 0 && now().Sub(a.probed) > probeEvery:
		a.probed = now()
		return a.newQuestion(quiet, false)
	}
	// Next time it is another group's turn.
	g := promising[0]
	place := slices.Index(a.groups, g)
	a.groups = append(slices.Delete(a.groups, place, place+1), g)
	return a.newQuestion([]*slotGroup{g}, false)
}

// isWorthAQuestion reports whether to ask for more tasks of a group. While a question is under way,
// what ends gathers for the next, unless half of the slots stand still.
func (a *asker) isWorthAQuestion(g *slotGroup) bool {
	const half = 2
	free := min(a.free, g.free)
	switch g.asked {
	case 0:
		return free+g.extra(a.asks) > 0
	case 1:
		return free > 0 && half*free >= min(a.all.slots, g.slots)
	default:
		return false
	}
}

func (a *asker) newQuestion(groups []*slotGroup, wait bool) *question {
	q := &question{groups: groups, max: a.free, wait: wait, began: now()}
	if wait && len(a.groups) > 1 {
		q.max = 1
	}
	for _, g := range groups {
		q.max = min(q.max, g.free)
	}
	for _, g := range groups {
		g.asked++
		g.free -= q.max
	}
	q.kept = q.max
	if !wait {
		a.free -= q.max
		q.returns, a.due = firstFew(a.due)
		if len(groups) == 1 && groups[0].asked == 1 {
			extra := groups[0].extra(a.asks)
			groups[0].coming += extra
			q.max += extra
		}
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
	// leases of what it fetches while large bodies are on their way.
	ctx, q.cancel = context.WithCancel(context.WithoutCancel(ctx))
	ctx, q.endWait = callctx.Ending(ctx)
	go func() {
		defer q.cancel()
		ans := answer{question: q}
		var verdicts []error
		switch {
		case q.wait:
			ans.owned, ans.err = a.queue.WaitToOwnTasks(
				ctx, a.options.Actor, q.max, actions, lease)
		case len(q.returns) > 0:
			verdicts, ans.owned, ans.err = a.queue.ReturnAndOwnTasks(
				ctx, returnsOf(q.returns), stint.Want{
					Actor: a.options.Actor, MaxTasks: q.max, Actions: actions, Lease: lease,
				})
		default:
			ans.owned, ans.err = a.queue.OwnTasks(ctx, a.options.Actor, q.max, actions, lease)
		}
		// The leases began a little earlier, after a wait for tasks or for a connection that may
		// have been long. If it was more than a little, the first heartbeat tells.
		ans.at = now()
		select {
		case a.answers <- ans:
		case <-a.left: // which deals with the returns
			a.releaseAlone(ctx, ans.owned)
			return
		}
		if len(q.returns) > 0 {
			a.judge(q.returns, verdicts, ans.err)
		}
	}()
}

// take closes a question, and begins the tasks of its answer.
func (a *asker) take(ctx context.Context, ans answer) error {
	a.open = slices.DeleteFunc(a.open, func(q *question) bool { return q == ans.question })
	if !ans.wait {
		a.free += ans.kept
		a.asks = smoothed(a.asks, ans.at.Sub(ans.began))
	}
	full := len(ans.owned) == ans.max
	for _, g := range ans.groups {
		g.asked--
		g.free += ans.kept
		g.coming -= ans.max - ans.kept
		// If the question was about several groups, only those with tasks in a full answer may have
		// more.
		g.more = ans.err != nil && g.more || full && len(ans.groups) == 1
		g.last = len(ans.owned) == 0 && g.last
	}
	if ctx.Err() != nil {
		a.release(ans.owned)
		return ans.err
	}
	for action, owned := range dividedByAction(ans.owned) {
		g := a.byAction[action]
		g.more = g.more || full
		g.last = g.last || slices.ContainsFunc(owned, onLastTry)
		g.ahead = append(g.ahead, fetch{owned, ans.at.Add(a.options.Lease), ans.at})
	}
	a.beginAhead()
	for _, g := range ans.groups {
		a.releaseLast(g)
	}
	if ans.wait { // nobody asked for tasks that have to wait
		for _, g := range ans.groups {
			for _, b := range g.ahead {
				a.release(b.owned)
			}
			g.ahead = nil
		}
	}
	return ans.err
}

// dividedByAction divides tasks by their actions. Mostly all have the same.
func dividedByAction(owned []stint.OwnedTask) map[string][]stint.OwnedTask {
	divided := map[string][]stint.OwnedTask{}
	other := func(task stint.OwnedTask) bool { return task.Action != owned[0].Action }
	if len(owned) > 0 && !slices.ContainsFunc(owned, other) {
		divided[owned[0].Action] = owned
		return divided
	}
	for _, task := range owned {
		divided[task.Action] = append(divided[task.Action], task)
	}
	return divided
}
