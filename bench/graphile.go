package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	//go:embed sql/graphile_add_job.sql
	graphileAddJobSQL string
	//go:embed sql/graphile_add_jobs.sql
	graphileAddJobsSQL string
	//go:embed sql/graphile_analyze.sql
	graphileAnalyzeSQL string
	//go:embed sql/graphile_left.sql
	graphileLeftSQL string
)

// graphileContender is Graphile Worker. Jobs are added from here, with the functions in SQL that it
// has for the purpose, and performed by one process of Node.js, whose round trips are not counted.
// A completed job is deleted.
//
// Adding jobs notifies, and commits that notify wait for each other, which shows in W3-insert. In
// W2 the statistics of the table decide: see graphile_analyze.sql. W7 is missing, since jobs do not
// depend on others. A job may have the name of a queue, which gives away one job at a time: in W15
// each job has another one.
func graphileContender() contender {
	return contender{
		name:    "graphile",
		title:   "Graphile Worker 0.18",
		prepare: installGraphile,
		create:  createGraphile,
		entries: []entry{
			{workload: "W1", measure: addGraphile},
			{workload: "W2", fill: fillGraphile, measure: drainGraphile},
			{workload: "W3-insert", measure: addGraphileSingly, atMost: 20_000, notQuick: true},
			{
				workload: "W3-own-16", fill: fillGraphile, measure: drainGraphileSingly,
				atMost: 20_000, notQuick: true,
			},
			{
				workload: "W3-own-200", fill: fillGraphile, measure: drainGraphileSingly,
				atMost: 20_000, notQuick: true,
			},
			{workload: "W4", measure: hearGraphile, notQuick: true},
			{workload: "W5-100k", fill: fillGraphile, measure: drainGraphile},
			{workload: "W5-2M", fill: fillGraphile, measure: drainGraphile},
			{workload: "W5-10M", fill: fillGraphile, measure: drainGraphile},
			{workload: "W6", measure: streamGraphileUnderSnapshot},
			{workload: "W8-insert", measure: addGraphile},
			{workload: "W8-drain", fill: fillGraphile, measure: drainGraphile},
			{workload: "W9", fill: fillGraphile, measure: drainGraphile},
			{workload: "W10", measure: streamGraphile},
			{
				workload: keyLimitWorkload, variant: noKeys, fill: fillGraphile,
				measure: drainGraphile,
			},
			{
				workload: keyLimitWorkload, variant: onePerKey, fill: fillGraphile,
				measure: drainGraphile,
			},
		},
	}
}

const (
	// graphileTask is the name of the task where there is only one.
	graphileTask = "bench"

	// graphileInserters is how many goroutines add many jobs fastest.
	graphileInserters = 2
)

// graphileTasks are the names of the tasks of a workload.
func graphileTasks(r *run) []string {
	if r.Workload == "W9" {
		return mixedActions()
	}
	return []string{graphileTask}
}

// graphilePayload is the payload of a job, in JSON, as it has to be.
func graphilePayload(body []byte) (string, error) {
	payload, err := json.Marshal(map[string]string{"body": string(body)})
	return string(payload), err
}

func createGraphile(ctx context.Context, r *run) error {
	return migrateGraphile(ctx, r.URL)
}

// addGraphileBatch adds the jobs with the numbers from from to to.
func addGraphileBatch(ctx context.Context, r *run, pool *pgxpool.Pool, from, to int) error {
	text := newBodies(r.BodyBytes)
	names, payloads := make([]string, to-from), make([]string, to-from)
	priorities, queues := make([]int16, to-from), make([]string, to-from)
	for i := range names {
		payload, err := graphilePayload(text.of(from + i))
		if err != nil {
			return err
		}
		names[i], payloads[i] = graphileTask, payload
		if r.Workload == "W9" {
			names[i] = mixedAction(from + i)
			priorities[i] = -mixedPriority(from + i) // the least is the most urgent
		}
		if r.Variant == onePerKey {
			queues[i] = ownKey(from + i)
		}
	}
	var added int
	err := pool.QueryRow(ctx, graphileAddJobsSQL, names, payloads, priorities, queues).Scan(&added)
	if err == nil && added != to-from {
		err = fmt.Errorf("%d of %d jobs were added", added, to-from)
	}
	return err
}

func addGraphileJobs(ctx context.Context, r *run, n int) error {
	pool, err := r.pool(ctx, graphileInserters)
	if err != nil {
		return err
	}
	return inBatches(ctx, graphileInserters, n, r.insertBatch(),
		func(ctx context.Context, from, to int) error {
			return addGraphileBatch(ctx, r, pool, from, to)
		})
}

func fillGraphile(ctx context.Context, r *run) error {
	if err := addGraphileJobs(ctx, r, r.Backlog); err != nil {
		return err
	}
	_, err := r.observer.Exec(ctx, graphileAnalyzeSQL)
	return err
}

func addGraphile(ctx context.Context, r *run) error {
	err := r.measure(ctx, func(ctx context.Context) (int, error) {
		return r.Tasks, addGraphileJobs(ctx, r, r.Tasks)
	})
	return errors.Join(err, checkGraphile(ctx, r, r.Tasks))
}

// addGraphileJob adds one job.
func addGraphileJob(ctx context.Context, pool *pgxpool.Pool, body []byte) error {
	payload, err := graphilePayload(body)
	if err != nil {
		return err
	}
	_, err = pool.Exec(ctx, graphileAddJobSQL, payload)
	return err
}

func addGraphileSingly(ctx context.Context, r *run) error {
	pool, err := r.pool(ctx, r.Callers)
	if err != nil {
		return err
	}
	text := newBodies(r.BodyBytes)
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		err := inBatches(ctx, r.Callers, r.Tasks, 1,
			func(ctx context.Context, from, _ int) error {
				return addGraphileJob(ctx, pool, text.of(from))
			})
		return r.Tasks, err
	})
	return errors.Join(err, checkGraphile(ctx, r, r.Tasks))
}

func drainGraphile(ctx context.Context, r *run) error {
	return drainGraphileAs(ctx, r, graphileDrains)
}

func drainGraphileSingly(ctx context.Context, r *run) error {
	return drainGraphileAs(ctx, r, graphileDrainsSingly)
}

// drainGraphileAs measures how long a process, which has loaded its programs before, takes to
// connect, to perform r.Tasks jobs, and to stop, by when it has completed them.
func drainGraphileAs(ctx context.Context, r *run, does string) error {
	before, err := r.count(ctx, graphileLeftSQL)
	if err != nil {
		return err
	}
	process, err := startGraphile(ctx, r, does, r.Tasks)
	if err != nil {
		return err
	}
	performed := 0
	err = r.measure(ctx, func(context.Context) (int, error) {
		err := process.work(func(line string) error {
			tasks, err := strconv.Atoi(line)
			performed += tasks
			return err
		})
		return performed, err
	})
	process.report(r)
	if err == nil && performed < r.Tasks {
		err = fmt.Errorf("%d of %d jobs were performed", performed, r.Tasks)
	}
	return errors.Join(err, checkGraphile(ctx, r, before-performed))
}

// hearGraphile measures the latency until a job begins and a line about it has come through a pipe.
func hearGraphile(ctx context.Context, r *run) error {
	pool, err := r.pool(ctx, inserters)
	if err != nil {
		return err
	}
	start := func(ctx context.Context, begun func(body []byte)) (func() error, error) {
		process, err := startGraphile(ctx, r, graphileHears, 0)
		if err != nil {
			return nil, err
		}
		ended := make(chan error, 1)
		go func() {
			ended <- process.work(func(line string) error {
				begun([]byte(line))
				return nil
			})
		}()
		return func() error {
			process.stop()
			err := <-ended
			process.report(r)
			r.report.ClientCPU = 0 // the process had not ended when it was measured
			return err
		}, nil
	}
	err = r.latencies(ctx, start, func(ctx context.Context, body []byte) error {
		return addGraphileJob(ctx, pool, body)
	})
	return errors.Join(err, checkGraphile(ctx, r, 0))
}

func streamGraphileUnderSnapshot(ctx context.Context, r *run) error {
	return r.underOldSnapshot(ctx, func() error { return streamGraphile(ctx, r) })
}

func streamGraphile(ctx context.Context, r *run) error {
	pool, err := r.pool(ctx, sustainInserters)
	if err != nil {
		return err
	}
	process, err := startGraphile(ctx, r, graphileDrains, 0)
	if err != nil {
		return err
	}
	var inserted atomic.Int64
	err = r.sustain(ctx, steadyStream{
		insert: func(ctx context.Context, from, to int) error {
			inserted.Add(int64(to - from))
			return addGraphileBatch(ctx, r, pool, from, to)
		},
		drain: func(_, live context.Context, done func(tasks int)) error {
			context.AfterFunc(live, process.stop)
			return process.work(func(line string) error {
				tasks, err := strconv.Atoi(line)
				done(tasks)
				return err
			})
		},
	})
	process.report(r)
	return errors.Join(err, checkGraphile(ctx, r, int(inserted.Load())-r.report.Tasks))
}

// checkGraphile makes sure that so many jobs are left.
func checkGraphile(ctx context.Context, r *run, want int) error {
	left, err := r.count(ctx, graphileLeftSQL)
	if err == nil && left != want {
		err = fmt.Errorf("%d jobs of Graphile Worker are left instead of %d", left, want)
	}
	return err
}
