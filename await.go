package stint

import (
	"context"
	"fmt"
	"time"
)

// AwaitTasks is [Store.OwnTasks] that waits until at least one task is ready for it. It is woken
// when such tasks are inserted or become ready, when scheduled ones are due or leases expire, and
// looks for itself every [Options.PollInterval].
//
// It returns when it has tasks, when ctx ends, or with [ErrClosed] when the store is closed. In a
// transaction it is refused with an [*ArgumentError], since it would keep the transaction open.
// Other errors, such as that the database cannot be reached, are returned at once.
func (s *Store) AwaitTasks(
	ctx context.Context, actor ActorID, maxTasks int, actions []string, lease time.Duration,
) ([]OwnedTask, error) {
	owned, err := s.awaitTasks(ctx, actor, maxTasks, actions, lease)
	if err != nil {
		return nil, fmt.Errorf("await tasks: %w", err)
	}
	return owned, nil
}

func (s *Store) awaitTasks(
	ctx context.Context, actor ActorID, maxTasks int, actions []string, lease time.Duration,
) ([]OwnedTask, error) {
	if s.tx != nil {
		return nil, argumentError("store", "in a transaction, where waiting would have no end")
	}
	for {
		owned, err := s.ownTasks(ctx, actor, maxTasks, actions, lease)
		if err != nil || len(owned) > 0 {
			return owned, err
		}
		select {
		case <-time.After(around(s.poll)):
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.background.ended:
			return nil, ErrClosed
		}
	}
}
