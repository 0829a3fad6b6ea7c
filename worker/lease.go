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

// The parts of a lease: a heartbeat begins after a third, and there is time for three of them that
// get no answer before it expires.
const (
	beatPart    = 3
	attemptPart = 6
	againPart   = 20
)

// keepLeases extends all leases with one call at a time until ctx ends.
func (r *run) keepLeases(ctx context.Context) {
	outages := outage.New(r.logger, "could not extend the leases")
	failures := 0
	for pause := r.beatPause(failures); sleep(ctx, pause); pause = r.beatPause(failures) {
		tried, err := r.extendLeases(ctx)
		switch {
		case !tried: // which says nothing of the database
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

// beatPause is the pause ahead of a heartbeat, behind so many that failed in a row: short as long
// as there is a lease to save. Tasks that are owned meanwhile need it no later than usual.
func (r *run) beatPause(failures int) time.Duration {
	if failures > 0 && failures <= againPart {
		return jittered(r.options.Lease / againPart)
	}
	return jittered(r.options.Lease / beatPart)
}

// jittered is a time somewhat shorter than d, so that workers that began together do not go on so.
func jittered(d time.Duration) time.Duration {
	const spread = 5
	return d - rand.N(d/spread) //nolint:gosec // spreads load, hides nothing
}

// extendLeases extends the leases of the tasks under way, and reports whether there are any.
func (r *run) extendLeases(ctx context.Context) (tried bool, err error) {
	held := r.performances()
	held = slices.DeleteFunc(held, func(p *performance) bool { return p.lost.Load() })
	owned := make([]stint.OwnedTask, len(held))
	for i, p := range held {
		owned[i] = p.task.OwnedTask
		owned[i].Body = nil
	}
	if len(owned) == 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.options.Lease/attemptPart)
	defer cancel()
	sent := now()
	kept, err := r.store.ExtendTasksOwnership(ctx, r.options.Actor, owned, r.options.Lease)
	if err != nil {
		return true, err
	}
	for i, p := range held {
		if !kept[i] {
			r.lose(p.task.OwnedTask, stint.ErrInvalidToken)
		}
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for i, p := range held {
		if kept[i] && !p.expired {
			p.until = sent.Add(r.options.Lease)
		}
	}
	return true, nil
}

// hold notes performances whose leases last until then.
func (r *run) hold(begun []*performance, until time.Time) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, p := range begun {
		r.held[p.task.Token] = p
	}
	if until.Before(r.expiry) {
		wakeUp(r.sooner)
	}
}

// letGo gives the slots of performances that are over free.
func (r *run) letGo(over ...*performance) {
	if len(over) == 0 {
		return
	}
	actions := make([]string, len(over))
	r.mutex.Lock()
	for i, p := range over {
		actions[i] = p.task.Action
		delete(r.held, p.task.Token)
	}
	r.mutex.Unlock()
	r.freed <- actions
	r.performing.Add(-len(over))
}

// performances returns those under way.
func (r *run) performances() []*performance {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Collect(maps.Values(r.held))
}

// expireLeases tells handlers that their leases have expired, until ctx ends.
func (r *run) expireLeases(ctx context.Context) {
	timer := time.NewTimer(r.expire())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-r.sooner:
		}
		timer.Reset(r.expire())
	}
}

// expire tells those whose leases have expired, and returns how long the others last.
func (r *run) expire() time.Duration {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	at := now()
	r.expiry = at.Add(r.options.Lease)
	for _, p := range r.held {
		switch {
		case p.expired:
		case !p.until.After(at):
			p.expired = true
			p.lose(ErrLeaseExpired)
		case p.until.Before(r.expiry):
			r.expiry = p.until
		}
	}
	return r.expiry.Sub(at)
}

// leaseLeft is how long the lease on a task lasts. One that has expired stays so: the handler was
// told.
func (r *run) leaseLeft(p *performance) time.Duration {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if p.expired {
		return 0
	}
	return p.until.Sub(now())
}

// owned returns the tasks that handlers are performing, but those that are known to be lost.
func (r *run) owned() []stint.OwnedTask {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	owned := make([]stint.OwnedTask, 0, len(r.held))
	for _, p := range r.held {
		if !p.lost.Load() && !p.settled.Load() && !p.task.returned.Load() {
			owned = append(owned, stint.OwnedTask{ID: p.task.ID, Token: p.task.Token})
		}
	}
	return owned
}

// lose tells the handler of a task that it is lost.
func (r *run) lose(task stint.OwnedTask, cause error) {
	r.mutex.Lock()
	p := r.held[task.Token]
	r.mutex.Unlock()
	if p == nil {
		return
	}
	if errors.Is(cause, stint.ErrInvalidToken) {
		cause = &stint.TaskError{IDs: []stint.TaskID{p.task.ID}, Err: cause}
	}
	p.lose(cause)
}
