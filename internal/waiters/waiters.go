// Package waiters wakes those of a process who wait for tasks with some actions, as few of them as
// there is work for.
package waiters

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/stint-tasks/stint/internal/pg"
)

// Waiters are those who wait for tasks, by action. If many wait, one of them is woken. If it
// finds tasks it wakes two more, and so on, so that few look in vain when there are few tasks.
type Waiters struct {
	mutex   sync.Mutex
	waiters map[string]map[chan error]bool
	queues  map[string]*queue // by the actions, joined

	told  int64 // how often tasks were said to be ready
	empty map[string]emptiness
}

// An emptiness is what is known of the queues of some actions, whether or not somebody waits.
type emptiness struct {
	told   int64     // how often tasks were said to be ready when there was none
	looked time.Time // when somebody looked in vain
}

// emptyFor is how long it is believed that nothing is ready of which nobody was told, and emptyMax
// of how many sets of actions at most.
const (
	emptyFor = 100 * time.Millisecond
	emptyMax = 1000
)

// A Waiter is a call that waits for tasks.
type Waiter struct {
	wake  chan error // nil if tasks may be ready; otherwise nobody can find that out
	queue *queue
	look  int // the number of its last look in the queue
}

// A queue is of the waiters for the same actions. The one that has looked last knows when it is
// time to look again; when it leaves, whoever receives from left looks instead.
type queue struct {
	left           chan struct{}
	waiters, looks int
}

// Await waits until it is time for a waiter to look for tasks: when somebody says so, or at look.
// If look is for all who wait for the same actions, shared, the waiter that has looked last looks
// for them. Await reports false if ctx ends, closing is closed, or it returns an error: that of a
// poll for all who wait.
func (a *Waiters) Await(
	ctx context.Context, w *Waiter, look <-chan time.Time, shared bool, closing <-chan struct{},
) (looks bool, err error) {
	for {
		select {
		case err := <-w.wake:
			return err == nil, err
		case <-look:
			if !shared || a.isLast(w) {
				return true, nil
			}
			look = nil
		case <-w.queue.left:
			return true, nil
		case <-ctx.Done():
			return false, nil
		case <-closing:
			return false, nil
		}
	}
}

// Look notes that a waiter looks for tasks.
func (a *Waiters) Look(w *Waiter) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	w.queue.looks++
	w.look = w.queue.looks
}

// isLast reports whether no other waiter for the same actions has looked since this one did.
func (a *Waiters) isLast(w *Waiter) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return w.look == w.queue.looks
}

// Join adds a waiter, which is told when tasks with one of the actions may be ready.
func (a *Waiters) Join(actions []string) *Waiter {
	wake := make(chan error, 1)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.waiters == nil {
		a.waiters = map[string]map[chan error]bool{}
		a.queues = map[string]*queue{}
	}
	key := strings.Join(actions, "\x00")
	of := a.queues[key]
	if of == nil {
		of = &queue{left: make(chan struct{}, 1)}
		a.queues[key] = of
	}
	of.waiters++
	for _, action := range actions {
		if a.waiters[action] == nil {
			a.waiters[action] = map[chan error]bool{}
		}
		a.waiters[action][wake] = true
	}
	return &Waiter{wake: wake, queue: of}
}

// Leave ends a wait. If the waiter was woken and did not look, another one looks.
func (a *Waiters) Leave(actions []string, w *Waiter) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if w.queue.waiters--; w.queue.waiters == 0 {
		delete(a.queues, strings.Join(actions, "\x00"))
	} else if w.look == w.queue.looks {
		pg.WakeUp(w.queue.left)
	}
	for _, action := range actions {
		delete(a.waiters[action], w.wake)
		if len(a.waiters[action]) == 0 {
			delete(a.waiters, action)
		}
	}
	select {
	case err := <-w.wake:
		if err == nil {
			a.wake(1, actions...)
		}
	default:
	}
}

// Waited reports whether somebody waits for tasks with an action.
func (a *Waiters) Waited(action string) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return len(a.waiters[action]) > 0
}

// Told returns how often tasks were said to be ready so far.
func (a *Waiters) Told() int64 {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.told
}

// Emptied notes that a fetch took all tasks with the actions, and began when tasks had been said
// to be ready as often as told; inVain: there was none.
func (a *Waiters) Emptied(actions []string, told int64, inVain bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	key := strings.Join(actions, "\x00")
	known := a.empty[key]
	known.told = max(known.told, told)
	if inVain {
		known.looked = now()
	}
	if a.empty == nil || len(a.empty) > emptyMax {
		a.empty = map[string]emptiness{}
	}
	a.empty[key] = known
}

// EmptyFor returns for how long it may be believed that no task with the actions is ready, unless
// somebody is told of one: since the last fetch took all, nobody was. It is never long, since
// not everybody tells.
func (a *Waiters) EmptyFor(actions []string) time.Duration {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	known, ok := a.empty[strings.Join(actions, "\x00")]
	if !ok || known.told != a.told {
		return 0
	}
	return max(emptyFor-time.Since(known.looked), 0)
}

// Ready tells that tasks with an action may be ready.
func (a *Waiters) Ready(action string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.told++
	a.wake(1, action)
}

// ReadyForMore tells that more tasks with the actions may be ready than one waiter has found.
func (a *Waiters) ReadyForMore(actions []string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.wake(2, actions...) //nolint:mnd // as the comment of Waiters says
}

// wake wakes as many waiters, but none twice before it has looked; the mutex is held.
func (a *Waiters) wake(waiters int, actions ...string) {
	for _, action := range actions {
		for wake := range a.waiters[action] {
			if waiters == 0 {
				return
			}
			if wakeUp(wake, nil) {
				waiters--
			}
		}
	}
}

// Any tells that any tasks may be ready.
func (a *Waiters) Any() { a.wakeAll(nil) }

// wakeAll wakes all who wait, unless they have been woken, or gives them an error.
func (a *Waiters) wakeAll(err error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.told++
	for _, waiters := range a.waiters {
		for wake := range waiters {
			wakeUp(wake, err)
		}
	}
}

func wakeUp(wake chan<- error, err error) bool {
	select {
	case wake <- err:
		return true
	default:
		return false
	}
}
