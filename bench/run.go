package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

var (
	errMeasuredTwice = errors.New("measured twice")
	errNotMeasured   = errors.New("nothing was measured")
)

// A run is a job under way, as a contender sees it.
type run struct {
	job
	report report

	observer *pgx.Conn // whose round trips are not counted
	second   *pgx.Conn // the same in the second database; nil if there is none
	mutex    sync.Mutex
	pools    []*pgxpool.Pool // under mutex
	flights  atomic.Int64
	measured bool
}

func newRun(ctx context.Context, j job) (*run, error) {
	observer, err := pgx.Connect(ctx, j.URL)
	if err != nil {
		return nil, err
	}
	r := &run{job: j, observer: observer}
	if j.Second != "" {
		r.second, err = pgx.Connect(ctx, j.Second)
	}
	return r, err
}

// servers are connections to each server that there is.
func (r *run) servers() []*pgx.Conn {
	if r.second == nil || r.second.Config().Host == r.observer.Config().Host {
		return []*pgx.Conn{r.observer}
	}
	return []*pgx.Conn{r.observer, r.second} // private servers have a socket of their own each
}

// close closes the pools. A job that should have measured must have done so.
func (r *run) close(ctx context.Context) error {
	for _, pool := range r.pools {
		pool.Close()
	}
	err := r.observer.Close(ctx)
	if r.second != nil {
		err = errors.Join(err, r.second.Close(ctx))
	}
	if !r.Fill && !r.Perform && !r.measured {
		err = errors.Join(err, errNotMeasured)
	}
	return err
}

// pool returns a pool of so many connections at most, or of pgx's default if that is 0, whose round
// trips are counted. It is closed when the job is done.
func (r *run) pool(ctx context.Context, connections int) (*pgxpool.Pool, error) {
	return r.poolAt(ctx, r.URL, connections)
}

// poolAt is pool for a database of the job.
func (r *run) poolAt(ctx context.Context, url string, connections int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	if connections > 0 {
		config.MaxConns = int32(connections) //nolint:gosec // There are some hundreds at most.
	}
	countRoundTrips(config.ConnConfig, &r.flights)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.pools = append(r.pools, pool)
	return pool, nil
}

// set reports a figure of the workload.
func (r *run) set(name string, value float64) { r.report.set(name, value) }

// count returns the one number that a statement gives.
func (r *run) count(ctx context.Context, statement string, args ...any) (int, error) {
	var n int
	err := r.observer.QueryRow(ctx, statement, args...).Scan(&n)
	return n, err
}

// now is the time on the client's clock, for measuring.
func now() time.Time {
	return time.Now() //nolint:forbidigo // What clients wait for is measured with their own clock.
}

// untilEnd drops the error of a call that was cut off because live has ended.
func untilEnd(live context.Context, err error) error {
	if live.Err() == nil {
		return err
	}
	return nil
}

const (
	// inserters is how many goroutines insert many tasks, with a connection each.
	inserters = 4

	// drainers is how many goroutines drain where the contender has no loop of its own.
	drainers = 8
)

// insertBatch is how many tasks are inserted at a time where there are many: 10,000, or 16 MiB.
func (r *run) insertBatch() int { return min(10_000, 16<<20/r.BodyBytes) }

// drainBatch is how many tasks are drained at a time where it is for the caller to say: 1,000, or
// 1 MiB.
func (r *run) drainBatch() int { return min(1000, max(1, 1<<20/r.BodyBytes)) }

// inParallel calls work in so many goroutines and waits for them. The first error ends the context
// of the others.
func inParallel(
	ctx context.Context, goroutines int, work func(ctx context.Context, goroutine int) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range goroutines {
		group.Go(func() error { return work(ctx, i) })
	}
	return group.Wait()
}

// inBatches calls work, in so many goroutines, for the parts of the numbers from 0 to n that have
// the given size.
func inBatches(
	ctx context.Context, goroutines, n, size int,
	work func(ctx context.Context, from, to int) error,
) error {
	var next atomic.Int64
	return inParallel(ctx, goroutines, func(ctx context.Context, _ int) error {
		for {
			from := int(next.Add(int64(size))) - size
			if from >= n {
				return nil
			}
			if err := work(ctx, from, min(from+size, n)); err != nil {
				return err
			}
		}
	})
}
