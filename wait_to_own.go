package stint

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// contendedPause is how long an owner waits before it looks again for tasks that others were just
// taking. It doubles each time.
const contendedPause = time.Millisecond

// WaitToOwnTasks is [Store.OwnTasks], but waits until at least one task is ready. It is woken when
// such tasks are inserted or become ready, when scheduled ones are due and when leases expire, and
// also polls every [Options.PollInterval].
//
// It returns when it has tasks, when ctx ends, or with [ErrClosed] when the store is closed. Other
// errors, such as that the database cannot be reached, are returned at once. In a transaction the
// call is refused with an [*ArgumentError], since it would keep the transaction open.
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
	wake := s.awaiting.join(actions)
	defer s.awaiting.leave(actions, wake)
	retry := contendedPause
	for {
		answer, err := s.ownTasks(ctx, request)
		if err != nil || len(answer.tasks) > 0 {
			s.awaiting.readyForMore(actions)
			return answer.tasks, err
		}
		s.hear(topics...)
		pause := around(s.poll)
		if answer.next.pause != nil {
			pause = min(pause, *answer.next.pause+time.Millisecond)
		}
		if answer.next.contended { // nobody is told of the tasks that they leave
			pause = min(pause, around(retry))
			retry = min(2*retry, s.poll)
		} else {
			retry = contendedPause
		}
		select {
		case <-wake:
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.closing:
			return nil, ErrClosed
		}
	}
}

// awaiting holds those who wait for tasks, by action. If many wait, one of them is woken. If it
// finds tasks it wakes two more, and so on, so that few look in vain when there are few tasks.
type awaiting struct {
	mutex   sync.Mutex
	waiters map[string]map[chan struct{}]bool
}

// join returns a channel that is sent to when tasks with one of the actions may be ready.
func (a *awaiting) join(actions []string) chan struct{} {
	wake := make(chan struct{}, 1)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.waiters == nil {
		a.waiters = map[string]map[chan struct{}]bool{}
	}
	for _, action := range actions {
		if a.waiters[action] == nil {
			a.waiters[action] = map[chan struct{}]bool{}
		}
		a.waiters[action][wake] = true
	}
	return wake
}

// leave ends a wait. If the waiter was woken and did not look, another one looks.
func (a *awaiting) leave(actions []string, wake chan struct{}) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, action := range actions {
		delete(a.waiters[action], wake)
		if len(a.waiters[action]) == 0 {
			delete(a.waiters, action)
		}
	}
	select {
	case <-wake:
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
