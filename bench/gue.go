package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/vgarvardt/gue/v5"
	"github.com/vgarvardt/gue/v5/adapter/pgxv5"
)

var (
	//go:embed sql/gue_create.sql
	gueCreateSQL string
	//go:embed sql/gue_left.sql
	gueLeftSQL string
)

// gueContender is gue in its fastest configuration: strategy RunAt, whose order has an index, in
// contrast to that of the default, and 16 workers, since more are slower.
//
// What gue gives is less than a lease: a job under way is an open transaction with a locked row. It
// takes a connection for as long as the job lasts, and keeps vacuum from cleaning up. In exchange,
// taking a job writes nothing that has to be durable. A completed job is deleted.
//
// W7 is missing since gue has no dependencies, and W9 since the strategy that heeds priorities
// sorts the whole backlog for each job.
func gueContender() contender {
	return contender{
		name:   "gue",
		title:  "gue 5.9",
		create: createGue,
		entries: []entry{
			{workload: "W1", measure: insertGue},
			{workload: "W2", fill: fillGue, measure: drainGue, atMost: 50_000, notQuick: true},
			{workload: "W3-insert", measure: insertGueSingly},
			{workload: "W3-own-16", fill: fillGue, measure: ownGueSingly, notQuick: true},
			{
				workload: "W3-own-200", variant: gueFewer, fill: fillGue,
				measure: ownGueSingly, notQuick: true,
			},
			{
				workload: "W3-own-200", variant: "200 connections", fill: fillGue,
				measure: ownGueSingly, notQuick: true,
			},
			{workload: "W4", variant: gueSwift, measure: hearGue, notQuick: true},
			{
				workload: "W4", variant: "default", measure: hearGue,
				notQuick: true,
			},
			{workload: "W5-100k", fill: fillGue, measure: drainGue},
			{workload: "W5-2M", fill: fillGue, measure: drainGue},
			{workload: "W5-10M", fill: fillGue, measure: drainGue},
			{workload: "W6", measure: streamGueUnderSnapshot},
			{workload: "W8-insert", measure: insertGue},
			{workload: "W8-drain", fill: fillGue, measure: drainGue},
			{workload: "W10", measure: streamGue},
		},
	}
}

// Variants of gue.
const (
	gueFewer = "16 connections"
	gueSwift = "polls each 5 ms"
)

const (
	// gueName is the only queue, and the only type of its jobs.
	gueName = "bench"

	// gueWorkers is how many workers drain fastest.
	gueWorkers = 16

	// gueBatch is the number of jobs to insert at a time that is fastest. A statement may not have
	// more than 65,535 parameters, which are 8,191 jobs.
	gueBatch = 1000

	guePoll        = 5 * time.Millisecond
	gueDefaultPoll = 5 * time.Second
)

func createGue(ctx context.Context, r *run) error {
	_, err := r.observer.Exec(ctx, gueCreateSQL)
	return err
}

// newGue returns a client with a pool of so many connections.
func newGue(ctx context.Context, r *run, connections int) (*gue.Client, error) {
	pool, err := r.pool(ctx, connections)
	if err != nil {
		return nil, err
	}
	return gue.NewClient(pgxv5.NewConnPool(pool))
}

// gueJobs are the jobs with the numbers from from to to.
func gueJobs(from, to, bodyBytes int) []*gue.Job {
	text := newBodies(bodyBytes)
	jobs := make([]*gue.Job, to-from)
	for i := range jobs {
		jobs[i] = gueJob(text.of(from + i))
	}
	return jobs
}

func gueJob(text []byte) *gue.Job {
	return &gue.Job{Queue: gueName, Type: gueName, Args: text}
}

func insertGueJobs(ctx context.Context, r *run, client *gue.Client, n int) error {
	return inBatches(ctx, inserters, n, gueBatch, func(ctx context.Context, from, to int) error {
		return client.EnqueueBatch(ctx, gueJobs(from, to, r.BodyBytes))
	})
}

func fillGue(ctx context.Context, r *run) error {
	client, err := newGue(ctx, r, inserters)
	if err != nil {
		return err
	}
	return insertGueJobs(ctx, r, client, r.Backlog)
}

func insertGue(ctx context.Context, r *run) error {
	client, err := newGue(ctx, r, inserters)
	if err != nil {
		return err
	}
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		return r.Tasks, insertGueJobs(ctx, r, client, r.Tasks)
	})
	return errors.Join(err, checkGue(ctx, r, r.Tasks))
}

func insertGueSingly(ctx context.Context, r *run) error {
	client, err := newGue(ctx, r, r.Callers)
	if err != nil {
		return err
	}
	text := newBodies(r.BodyBytes)
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		err := inBatches(ctx, r.Callers, r.Tasks, 1,
			func(ctx context.Context, from, _ int) error {
				return client.Enqueue(ctx, gueJob(text.of(from)))
			})
		return r.Tasks, err
	})
	return errors.Join(err, checkGue(ctx, r, r.Tasks))
}

// ownGueSingly takes a job and deletes it, over and over. A caller keeps a connection meanwhile, so
// with fewer connections than callers the others wait.
func ownGueSingly(ctx context.Context, r *run) error {
	connections := r.Callers
	if r.Variant == gueFewer {
		connections = gueWorkers
	}
	client, err := newGue(ctx, r, connections)
	if err != nil {
		return err
	}
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		err := inBatches(ctx, r.Callers, r.Tasks, 1, func(ctx context.Context, _, _ int) error {
			job, err := client.LockNextScheduledJob(ctx, gueName)
			if err != nil {
				return err
			}
			if job == nil {
				return errors.New("gue found no job")
			}
			return errors.Join(job.Delete(ctx), job.Done(ctx))
		})
		return r.Tasks, err
	})
	return errors.Join(err, checkGue(ctx, r, r.Backlog-r.Tasks))
}

// drainGue lets workers work until they have begun r.Tasks jobs. It is done when they have stopped,
// since by then every job that began has been deleted.
func drainGue(ctx context.Context, r *run) error {
	client, err := newGue(ctx, r, gueWorkers)
	if err != nil {
		return err
	}
	before, err := r.count(ctx, gueLeftSQL)
	if err != nil {
		return err
	}
	live, stop := context.WithCancel(ctx)
	defer stop()
	var begun atomic.Int64
	err = r.measure(ctx, func(context.Context) (int, error) {
		err := workGue(live, client, guePoll, func(*gue.Job) {
			if begun.Add(1) == int64(r.Tasks) {
				stop()
			}
		})
		return int(begun.Load()), err
	})
	return errors.Join(err, checkGue(ctx, r, before-int(begun.Load())))
}

// workGue has workers perform jobs until live ends, and finish those that they have begun by then.
func workGue(
	live context.Context, client *gue.Client, poll time.Duration, work func(job *gue.Job),
) error {
	types := gue.WorkMap{gueName: func(_ context.Context, job *gue.Job) error {
		work(job)
		return nil
	}}
	workers, err := gue.NewWorkerPool(client, types, gueWorkers,
		gue.WithPoolQueue(gueName),
		gue.WithPoolPollStrategy(gue.RunAtPollStrategy),
		gue.WithPoolPollInterval(poll),
		gue.WithPoolWorkerContextFactory(context.WithoutCancel))
	if err != nil {
		return err
	}
	return workers.Run(live)
}

// hearGue measures the latency until a handler is called. Gue only polls.
func hearGue(ctx context.Context, r *run) error {
	poll := gueDefaultPoll
	if r.Variant == gueSwift {
		poll = guePoll
	}
	inserting, err := newGue(ctx, r, inserters)
	if err != nil {
		return err
	}
	working, err := newGue(ctx, r, gueWorkers)
	if err != nil {
		return err
	}
	start := func(ctx context.Context, begun func(body []byte)) (func() error, error) {
		live, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			ended <- workGue(live, working, poll, func(job *gue.Job) { begun(job.Args) })
		}()
		return func() error {
			cancel()
			return <-ended
		}, nil
	}
	err = r.latencies(ctx, start, func(ctx context.Context, body []byte) error {
		return inserting.Enqueue(ctx, gueJob(body))
	})
	return errors.Join(err, checkGue(ctx, r, 0))
}

func streamGueUnderSnapshot(ctx context.Context, r *run) error {
	return r.underOldSnapshot(ctx, func() error { return streamGue(ctx, r) })
}

func streamGue(ctx context.Context, r *run) error {
	inserting, err := newGue(ctx, r, sustainInserters)
	if err != nil {
		return err
	}
	draining, err := newGue(ctx, r, gueWorkers)
	if err != nil {
		return err
	}
	var inserted atomic.Int64
	err = r.sustain(ctx, steadyStream{
		insert: func(ctx context.Context, from, to int) error {
			inserted.Add(int64(to - from))
			return inserting.EnqueueBatch(ctx, gueJobs(from, to, r.BodyBytes))
		},
		drain: func(_, live context.Context, done func(tasks int)) error {
			return workGue(live, draining, guePoll, func(*gue.Job) { done(1) })
		},
	})
	return errors.Join(err, checkGue(ctx, r, int(inserted.Load())-r.report.Tasks))
}

// checkGue makes sure that so many jobs are left.
func checkGue(ctx context.Context, r *run, want int) error {
	left, err := r.count(ctx, gueLeftSQL)
	if err == nil && left != want {
		err = fmt.Errorf("gue has %d jobs left instead of %d", left, want)
	}
	return err
}
