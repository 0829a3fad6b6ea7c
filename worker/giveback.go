package worker

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
)

const (
	// One call that returns tasks together is under way at a time, so that many travel in each; but
	// one that somebody's lock holds up for so long does not count.
	heldUpAfter = 50 * time.Millisecond

	// How many tasks one call returns; each KiB of their results counts as a task.
	returnedTogetherMax = 1000
	resultBytesOfTask   = 1 << 10
)

// returning is the performances whose tasks are to be returned: those that end while earlier ones
// are being returned are returned together. One that meets no other is returned at once.
type returning struct {
	mutex   sync.Mutex
	waiting []*performance
	// underWay is how many goroutines are returning tasks, landed how many calls they have made;
	// departed is when the last call began.
	underWay, landed int
	departed         time.Time
	// away says that the server does not answer: all wait, and one more goroutine probes it.
	away bool
	// landing is sent to behind each call, and when a goroutine is done.
	landing chan struct{}
}

// join has a performance wait, and reports whether its goroutine should return those that do.
func (g *returning) join(p *performance) (lead bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.waiting = append(g.waiting, p)
	if lead = !g.away && (g.underWay == 0 || now().Sub(g.departed) > heldUpAfter); lead {
		g.underWay++
		g.departed = now()
	}
	return lead
}

// next takes those who wait, as many as may go together. If there are none, the goroutine is done.
func (g *returning) next() []*performance {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	n, size := 0, 0
	for n < len(g.waiting) {
		size += 1 + len(g.waiting[n].ret.Result)/resultBytesOfTask
		if n > 0 && size > returnedTogetherMax {
			break
		}
		n++
	}
	next := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	g.departed = now()
	if n == 0 {
		g.waiting = nil // what went with earlier calls can be forgotten
		g.underWay--
		signal(g.landing)
	}
	return next
}

// landings returns how many calls have landed, and how many may be under way.
func (g *returning) landings() (landed, underWay int) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.landed, g.underWay
}

func (g *returning) land() {
	g.mutex.Lock()
	g.landed++
	g.mutex.Unlock()
	signal(g.landing)
}

// signal makes whoever receives from the channel look, now or next.
func signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// giveBack returns a task, perhaps together with others, or leaves that to the goroutine of another
// one.
func (r *run) giveBack(p *performance) {
	if !r.returning.join(p) {
		return
	}
	// Handlers that are about to return now do so first and come along: with ten slots that need no
	// time, this saves a quarter of the round trips.
	runtime.Gosched()
	for next := r.returning.next(); len(next) > 0; next = r.returning.next() {
		err := r.returnTogether(next)
		r.returning.land()
		if unanswered(err) && !r.outlast(next, err) {
			return
		}
	}
}

// returnTogether returns tasks, and lets go of those that are. An error that the server did not
// send concerns all of them, which then are as before.
func (r *run) returnTogether(performances []*performance) error {
	returns := make([]stint.Return, len(performances))
	for i, p := range performances {
		returns[i] = p.ret
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(performances[0].ctx), attemptMax)
	defer cancel()
	verdicts, err := r.store.ReturnPromptly(ctx, returns)
	if unanswered(err) {
		return err
	}
	over := make([]*performance, 0, len(performances))
	for i, p := range performances {
		verdict := err
		if err == nil {
			verdict = verdicts[i]
		}
		if r.isOver(p, verdict) {
			over = append(over, p)
		} else {
			go r.persist(p, verdict)
		}
	}
	r.letGo(over...)
	return err
}

// persist returns a task that could not be returned together with others: again and again until the
// store has accepted or refused it, or it is too late. If there is no server, the task waits as
// others do; but an attempt that takes too long may be held up by a lock.
func (r *run) persist(p *performance, err error) {
	for try := 1; ; try++ {
		if !errors.Is(err, stint.ErrHeldUp) && !errors.Is(err, stint.ErrInvalidArgument) &&
			!r.pause(p, reconnect().pause(try)) {
			r.giveUp(err, p)
			return
		}
		if unanswered(err) && !errors.Is(err, context.DeadlineExceeded) {
			r.giveBack(p)
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), attemptMax)
		err = returnOne(ctx, r.store, p.ret)
		cancel()
		if r.isOver(p, err) {
			break
		}
	}
	r.letGo(p)
}

// giveUp lets go of tasks that could not be returned because of err.
func (r *run) giveUp(err error, performances ...*performance) {
	for _, p := range performances {
		r.log(p, slog.LevelError, "could not return task", slog.Any("error", err))
		r.conclude(p, OutcomeLost)
	}
	r.letGo(performances...)
}

// pause waits, and reports whether there is reason to go on: the lease lasts, and so does the
// patience of the worker.
func (r *run) pause(p *performance, pause time.Duration) bool {
	left := r.leaseLeft(p)
	timer := time.NewTimer(min(pause, left))
	defer timer.Stop()
	select {
	case <-timer.C:
		return pause < left || r.leaseLeft(p) > 0 // it may have been extended
	case <-r.stopped:
		return false
	}
}

// isOver concludes a performance if the verdict on its return is the last.
func (r *run) isOver(p *performance, verdict error) bool {
	inTx := p.task.returned.Load()
	switch {
	case verdict == nil, errors.Is(verdict, stint.ErrAlreadyReturned):
		r.conclude(p, p.outcome)
	case errors.Is(verdict, stint.ErrInvalidToken) && inTx:
		// The commit that the handler took for failed has gone through.
		r.conclude(p, OutcomeCompleted)
	case errors.Is(verdict, stint.ErrInvalidToken):
		r.log(p, slog.LevelDebug, "task lost", slog.Any("cause", verdict))
		r.conclude(p, OutcomeLost)
	case errors.Is(verdict, stint.ErrInvalidArgument) && p.ret.Result != nil:
		// The result is too large, what else.
		p.ending = ending{err: Abort(verdict), text: verdict.Error()}
		p.ret, p.outcome = p.task.failure(p.ending, nil, Retry{})
		return false
	case hopeless(verdict):
		r.log(p, slog.LevelError, "could not return task", slog.Any("error", verdict))
		r.conclude(p, OutcomeLost)
	default:
		return false
	}
	return true
}
