package stint

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// contendedPause is how long an owner waits before it looks again for tasks that others were just
// taking. It doubles each time.
const contendedPause = time.Millisecond

// WaitToOwnTasks is [Store.OwnTasks], but waits until at least one task is ready. It is woken when
// such tasks are inserted or become ready, when scheduled ones are due and when leases expire.
// Besides, one of the calls that wait at a store for the same actions polls every
// [Options.PollInterval]. An answer is cut at 8 MiB of bodies as there.
//
// It returns when it has tasks, when ctx ends, or with [ErrClosed] when the store is closed. Other
// errors, such as that the database cannot be reached, are returned at once, and so is that it does
// not answer for ten seconds, or that the pool has a connection for nobody for as long. In a
// transaction the call is refused with an [*ArgumentError], since it would keep the transaction
// open.
func (s *Store) WaitToOwnTasks(
	ctx context.Context, actor ActorID, maxTasks int, actions []string, lease time.Duration,
) ([]OwnedTask, error) {
	owned, err := s.waitToOwnTasks(ctx, ownRequest{
		actor: actor, maxTasks: maxTasks, actions: actions, lease: lease,
	})
	if err != nil {
		return nil, fmt.Errorf("wait to own tasks: %w", err)
	}
	return owned, nil
}

func (s *Store) waitToOwnTasks(ctx context.Context, request ownRequest) ([]OwnedTask, error) {
	if s.tx != nil {
		return nil, argumentError("store",
			"must not be in a transaction, where the wait would never end")
	}
	if err := request.check(); err != nil {
		return nil, err
	}
	request.awaits = true
	actions := request.actions
	topics := make([]string, len(actions))
	for i, action := range actions {
		topics[i] = readyTopic(action)
	}
	w := s.awaiting.join(actions)
	defer s.awaiting.leave(actions, w)
	retry := contendedPause
	for {
		s.awaiting.look(w)
		answer, err := s.ownTasks(ctx, request)
		if err != nil || len(answer.tasks) > 0 {
			s.awaiting.readyForMore(actions)
			return answer.tasks, err
		}
		s.hear(topics...)
		var look <-chan time.Time
		if answer.next.pause != nil {
			look = time.After(min(around(s.poll), *answer.next.pause+time.Millisecond))
		}
		if answer.next.contended { // nobody is told of the tasks that they leave
			look = time.After(around(retry))
			retry = min(2*retry, s.poll)
		} else {
			retry = contendedPause
		}
		partial := answer.next.partial && !answer.next.contended
		if err := s.awaitTurn(ctx, w, look, partial); err != nil {
			return nil, err
		}
	}
}

// awaitTurn waits until it is time to look for tasks: when somebody says so, at look, or when it is
// this waiter's turn to poll. Of all who wait for the same actions, one polls at a time: if it
// finds tasks, it wakes others. It passes the turn on before it looks, since that may take long.
// If look is only for a scan of the whole queues, the waiter that has looked last makes it for all.
func (s *Store) awaitTurn(
	ctx context.Context, w *ownWaiter, look <-chan time.Time, partial bool,
) error {
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
			turn, poll = nil, time.After(around(s.poll)-s.awaiting.sinceLook(w))
		case <-w.wake:
			return nil
		case <-look:
			if !partial || s.awaiting.isLast(w) {
				return nil
			}
			look = nil
		case <-w.queue.left:
			return nil
		case <-poll:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closing:
			return ErrClosed
		}
	}
}

// awaiting holds those who wait for tasks, by action. If many wait, one of them is woken. If it
// finds tasks it wakes two more, and so on, so that few look in vain when there are few tasks.
type awaiting struct {
	mutex   sync.Mutex
	waiters map[string]map[chan struct{}]bool
	queues  map[string]*pollQueue // by the actions, joined
}

// An ownWaiter is a call that waits for tasks.
type ownWaiter struct {
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

// look notes that a waiter looks for tasks.
func (a *awaiting) look(w *ownWaiter) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	w.queue.looks++
	w.look = w.queue.looks
	w.queue.looked = time.Now() //nolint:forbidigo // in this process, for the next poll
}

// sinceLook is how long ago a waiter for the same actions has looked: whoever polls waits only for
// the rest of the interval, since waiters that poll may leave without having looked.
func (a *awaiting) sinceLook(w *ownWaiter) time.Duration {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return time.Since(w.queue.looked)
}

// isLast reports whether no other waiter for the same actions has looked since this one did.
func (a *awaiting) isLast(w *ownWaiter) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return w.look == w.queue.looks
}

// join adds a waiter, which is told when tasks with one of the actions may be ready.
func (a *awaiting) join(actions []string) *ownWaiter {
	wake := make(chan struct{}, 1)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.waiters == nil {
		a.waiters = map[string]map[chan struct{}]bool{}
		a.queues = map[string]*pollQueue{}
	}
	key := strings.Join(actions, "\x00") // as in ownKey
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
	return &ownWaiter{wake: wake, queue: queue}
}

// leave ends a wait. If the waiter was woken and did not look, another one looks.
func (a *awaiting) leave(actions []string, w *ownWaiter) {
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

// ready tells that tasks with an action may be ready.
func (a *awaiting) ready(action string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.wake(1, action)
}

// readyForMore tells that more tasks with the actions may be ready than one waiter has found.
func (a *awaiting) readyForMore(actions []string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.wake(2, actions...) //nolint:mnd // as the comment of awaiting says
}

// wake wakes as many waiters, but none twice before it has looked; the mutex is held.
func (a *awaiting) wake(waiters int, actions ...string) {
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

// any tells that any tasks may be ready.
func (a *awaiting) any() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, waiters := range a.waiters {
		for wake := range waiters {
			wakeUp(wake)
		}
	}
}
