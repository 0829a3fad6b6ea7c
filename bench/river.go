package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

//go:embed sql/river_completed.sql
var riverCompletedSQL string

// riverContender is River, configured as its own benchmark is (cmd/river/riverbench) unless a
// workload says otherwise.
func riverContender() contender {
	return contender{
		name:   "river",
		title:  "River 0.51",
		create: createRiver,
		entries: []entry{
			{workload: "W1", measure: insertRiver},
			{workload: "W2", variant: "kept", fill: fillRiver, measure: drainRiver},
		},
	}
}

func createRiver(ctx context.Context, r *run) error {
	pool, err := r.pool(ctx, 2)
	if err != nil {
		return err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// riverArgs are the parameters of a job.
type riverArgs struct {
	Body string `json:"body"`
	kind string
}

func (a riverArgs) Kind() string { return a.kind }

// riverKind is the kind of jobs where there is only one.
const riverKind = "bench"

// riverParams are the jobs with the numbers from from to to.
func riverParams(from, to, bodyBytes int) []river.InsertManyParams {
	text := string(body(bodyBytes))
	params := make([]river.InsertManyParams, to-from)
	for i := range params {
		params[i].Args = riverArgs{Body: text, kind: riverKind}
	}
	return params
}

// insertRiverJobs inserts n jobs in the fastest way there is, COPY in batches of 10,000.
func insertRiverJobs(ctx context.Context, r *run, pool *pgxpool.Pool, n int) error {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	const batch, goroutines = 10_000, 4
	return inBatches(ctx, goroutines, n, batch, func(ctx context.Context, from, to int) error {
		_, err := client.InsertManyFast(ctx, riverParams(from, to, r.BodyBytes))
		return err
	})
}

func fillRiver(ctx context.Context, r *run) error {
	pool, err := r.pool(ctx, 4)
	if err != nil {
		return err
	}
	return insertRiverJobs(ctx, r, pool, r.Backlog)
}

func insertRiver(ctx context.Context, r *run) error {
	pool, err := r.pool(ctx, 4)
	if err != nil {
		return err
	}
	return r.measure(ctx, func(ctx context.Context) (int, error) {
		return r.Tasks, insertRiverJobs(ctx, r, pool, r.Tasks)
	})
}

// drainRiver uses the configuration of River's own benchmark.
func drainRiver(ctx context.Context, r *run) error {
	return drainRiverWith(ctx, r, &river.Config{
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2_000}},
	})
}

// drainRiverWith measures how long it takes until r.Tasks jobs are completed in the database. That
// is when River tells its subscribers, which is how its own benchmark counts.
func drainRiverWith(ctx context.Context, r *run, config *river.Config) error {
	pool, err := r.pool(ctx, 20)
	if err != nil {
		return err
	}
	client, err := newRiverClient(pool, config, func(context.Context, *river.Job[riverArgs]) error {
		return nil
	})
	if err != nil {
		return err
	}
	events, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: r.Tasks + 10_000,
		Kinds: []river.EventKind{
			river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobCancelled,
		},
	})
	defer unsubscribe()
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		if err := client.Start(ctx); err != nil {
			return 0, err
		}
		for range r.Tasks {
			select {
			case event := <-events:
				if event.Kind != river.EventKindJobCompleted {
					return 0, fmt.Errorf("job %d: %s", event.Job.ID, event.Kind)
				}
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		return r.Tasks, nil
	})
	if err := errors.Join(err, client.Stop(ctx)); err != nil {
		return err
	}
	completed, err := r.count(ctx, riverCompletedSQL)
	if err == nil && (completed < r.Tasks || r.Backlog == r.Tasks && completed != r.Tasks) {
		err = fmt.Errorf("%d of %d jobs were completed", completed, r.Tasks)
	}
	return err
}

// newRiverClient returns a client that works on jobs of the usual kind. Without a time-out for each
// job, River saves itself a timer.
func newRiverClient(
	pool *pgxpool.Pool, config *river.Config,
	work func(ctx context.Context, job *river.Job[riverArgs]) error,
) (*river.Client[pgx.Tx], error) {
	config.Workers = river.NewWorkers()
	river.AddWorkerArgs(config.Workers, riverArgs{kind: riverKind}, river.WorkFunc(work))
	config.Logger = slog.New(slog.DiscardHandler)
	config.JobTimeout = -1
	return river.NewClient(riverpgxv5.New(pool), config)
}
