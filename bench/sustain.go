package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

//go:embed sql/old_snapshot.sql
var oldSnapshotSQL string

const (
	// sustainWindow is how many tasks are under way at most, from their insertion to their end.
	sustainWindow = 20_000

	// sustainBatch is how many tasks are inserted at a time, by each of sustainInserters.
	sustainBatch     = 1000
	sustainInserters = 2
)

// A steady stream of tasks is inserted and drained at the same time, for as long as the workload
// lasts.
type steadyStream struct {
	// batch and window are other numbers than sustainBatch and sustainWindow, if not 0.
	batch, window int

	// insert inserts the tasks with the numbers from from to to.
	insert func(ctx context.Context, from, to int) error

	// drain performs tasks until live ends, and calls done with how many it has completed. What it
	// has begun by then it may finish; ctx has not ended.
	drain func(ctx, live context.Context, done func(tasks int)) error

	// watch, if not nil, looks on until live ends, while completed counts.
	watch func(ctx, live context.Context, completed *atomic.Int64) error
}

// sustain measures a stream, and tells the rates of its first and its last tenth.
func (r *run) sustain(ctx context.Context, stream steadyStream) error {
	live, stop := context.WithCancel(ctx)
	defer stop()
	batch := int64(cmp.Or(stream.batch, sustainBatch))
	window := semaphore.NewWeighted(int64(cmp.Or(stream.window, sustainWindow)))
	var completed, next atomic.Int64
	var counts []int64
	err := r.measure(ctx, func(ctx context.Context) (int, error) {
		group, ctx := errgroup.WithContext(ctx)
		context.AfterFunc(ctx, stop)
		for range sustainInserters {
			group.Go(func() error {
				for window.Acquire(live, batch) == nil {
					to := next.Add(batch)
					if err := stream.insert(ctx, int(to-batch), int(to)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		group.Go(func() error {
			return stream.drain(ctx, live, func(tasks int) {
				completed.Add(int64(tasks))
				window.Release(int64(tasks))
			})
		})
		group.Go(func() error {
			defer stop()
			counts = countTenths(ctx, r.Lasts/10, &completed)
			return nil
		})
		if stream.watch != nil {
			group.Go(func() error { return stream.watch(ctx, live, &completed) })
		}
		err := group.Wait()
		return int(completed.Load()), err
	})
	if err != nil {
		return err
	}
	tenth := (r.Lasts / 10).Seconds()
	r.set(figureFirst, float64(counts[0])/tenth)
	r.set(figureLast, float64(counts[9]-counts[8])/tenth)
	return nil
}

var errNotPruned = errors.New("the first task was not pruned")

// prunes says whether the first tasks are pruned before the stream ends.
func (r *run) prunes() bool { return r.Variant == pruned && r.Lasts >= prunedSurely }

// countTenths notes the count at the end of each tenth of the stream.
func countTenths(ctx context.Context, tenth time.Duration, count *atomic.Int64) []int64 {
	beat := time.NewTicker(tenth)
	defer beat.Stop()
	counts := make([]int64, 10)
	for i := range counts {
		select {
		case <-beat.C:
			counts[i] = count.Load()
		case <-ctx.Done():
			return counts
		}
	}
	return counts
}

// underOldSnapshot does work while another session keeps a snapshot from before it, as a long
// report or a dump does: nothing that is deleted meanwhile can be cleared away.
func (r *run) underOldSnapshot(ctx context.Context, work func() error) error {
	conn, err := pgx.Connect(ctx, r.URL)
	if err != nil {
		return err
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	if _, err := tx.Exec(ctx, oldSnapshotSQL); err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	return errors.Join(work(), tx.Rollback(ctx), conn.Close(ctx))
}
