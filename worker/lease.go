package worker

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
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
	lease := r.options.Lease
	for pause := jittered(lease / beatPart); sleep(ctx, pause); {
		pause = jittered(lease / beatPart)
		if err := r.extendLeases(ctx); err != nil && ctx.Err() == nil {
			r.logger.LogAttrs(ctx, slog.LevelWarn, "could not extend the leases",
				slog.Any("error", err))
			pause = jittered(lease / againPart)
		}
	}
}

// jittered is a time somewhat shorter than d, so that workers that began together do not go on so.
func jittered(d time.Duration) time.Duration {
	const spread = 5
	return d - rand.N(d/spread) //nolint:gosec // spreads load, hides nothing
}

func (r *run) extendLeases(ctx context.Context) error {
	held := slices.DeleteFunc(r.performances(), func(p *performance) bool { return p.lost.Load() })
	owned := make([]stint.OwnedTask, len(held))
	for i, p := range held {
		owned[i] = p.task.OwnedTask
		owned[i].Body = nil
	}
	if len(owned) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.options.Lease/attemptPart)
	defer cancel()
	sent := now()
	kept, err := r.store.ExtendTasksOwnership(ctx, r.options.Actor, owned, r.options.Lease)
	if err != nil {
		return err
	}
	for i, p := range held {
		if kept[i] {
			p.extend(sent.Add(r.options.Lease))
		} else {
			p.lose(&stint.TaskError{IDs: []stint.TaskID{p.task.ID}, Err: stint.ErrInvalidToken})
		}
	}
	return nil
}

// extend notes that the lease lasts until then. If it has expired already, the handler was told so.
func (p *performance) extend(until time.Time) {
	if p.expiry.Stop() {
		p.expiry.Reset(until.Sub(now()))
	}
}
