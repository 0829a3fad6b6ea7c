package main

import (
	"context"
	"errors"

	"github.com/riverqueue/river"
)

func streamRiverUnderSnapshot(ctx context.Context, r *run) error {
	return r.underOldSnapshot(ctx, func() error { return streamRiver(ctx, r) })
}

// streamRiver inserts with one client and works with another, in batches.
func streamRiver(ctx context.Context, r *run) error {
	insertPool, err := r.pool(ctx, sustainInserters)
	if err != nil {
		return err
	}
	inserting, err := newRiverInserter(insertPool, river.Config{})
	if err != nil {
		return err
	}
	workPool, err := r.pool(ctx, riverConnections)
	if err != nil {
		return err
	}
	config := riverBatches()
	if r.Variant == pruned {
		config.CompletedJobRetentionPeriod = prunedAfter
	}
	working, err := newRiverWorker(workPool, config, noWork)
	if err != nil {
		return err
	}
	err = r.sustain(ctx, steadyStream{
		insert: func(ctx context.Context, from, to int) error {
			_, err := inserting.InsertManyFast(ctx, riverParams(r, from, to))
			return err
		},
		drain: func(ctx, live context.Context, done func(tasks int)) error {
			events, unsubscribe := subscribeRiver(working, 2*sustainWindow)
			defer unsubscribe()
			if err := working.Start(ctx); err != nil {
				return err
			}
			var err error
			for err == nil && live.Err() == nil {
				if err = awaitRiver(live, events); err == nil {
					done(1)
				}
			}
			if live.Err() != nil {
				err = nil
			}
			return errors.Join(err, working.Stop(ctx))
		},
	})
	if err == nil && r.prunes() {
		if _, notFound := inserting.JobGet(ctx, 1); notFound == nil {
			err = errNotPruned
		}
	}
	return err
}
