// Package waiters wakes those of a process who wait for tasks with some actions, as few of them as
// there is work for.
package waiters

import (
	"context"
	"strings"
	"sync"
	"time"
)

// Waiters are those who wait for tasks, by action. If many wait, one of them is woken. If it
// finds tasks it wakes two more, and so on, so that few look in vain when there are few tasks.
type Waiters struct {
	mutex   sync.Mutex
	waiters map[string]map[chan struct{}]bool
	queues  map[string]*pollQueue // by the actions, joined
}

// A Waiter is a call that waits for tasks.
type Waiter struct {
	wake  chan struct{} // tasks may be ready
	queue *pollQueue
	look  int // the number of its last look in the queue
}

// A pollQueue is of the waiters for the same actions. Whoever receives from turn is the one that
// polls, until it sends back. The one that has looked last knows when something is due; when it
// leaves, whoever receives from left looks instead.
type pollQueue struct {
	turn, left     chan struct{}
	waiters, looks int
	looked         time.Time // when the last look began
}

// Await waits until it is time for a waiter to look for tasks: when somebody says so, at look, or
// when it is its turn to poll, which it does about every interval. Of all who wait for the same
// actions, one polls at a time: if it finds tasks, it wakes others. It passes the turn on before it
// looks, since that may take long. If look is only for a scan of the whole queues, partial, the
// waiter that has looked last makes it for all. Await reports false if ctx ends, or closing is
// closed.
func (a *Waiters) Await(
	ctx context.Context, w *Waiter, interval time.Duration, look <-chan time.Time, partial bool,
	closing <-chan struct{},
) bool {
	var poll <-chan time.Time
	turn := w.queue.turn
	defer func() {
		if turn == nil {
			w.queue.turn <- struct{}{}
		}
	}()
	for {
		select {
		case <-turn:
			turn, poll = nil, time.After(interval-a.sinceLook(w))
		case <-w.wake:
			return true
		case <-look:
			if !partial || a.isLast(w) {
				return true
			}
			look = nil
		case <-w.queue.left:
			return true
		case <-poll:
			return true
		case <-ctx.Done():
			return false
		case <-closing:
			return false
		}
	}
}

// Look notes that a waiter looks for tasks.
func (a *Waiters) Look(w *Waiter) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	w.queue.looks++
	w.look = w.queue.looks
	w.queue.looked = time.Now() //nolint:forbidigo // in this process, for the next poll
}

// sinceLook is how long ago a waiter for the same actions has looked: whoever polls waits only for
// the rest of the interval, since waiters that poll may leave without having looked.
func (a *Waiters) sinceLook(w *Waiter) time.Duration {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return time.Since(w.queue.looked)
}

// isLast reports whether no other waiter for the same actions has looked since this one did.
func (a *Waiters) isLast(w *Waiter) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return w.look == w.queue.looks
}

// Join adds a waiter, which is told when tasks with one of the actions may be ready.
func (a *Waiters) Join(actions []string) *Waiter {
	wake := make(chan struct{}, 1)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.waiters == nil {
		a.waiters = map[string]map[chan struct{}]bool{}
		a.queues = map[string]*pollQueue{}
	}
	key := strings.Join(actions, "\x00")
	queue := a.queues[key]
	if queue == nil {
		queue = &pollQueue{turn: make(chan struct{}, 1), left: make(chan struct{}, 1)}
		queue.turn <- struct{}{}
		a.queues[key] = queue
	}
	queue.waiters++
	for _, action := range actions {
		if a.waiters[action] == nil {
			a.waiters[action] = map[chan struct{}]bool{}
		}
		a.waiters[action][wake] = true
	}
	return &Waiter{wake: wake, queue: queue}
}

// Leave ends a wait. If the waiter was woken and did not look, another one looks.
func (a *Waiters) Leave(actions []string, w *Waiter) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if w.queue.waiters--; w.queue.waiters == 0 {
		delete(a.queues, strings.Join(actions, "\x00"))
	} else if w.look == w.queue.looks {
		wakeUp(w.queue.left)
	}
	for _, action := range actions {
		delete(a.waiters[action], w.wake)
		if len(a.waiters[action]) == 0 {
			delete(a.waiters, action)
		}
	}
	select {
	case <-w.wake:
		a.wake(1, actions...)
	default:
	}
}

// Ready tells that tasks with an action may be ready.
func (a *Waiters) Ready(action string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
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
			if wakeUp(wake) {
				waiters--
			}
		}
	}
}

// Any tells that any tasks may be ready.
func (a *Waiters) Any() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, waiters := range a.waiters {
		for wake := range waiters {
			wakeUp(wake)
		}
	}
}

func wakeUp(wake chan<- struct{}) bool {
	select {
	case wake <- struct{}{}:
		return true
	default:
		return false
	}
}
