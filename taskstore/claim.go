package taskstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// A Claim says what [Store.Claim] shall claim.
type Claim struct {
	Client   int64 // as in [Request]
	Group    string
	Duration time.Duration // for how long the client will own the task: 1 ms to ten years

	// Depends are tasks that must be there, unchanged. They are not claimed themselves, so a claim
	// that depends on all available tasks of its group, such as on the only one, finds none.
	Depends []int64
}

// Claim gives the client a random task of the group that is available, and returns it with its new
// ID. If no task is available, found is false, and there is no error. Tasks that other calls are
// changing at this moment are passed over: Claim waits only for calls that change tasks of Depends.
//
// How random: a claim begins at one of 64 places, to which tasks are assigned at random, and takes
// one of the 16 tasks there that have been available longest. So in a group of a few hundred
// available tasks each may be the next, and in a larger one those that have waited longest come
// first. The time that a claim takes does not depend on how many tasks of the group are owned.
//
// If a task of Depends is not there, Claim does nothing and returns a [*ConflictError] that lists
// all such tasks. A bad claim is refused with [stint.ErrInvalidArgument] or [stint.ErrTooLarge]. A
// part of a millisecond is dropped from Duration.
//
// Choose a short duration, and extend it by [Store.Update] while the work goes on. A call that is
// cut off may have claimed a task, which is available again after the duration. So simply claim
// again.
func (s *Store) Claim(ctx context.Context, c Claim) (task Task, found bool, err error) {
	if err := c.check(); err != nil {
		return Task{}, false, fmt.Errorf("claim: %w", err)
	}
	var conflict ConflictError
	var id, available *int64
	var data []byte
	const places = 64
	args := []any{
		c.Client, c.Group, c.Duration.Milliseconds(), distinct(c.Depends),
		rand.IntN(places), //nolint:gosec // it need not be a secret
	}
	err = s.change(ctx, "claim", args, &conflict.Depends, &id, &available, &data)
	if err == nil && !conflict.isEmpty() {
		err = &conflict
	}
	if err != nil {
		return Task{}, false, fmt.Errorf("claim: %w", err)
	}
	if id == nil {
		return Task{}, false, nil
	}
	return Task{
		ID: *id, Group: c.Group, Data: data, TimeSpec: *available, Owner: c.Client,
	}, true, nil
}
