package main

import (
	"cmp"
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
	c := contender{
		name:   "river",
		title:  "River 0.51",
		create: createRiver,
		entries: []entry{
			{workload: "W1", measure: insertRiver},
			{workload: "W2", variant: "kept", fill: fillRiver, measure: drainRiver},
			{workload: "W3-insert", measure: insertRiverSingly},
			{workload: "W3-own-16", fill: fillRiver, measure: drainRiverBusily},
			{workload: "W3-own-200", fill: fillRiver, measure: drainRiverBusily},
			{workload: "W4", variant: riverEager, measure: hearRiver},
			{workload: "W4", variant: "default", measure: hearRiver, notQuick: true},
			{workload: "W5-100k", fill: fillRiver, measure: drainRiver},
			{workload: "W5-2M", fill: fillRiver, measure: drainRiver},
			{workload: "W5-10M", fill: fillRiver, measure: drainRiver},
			{workload: "W6", measure: streamRiverUnderSnapshot},
			{workload: "W8-insert", measure: insertRiver},
			{workload: "W8-drain", fill: fillRiver, measure: drainRiver},
			{workload: "W9", variant: "kept", fill: fillRiver, measure: drainRiver},
			{workload: "W10", variant: retained, measure: streamRiver},
			{workload: "W10", variant: pruned, measure: streamRiver},
			{
				workload: actionLimitWorkload, variant: "2,000 workers", fill: fillRiver,
				measure: drainRiver,
			},
			{
				workload: actionLimitWorkload, variant: "1,000 workers of one process",
				fill: fillRiver, measure: drainRiverLocally,
			},
		},
	}
	c.entries = append(append(c.entries, riverSlotEntries()...),
		disturbedEntries(riverPolling1, openRiverSlotsSoon, "river_job")...)
	c.entries = append(c.entries, pinnedEntries(riverPolling1, openRiverSlotsSoon)...)
	return c
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
func riverParams(r *run, from, to int) []river.InsertManyParams {
	text := newBodies(r.BodyBytes)
	params := make([]river.InsertManyParams, to-from)
	for i := range params {
		args := riverArgs{Body: string(text.of(from + i)), kind: riverKind}
		if r.Workload == "W9" {
			args.kind = mixedAction(from + i)
			params[i].InsertOpts = &river.InsertOpts{
				Priority: riverLeastPriority - int(mixedPriority(from+i)),
			}
		}
		params[i].Args = args
	}
	return params
}

// riverLeastPriority is the lowest one; 1 is the highest.
const riverLeastPriority = 4

// insertRiverJobs inserts n jobs in the fastest way there is, COPY of many at a time.
func insertRiverJobs(ctx context.Context, r *run, pool *pgxpool.Pool, n int) error {
	client, err := newRiverInserter(pool, river.Config{})
	if err != nil {
		return err
	}
	return inBatches(ctx, inserters, n, r.insertBatch(),
		func(ctx context.Context, from, to int) error {
			_, err := client.InsertManyFast(ctx, riverParams(r, from, to))
			return err
		})
}

func fillRiver(ctx context.Context, r *run) error {
	pool, err := r.pool(ctx, inserters)
	if err != nil {
		return err
	}
	return insertRiverJobs(ctx, r, pool, r.Backlog)
}

func insertRiver(ctx context.Context, r *run) error {
	pool, err := r.pool(ctx, inserters)
	if err != nil {
		return err
	}
	return r.measure(ctx, func(ctx context.Context) (int, error) {
		return r.Tasks, insertRiverJobs(ctx, r, pool, r.Tasks)
	})
}

// drainRiver uses the configuration of River's own benchmark. (Between 500 and 10,000 workers and
// cooldowns of 1 to 20 ms, client and server together spent 54 to 61 µs of the processor on a job,
// which is within what the same configuration differs by from run to run.)
func drainRiver(ctx context.Context, r *run) error {
	return drainRiverWith(ctx, r, riverBatches())
}

// riverBatches is the configuration of River's own benchmark.
func riverBatches() river.Config {
	return river.Config{
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2_000}},
	}
}

// drainRiverLocally has as many workers as W15 lets tasks be in progress. Without its paid part,
// River has no other limit, and this one is of a process: two of them perform twice as many.
func drainRiverLocally(ctx context.Context, r *run) error {
	config := riverBatches()
	config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: atOnceMost}}
	return drainRiverWith(ctx, r, config)
}

// drainRiverBusily has few workers, which ask for more as often as River lets them.
func drainRiverBusily(ctx context.Context, r *run) error {
	return drainRiverWith(ctx, r, river.Config{
		FetchCooldown:     time.Millisecond,
		FetchPollInterval: time.Millisecond,
		Queues: map[string]river.QueueConfig{
			river.QueueDefault: {MaxWorkers: r.Callers},
		},
	})
}

// drainRiverWith measures how long it takes until r.Tasks jobs are completed in the database.
func drainRiverWith(ctx context.Context, r *run, config river.Config) error {
	pool, err := r.pool(ctx, riverConnections)
	if err != nil {
		return err
	}
	client, err := newRiverWorker(pool, config, noWork)
	if err != nil {
		return err
	}
	events, unsubscribe := subscribeRiver(client, r.Tasks)
	defer unsubscribe()
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		if err := client.Start(ctx); err != nil {
			return 0, err
		}
		for range r.Tasks {
			if err := awaitRiver(ctx, events); err != nil {
				return 0, err
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

// riverConnections is the size of the pool of a client that works.
const riverConnections = 20

// noWork does nothing, successfully.
func noWork(context.Context, *river.Job[riverArgs]) error { return nil }

// newRiverInserter returns a client that only inserts.
func newRiverInserter(
	pool *pgxpool.Pool, config river.Config,
) (*river.Client[pgx.Tx], error) {
	config.Logger = slog.New(slog.DiscardHandler)
	return river.NewClient(riverpgxv5.New(pool), &config)
}

// newRiverWorker returns a client that works on jobs of every kind. By default without a time-out
// for each job, which saves River a timer.
func newRiverWorker(
	pool *pgxpool.Pool, config river.Config,
	work func(ctx context.Context, job *river.Job[riverArgs]) error,
) (*river.Client[pgx.Tx], error) {
	config.Workers = river.NewWorkers()
	for _, kind := range append(mixedActions(), riverKind) {
		river.AddWorkerArgs(config.Workers, riverArgs{kind: kind}, river.WorkFunc(work))
	}
	config.Logger = slog.New(slog.DiscardHandler)
	config.JobTimeout = cmp.Or(config.JobTimeout, -1)
	return river.NewClient(riverpgxv5.New(pool), &config)
}

// subscribeRiver tells of jobs when they are completed in the database, which is how River's own
// benchmark counts them.
func subscribeRiver(
	client *river.Client[pgx.Tx], jobs int,
) (events <-chan *river.Event, unsubscribe func()) {
	return client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: jobs + 10_000, // so that none is dropped
		Kinds: []river.EventKind{
			river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobCancelled,
		},
	})
}

// awaitRiver waits until another job is completed.
func awaitRiver(ctx context.Context, events <-chan *river.Event) error {
	select {
	case event := <-events:
		if event.Kind != river.EventKindJobCompleted {
			return fmt.Errorf("job %d: %s", event.Job.ID, event.Kind)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
