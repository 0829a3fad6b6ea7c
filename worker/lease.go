package worker

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/outage"
)

// The parts of a lease: a heartbeat begins after a third, and three heartbeats may get no answer
// before the lease expires.
const (
	beatPart    = 3
	attemptPart = 6
	againPart   = 20
)

// keepLeases extends all leases with one call at a time until ctx ends.
func (e *execution) keepLeases(ctx context.Context) {
	outages := outage.New(e.logger, "could not extend the leases")
	failures := 0
	for pause := e.beatPause(failures); sleep(ctx, pause); pause = e.beatPause(failures) {
		tried, err := e.extendLeases(ctx)
		switch {
		case !tried: // says nothing about the database
			failures = 0
		case err == nil:
			failures = 0
			outages.Worked(ctx)
		case ctx.Err() == nil && !errors.Is(err, stint.ErrClosed):
			failures++
			outages.Failed(ctx, err)
		}
	}
}

// beatPause returns the pause before a heartbeat, after so many that failed in a row. It is short
// as long as there is a lease to save. Tasks that are owned meanwhile need it no later than usual.
func (e *execution) beatPause(failures int) time.Duration {
	if failures > 0 && failures <= againPart {
		return jittered(e.options.Lease / againPart)
	}
	return jittered(e.options.Lease / beatPart)
}

// jittered returns a time somewhat shorter than d, so that workers that began together do not stay
// in step.
func jittered(d time.Duration) time.Duration {
	const spread = 5
	return d - rand.N(d/spread) //nolint:gosec // spreads load, hides nothing
}

// extendLeases extends the leases of the tasks under way, and of those that are being given back,
// and reports whether there are any.
func (e *execution) extendLeases(ctx context.Context) (tried bool, err error) {
	held := e.performances()
	held = slices.DeleteFunc(held, func(p *performance) bool { return p.lost.Load() })
	owned := make([]stint.OwnedTask, len(held))
	for i, p := range held {
		owned[i] = p.task.OwnedTask
		owned[i].Body = nil
	}
	owned = e.unbegun.behind(owned)
	if len(owned) == 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.options.Lease/attemptPart)
	defer cancel()
	sent := now()
	kept, err := e.queue.ExtendTasksOwnership(ctx, e.options.Actor, owned, e.options.Lease)
	if err != nil {
		return true, err
	}
	for i, p := range held {
		if !kept[i] {
			e.lose(p.task.OwnedTask, stint.ErrInvalidToken)
		}
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for i, p := range held {
		if kept[i] && !p.expired {
			p.until = sent.Add(e.options.Lease)
		}
	}
	return true, nil
}

// hold notes performances whose leases last until the time given.
func (e *execution) hold(begun []*performance, until time.Time) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for _, p := range begun {
		e.held[p.task.Token] = p
	}
	if until.Before(e.expiry) {
		wakeUp(e.sooner)
	}
}

// letGo forgets performances that are over.
func (e *execution) letGo(over ...*performance) {
	if len(over) == 0 {
		return
	}
	e.mutex.Lock()
	for _, p := range over {
		delete(e.held, p.task.Token)
	}
	e.mutex.Unlock()
	e.ended.over(len(over))
	e.performing.Add(-len(over))
}

// performances returns the performances under way.
func (e *execution) performances() []*performance {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return slices.Collect(maps.Values(e.held))
}

// expireLeases tells handlers that their leases have expired, until ctx ends.
func (e *execution) expireLeases(ctx context.Context) {
	timer := time.NewTimer(e.expire())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-e.sooner:
		}
		timer.Reset(e.expire())
	}
}

// expire tells the handlers whose leases have expired, and returns how long no other lease expires.
func (e *execution) expire() time.Duration {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	at := now()
	e.expiry = at.Add(e.options.Lease)
	for _, p := range e.held {
		switch {
		case p.expired:
		case !p.until.After(at):
			p.expired = true
			p.lose(ErrLeaseExpired)
		case p.until.Before(e.expiry):
			e.expiry = p.until
		}
	}
	return e.expiry.Sub(at)
}

// leaseLeft returns how long the lease on a task lasts. A lease that has expired stays expired,
// since the handler was told.
func (e *execution) leaseLeft(p *performance) time.Duration {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if p.expired {
		return 0
	}
	return p.until.Sub(now())
}

// owned returns the tasks that handlers are performing, except those that are known to be lost.
func (e *execution) owned() []stint.OwnedTask {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	owned := make([]stint.OwnedTask, 0, len(e.held))
	for _, p := range e.held {
		if !p.lost.Load() && !p.settled.Load() && !p.task.returned.Load() {
			owned = append(owned, stint.OwnedTask{ID: p.task.ID, Token: p.task.Token})
		}
	}
	return owned
}

// lose tells the handler of a task that it is lost.
func (e *execution) lose(task stint.OwnedTask, cause error) {
	e.mutex.Lock()
	p := e.held[task.Token]
	e.mutex.Unlock()
	if p == nil {
		return
	}
	if errors.Is(cause, stint.ErrInvalidToken) {
		cause = &stint.TaskError{IDs: []stint.TaskID{p.task.ID}, Err: cause}
	}
	p.lose(cause)
}
