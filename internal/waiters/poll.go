package waiters

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stint-tasks/stint/internal/pg"
)

// A Poll is what a poll for all who wait has found.
type Poll struct {
	// Ready are those of the actions of which tasks can be fetched.
	Ready []string
	// Overdue says that something is due that can be settled, which may make tasks ready, and Pause
	// how long it is until something will be; nil: there is nothing.
	Overdue bool
	Pause   *time.Duration
}

// A Poller polls on behalf of all who wait at a store, unless somebody else has told that he has
// looked for them: then it relies on being told what he found.
type Poller struct {
	Waiters *Waiters
	Every   time.Duration

	// Look looks for tasks with the actions. If settle, it first settles what is due.
	Look func(ctx context.Context, actions []string, settle bool) (Poll, error)

	// Failed reports whether there is an error, and logs it.
	Failed func(ctx context.Context, err error) bool

	mutex   sync.Mutex
	running bool
	changed chan struct{}
	// at is when to poll next, due when to settle what is due; zero: not known. trusted is until
	// when others may be relied on.
	at, due, trusted time.Time
}

const (
	// trustedFor is how many intervals a poller relies on others.
	trustedFor = 30

	// dueMargin is how much later than it is due a poller looks for something.
	dueMargin = time.Millisecond
)

// Start has the poller poll as long as somebody waits. It calls start with what is to be done in
// the background.
func (p *Poller) Start(start func(work func(context.Context)) bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.running {
		return
	}
	p.changed = make(chan struct{}, 1)
	p.at, p.due, p.trusted = now().Add(pg.Around(p.Every)), time.Time{}, p.farthest()
	p.running = start(p.run)
}

// DueIn notes that something is due after a pause that may make tasks ready. If that is long, a
// poll finds it before, or others do.
func (p *Poller) DueIn(pause time.Duration) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	at := now().Add(pause + dueMargin)
	if pause < p.Every && p.running && (p.due.IsZero() || at.Before(p.due)) {
		p.due = at
		pg.WakeUp(p.changed)
	}
}

// Looked notes that somebody else has just looked on behalf of those who wait here.
func (p *Poller) Looked() {
	const part = 4
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.at = now().Add(p.Every + p.Every/part)
	if p.at.After(p.trusted) {
		p.at = p.trusted
	}
}

// farthest is until when others may be relied on from now on.
func (p *Poller) farthest() time.Time {
	return now().Add(trustedFor * pg.Around(min(p.Every, time.Hour)))
}

func (p *Poller) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	pause := p.Every
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		case <-timer.C:
		}
		actions, settle, ok := p.next()
		if !ok {
			return
		}
		if actions != nil {
			pause = p.poll(ctx, actions, settle, pause)
		}
		timer.Reset(p.rest())
	}
}

// next returns for which actions to poll now, nil if not yet, and whether to settle what is due. It
// reports false if nobody waits.
func (p *Poller) next() (actions []string, settle, ok bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	actions = p.Waiters.actions()
	if len(actions) == 0 {
		p.running = false
		return nil, false, false
	}
	settle = !p.due.IsZero() && time.Until(p.due) <= 0
	if !settle && time.Until(p.at) > 0 {
		return nil, false, true
	}
	return actions, settle, true
}

// rest is how long it is until the next poll.
func (p *Poller) rest() time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	rest := time.Until(p.at)
	if !p.due.IsZero() {
		rest = min(rest, time.Until(p.due))
	}
	return max(rest, 0)
}

// poll polls, and wakes those for whom there are tasks. If it fails, all who wait get the error. It
// returns the pause until the next poll, about.
func (p *Poller) poll(
	ctx context.Context, actions []string, settle bool, pause time.Duration,
) time.Duration {
	found, err := p.Look(ctx, actions, settle)
	failed := p.Failed(ctx, err)
	pause = pg.PauseAfterWork(failed, pause, p.Every)
	p.mutex.Lock()
	p.at, p.due, p.trusted = now().Add(pg.Around(pause)), time.Time{}, p.farthest()
	switch {
	case failed:
	case found.Overdue:
		p.due = now()
	case found.Pause != nil && *found.Pause < p.Every:
		p.due = now().Add(*found.Pause + dueMargin)
	}
	p.mutex.Unlock()
	if failed && ctx.Err() == nil {
		p.Waiters.wakeAll(err)
	}
	for _, action := range found.Ready {
		p.Waiters.Ready(action)
	}
	return pause
}

// actions returns the actions that somebody waits for.
func (a *Waiters) actions() []string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return slices.Sorted(maps.Keys(a.waiters))
}

// now is for pauses of this process; the database says when a task is due.
func now() time.Time {
	return time.Now() //nolint:forbidigo // as the comment says
}
