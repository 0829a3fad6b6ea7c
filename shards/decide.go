package shards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

// undoneFor is for how long it is kept that an insert was decided against: longer than any process
// takes to make it.
const undoneFor = 30 * 24 * time.Hour

// lookAgain is how long a relay waits until it looks again for a decision, or for a shard.
const lookAgain = 2 * time.Second

// decideAgainst decides that an insert does not take place, unless it has. It reports whether it is
// decided against.
func decideAgainst(ctx context.Context, store Store, id stint.TaskID) (bool, error) {
	body, err := json.Marshal(decision{Undone: true})
	if err != nil {
		return false, err
	}
	err = store.InsertTasks(ctx, []stint.Task{{
		ID: id, Action: stint.External, Body: body,
		Deadline: time.Now().Add(undoneFor), //nolint:forbidigo // the clocks may differ by days
	}})
	if !errors.Is(err, stint.ErrTaskExists) {
		return err == nil, err
	}
	found, err := readDecision(ctx, store, id)
	if err == nil && found == nil {
		err = fmt.Errorf("the decision %q was deleted meanwhile", id)
	}
	return err == nil && found.Undone, err
}

// readDecision returns a decision, or nil if there is none.
func readDecision(ctx context.Context, store Store, id stint.TaskID) (*decision, error) {
	task, err := find(ctx, store, id)
	if err != nil || task == nil {
		return nil, err
	}
	var found decision
	if err := json.Unmarshal(task.Body, &found); err != nil {
		return nil, fmt.Errorf("read decision %q: %w", id, err)
	}
	return &found, nil
}

// performDecision opens the gates of an insert that has taken place.
func (c *Cluster) performDecision(
	ctx context.Context, task *worker.Task,
) (worker.Result, error) {
	var made decision
	if err := json.Unmarshal(task.Body, &made); err != nil {
		return worker.Result{}, later(err) // a newer release may understand it
	}
	for _, shard := range made.Shards {
		if err := c.openGate(ctx, shard, made.Gate); err != nil {
			return worker.Result{}, later(err)
		}
	}
	return worker.Result{}, nil
}

// performGuard sees to it that a part of an insert becomes real, or is deleted, as was decided. If
// nothing is decided in time, it decides against.
func (c *Cluster) performGuard(
	ctx context.Context, shard string, task *worker.Task,
) (worker.Result, error) {
	var of guard
	if err := json.Unmarshal(task.Body, &of); err != nil {
		return worker.Result{}, later(err) // a newer release may understand it
	}
	here, err := c.Store(ctx, shard)
	if err != nil {
		return worker.Result{}, later(err)
	}
	closed, err := isClosed(ctx, here, of.Gate)
	if err != nil || !closed {
		return worker.Result{}, later(err)
	}
	against, err := c.isAgainst(ctx, here, of, task.ID)
	switch {
	case err != nil:
		return worker.Result{}, later(inShard(of.Decides, err))
	case against:
		// The decision may have been there before, and be gone since its gates are open.
		if closed, err = isClosed(ctx, here, of.Gate); err == nil && closed {
			err = c.undoPart(ctx, shard, here, of.Gate, of.Tasks)
		}
	default:
		err = c.openGate(ctx, shard, of.Gate)
	}
	return worker.Result{}, later(err)
}

// errUndecided says that it is too early to decide against an insert.
var errUndecided = errors.New("the insert is not decided yet")

// isAgainst reports whether the insert of a guard is decided against. If its time is over,
// isAgainst decides.
func (c *Cluster) isAgainst(
	ctx context.Context, here Store, of guard, id stint.TaskID,
) (bool, error) {
	decides, err := c.Store(ctx, of.Decides)
	if err != nil {
		return false, err
	}
	found, err := readDecision(ctx, decides, of.Decision)
	if err != nil || found != nil {
		return err == nil && found.Undone, err
	}
	self, err := find(ctx, here, id)
	switch {
	case err != nil:
		return false, err
	case self == nil || self.OwnedAt.Sub(self.InsertedAt) < c.options.DecideWithin:
		return false, errUndecided
	}
	return decideAgainst(ctx, decides, of.Decision)
}

// later makes a relay look again a little later, if there is an error.
func later(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", worker.Snooze(lookAgain), err)
}
