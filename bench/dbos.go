package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed sql/dbos_states.sql
var dbosStatesSQL string

// dbosContender is DBOS Transact: a task is a workflow on a queue that does nothing.
//
// It is made for workflows of steps, whose results it keeps, and not for many small tasks. It has
// no call that enqueues many, so they are enqueued in transactions of 1,000, which is twice as fast
// as one by one, and without the backlogs that would take minutes. It has no call to own a task, so
// W3-own is missing; no dependencies but those that a workflow waits for in its code, so W7 is; and
// for W9 it would need 40 functions, since it tells workflows apart by their code.
func dbosContender() contender {
	return contender{
		name:   "dbos",
		title:  "DBOS Transact 1.4",
		create: createDBOS,
		entries: []entry{
			{workload: "W1", measure: insertDBOS, atMost: 40_000, notQuick: true},
			{
				workload: "W2", variant: "kept", fill: fillDBOS, measure: drainDBOS,
				atMost: 20_000, notQuick: true,
			},
			{workload: "W3-insert", measure: insertDBOSSingly, atMost: 20_000, notQuick: true},
			{workload: "W4", variant: dbosSwift, measure: hearDBOS, notQuick: true},
			{
				workload: "W4", variant: "default", measure: hearDBOS,
				notQuick: true,
			},
			{workload: "W5-100k", fill: fillDBOS, measure: drainDBOS},
			{workload: "W8-insert", measure: insertDBOS},
			{workload: "W8-drain", fill: fillDBOS, measure: drainDBOS},
			{
				workload: actionLimitWorkload, variant: dbosWorkerLimit, fill: fillDBOS,
				measure: drainDBOS, atMost: 20_000,
			},
			{
				workload: actionLimitWorkload, variant: dbosGlobalLimit, fill: fillDBOS,
				measure: drainDBOS, atMost: 20_000,
			},
			{
				workload: keyLimitWorkload, variant: noKeys, fill: fillDBOS, measure: drainDBOS,
				atMost: dbosPartitions,
			},
			{
				workload: keyLimitWorkload, variant: onePerKey, fill: fillDBOS, measure: drainDBOS,
				atMost: dbosPartitions,
			},
			{workload: paceWorkload, fill: fillDBOSPace, measure: paceDBOS},
			{workload: stepsWorkload, fill: fillDBOS, measure: drainDBOS},
		},
	}
}

const (
	dbosQueue    = "bench"
	dbosWorkflow = "bench"

	// dbosConnections is as many as its own pool would have.
	dbosConnections = 20

	// dbosConcurrency is how many workflows a worker has under way. With fewer, it polls more often
	// than it needs to; without a limit, it begins the whole backlog at once.
	dbosConcurrency = 2000

	dbosPoll        = 5 * time.Millisecond
	dbosDefaultPoll = time.Second
	dbosPatience    = time.Minute

	dbosSwift = "polls each 5 ms" // a variant

	// dbosPartitions is how many partitions there are at most, with a limit of their own each.
	dbosPartitions = 2000
)

// A dbosHandle is a process of DBOS with a pool of its own.
type dbosHandle struct {
	dbos.Context
	pool *pgxpool.Pool
}

// newDBOS returns a process that runs nothing yet.
func newDBOS(ctx context.Context, r *run) (dbosHandle, error) {
	pool, err := r.pool(ctx, dbosConnections)
	if err != nil {
		return dbosHandle{}, err
	}
	process, err := dbos.NewContext(ctx, dbos.Config{
		AppName:            "bench",
		ApplicationVersion: "bench",
		SystemDBPool:       pool,
		Logger:             slog.New(slog.DiscardHandler),
	})
	return dbosHandle{process, pool}, err
}

func (h dbosHandle) close() error { return dbos.Shutdown(h.Context, dbosPatience) }

// enqueue enqueues a workflow.
func (h dbosHandle) enqueue(input string, options ...dbos.EnqueueOption) error {
	_, err := dbos.Enqueue[string](h.Context, dbosQueue, dbosWorkflow, input, options...)
	return err
}

// work has workflows performed. It makes the queue with which that is fastest, unless the options
// say otherwise.
func (h dbosHandle) work(
	poll time.Duration, perform func(input string), options ...dbos.QueueOption,
) error {
	return h.workSteps(poll, func(_ dbos.Context, input string) (string, error) {
		perform(input)
		return "", nil
	}, options...)
}

// workSteps is work for a workflow that may have steps.
func (h dbosHandle) workSteps(
	poll time.Duration, workflow dbos.Workflow[string, string], options ...dbos.QueueOption,
) error {
	dbos.RegisterWorkflow(h.Context, workflow, dbos.WithWorkflowName(dbosWorkflow))
	_, err := dbos.RegisterQueue(h.Context, dbosQueue, append([]dbos.QueueOption{
		dbos.WithWorkerConcurrency(dbosConcurrency), dbos.WithQueueBasePollingInterval(poll),
	}, options...)...)
	if err != nil {
		return err
	}
	return dbos.Launch(h.Context)
}

func createDBOS(ctx context.Context, r *run) error {
	h, err := newDBOS(ctx, r)
	if err != nil {
		return err
	}
	return h.close()
}

// insertDBOSTasks enqueues n workflows.
func insertDBOSTasks(ctx context.Context, r *run, h dbosHandle, n int) error {
	text := newBodies(r.BodyBytes)
	const batch = 1000
	return inBatches(ctx, inserters, n, batch, func(ctx context.Context, from, to int) error {
		tx, err := h.pool.Begin(ctx)
		if err != nil {
			return err
		}
		for number := from; number < to; number++ {
			options := []dbos.EnqueueOption{dbos.WithEnqueueTransaction(tx)}
			if r.Variant == onePerKey {
				options = append(options, dbos.WithEnqueueQueuePartitionKey(ownKey(number)))
			}
			err := h.enqueue(string(text.of(number)), options...)
			if err != nil {
				return errors.Join(err, tx.Rollback(ctx))
			}
		}
		return tx.Commit(ctx)
	})
}

func fillDBOS(ctx context.Context, r *run) error {
	h, err := newDBOS(ctx, r)
	if err != nil {
		return err
	}
	err = insertDBOSTasks(ctx, r, h, r.Backlog)
	return errors.Join(err, h.close())
}

func insertDBOS(ctx context.Context, r *run) error {
	return insertDBOSWith(ctx, r,
		func(ctx context.Context, h dbosHandle) error {
			return insertDBOSTasks(ctx, r, h, r.Tasks)
		})
}

func insertDBOSSingly(ctx context.Context, r *run) error {
	text := newBodies(r.BodyBytes)
	return insertDBOSWith(ctx, r,
		func(ctx context.Context, h dbosHandle) error {
			return inBatches(ctx, r.Callers, r.Tasks, 1,
				func(_ context.Context, from, _ int) error {
					return h.enqueue(string(text.of(from)))
				})
		})
}

// insertDBOSWith measures how long insert takes to enqueue r.Tasks workflows.
func insertDBOSWith(
	ctx context.Context, r *run,
	insert func(ctx context.Context, h dbosHandle) error,
) error {
	h, err := newDBOS(ctx, r)
	if err != nil {
		return err
	}
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		return r.Tasks, insert(ctx, h)
	})
	return errors.Join(err, h.close(), checkDBOS(ctx, r, dbos.WorkflowStatusEnqueued, r.Tasks))
}

// drainDBOS measures how long a process takes to perform all workflows. It is done when the process
// has written all results and shut down: on a busy machine the shutdown does not wait for the last.
func drainDBOS(ctx context.Context, r *run) error {
	h, err := newDBOS(ctx, r)
	if err != nil {
		return err
	}
	var performed atomic.Int64
	all := make(chan struct{})
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		err := h.workSteps(dbosPoll, func(ctx dbos.Context, _ string) (string, error) {
			if err := takeDBOSSteps(ctx, r); err != nil {
				return "", err
			}
			if performed.Add(1) == int64(r.Tasks) {
				close(all)
			}
			return "", nil
		}, dbosLimits(r)...)
		if err != nil {
			return 0, err
		}
		select {
		case <-all:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		return r.Tasks, errors.Join(awaitDBOS(ctx, r), h.close())
	})
	return errors.Join(err, checkDBOS(ctx, r, dbos.WorkflowStatusSuccess, r.Tasks))
}

// hearDBOS measures the latency until a workflow begins. DBOS polls its queues.
func hearDBOS(ctx context.Context, r *run) error {
	poll := dbosDefaultPoll
	if r.Variant == dbosSwift {
		poll = dbosPoll
	}
	inserting, err := newDBOS(ctx, r)
	if err != nil {
		return err
	}
	working, err := newDBOS(ctx, r)
	if err != nil {
		return err
	}
	start := func(_ context.Context, begun func(body []byte)) (func() error, error) {
		err := working.work(poll, func(input string) { begun([]byte(input)) })
		return working.close, err
	}
	err = r.latencies(ctx, start, func(_ context.Context, body []byte) error {
		return inserting.enqueue(string(body))
	})
	return errors.Join(err, inserting.close(),
		checkDBOS(ctx, r, dbos.WorkflowStatusSuccess, r.report.Tasks))
}

// awaitDBOS waits until all workflows have succeeded, for a while: checkDBOS says it if they have
// not.
func awaitDBOS(ctx context.Context, r *run) error {
	const patience, pause = 30 * time.Second, 5 * time.Millisecond
	for late := time.After(patience); ; {
		found, err := r.count(ctx, dbosStatesSQL, string(dbos.WorkflowStatusSuccess))
		if err != nil || found == r.Tasks {
			return err
		}
		select {
		case <-time.After(pause):
		case <-late:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// checkDBOS makes sure that so many workflows are in a state.
func checkDBOS(ctx context.Context, r *run, state dbos.WorkflowStatusType, want int) error {
	found, err := r.count(ctx, dbosStatesSQL, string(state))
	if err == nil && found != want {
		err = fmt.Errorf("DBOS has %d workflows that are %s instead of %d", found, state, want)
	}
	return err
}
