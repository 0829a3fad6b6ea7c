package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
)

var (
	//go:embed sql/finished_size.sql
	finishedSizeSQL string
	//go:embed sql/stint_size.sql
	stintSizeSQL string
	//go:embed sql/vacuum_finished.sql
	vacuumFinishedSQL string
	//go:embed sql/bare_tasks.sql
	bareTasksSQL string
	//go:embed sql/index_tasks.sql
	indexTasksSQL string
	//go:embed sql/fill_finished.sql
	fillFinishedSQL string
	//go:embed sql/old_ids.sql
	oldIDsSQL string
)

// Workloads of W14 that keep many finished tasks.
const (
	finishedWorkload = "W14-finished" // completed a thousand a call, with nothing to say of each
	resultsWorkload  = "W14-results"  // each with a result of its own
	checkWorkload    = "W14-check"
)

// finishedWorkloads are those of W14 about finished tasks. What is measured is to prune.
func finishedWorkloads() []workload {
	const backlog = 1_000_000
	kept := []figure{
		rate,
		{figureInserted, unitRate},
		{figureInsertedCPU, unitMicro},
		{figureCompleted, unitRate},
		{figureCompletedCPU, unitMicro},
		{figureBytes, unitBytes},
		{figureFinishedBytes, unitBytes},
		{figureSpan, unitTasks},
		{figureGet, unitMilli},
		{figureList, unitMilli},
		{figurePrefix, unitMilli},
		{figureStats, unitMilli},
		{figureVacuum, unitSecond},
	}
	return []workload{
		{
			id: finishedWorkload, title: "prune finished tasks", tasks: backlog,
			once: true, figures: kept,
		},
		{
			id: resultsWorkload, title: "prune finished tasks with results", tasks: backlog,
			once: true, figures: kept,
		},
		{id: checkWorkload, title: "check", tasks: backlog, once: true},
	}
}

// Figures of W14 about finished tasks.
const (
	figureInserted      = "insert"
	figureInsertedCPU   = "insert, server CPU"
	figureCompleted     = "own and complete"
	figureCompletedCPU  = "own and complete, server CPU"
	figureBytes         = "size a task"
	figureFinishedBytes = "size a task in finished"
	figureSpan          = "tasks a row of finished"
	figureGet           = "GetTasks of 1 p50"
	figureList          = "ListTasks of 100 p50"
	figurePrefix        = "ListTasks of a prefix p50"
	figureStats         = "Stats p50"
	figureVacuum        = "VACUUM after it"
)

const (
	unitTasks = "tasks"
	unitMicro = "µs"
)

// finishedEntries are those of W14 about finished tasks.
func finishedEntries() []entry {
	return []entry{
		{workload: finishedWorkload, fill: fillFinished(""), measure: pruneFinished},
		{workload: resultsWorkload, fill: fillFinished("done"), measure: pruneFinished},
		{workload: checkWorkload, fill: fillFinished(""), measure: checkFinished},
	}
}

// byVerbsMost is how many of the finished tasks the verbs make. SQL writes those beyond it, in a
// fraction of the time.
const byVerbsMost = 1_000_000

// fillFinished inserts tasks and completes them. A status keeps each task in a row of its own.
func fillFinished(status string) func(ctx context.Context, r *run) error {
	return func(ctx context.Context, r *run) error {
		written, err := r.writeFinished(ctx, r.Backlog-byVerbsMost)
		if err != nil {
			return err
		}
		store, err := newStint(ctx, r, drainers)
		if err != nil {
			return err
		}
		from, to := written, max(written, r.Backlog)
		err = r.tellRate(ctx, figureInserted, figureInsertedCPU, to-from, func() error {
			return insertStintRange(ctx, r, store, from, to, nil)
		})
		if err != nil {
			return err
		}
		err = r.tellRate(ctx, figureCompleted, figureCompletedCPU, to-from, func() error {
			return inBatches(ctx, drainers, to-from, r.drainBatch(),
				func(ctx context.Context, first, last int) error {
					return completeSome(ctx, store, last-first, status)
				})
		})
		return errors.Join(err, store.Close(ctx))
	}
}

// writeFinished writes about n finished tasks by SQL, and tells how many.
func (r *run) writeFinished(ctx context.Context, n int) (int, error) {
	const block, blocks = 1000, 100 // of tasks; written at a time
	n = max(0, n) / block / blocks
	if n == 0 {
		return 0, nil
	}
	pool, err := r.pool(ctx, inserters)
	if err != nil {
		return 0, err
	}
	if _, err := pool.Exec(ctx, bareTasksSQL); err != nil {
		return 0, err
	}
	err = inBatches(ctx, inserters, n, 1, func(ctx context.Context, _, _ int) error {
		_, err := pool.Exec(ctx, fillFinishedSQL, blocks, r.BodyBytes)
		return err
	})
	if err != nil {
		return 0, err
	}
	_, err = pool.Exec(ctx, indexTasksSQL)
	return n * block * blocks, err
}

// tellRate tells how many tasks a second work moves, and the microseconds of the server's processor
// for each.
func (r *run) tellRate(
	ctx context.Context, figure, figureCPU string, tasks int, work func() error,
) error {
	before, err := r.readMeter(ctx)
	if err != nil {
		return err
	}
	begun := now()
	if err := work(); err != nil {
		return err
	}
	r.set(figure, float64(tasks)/time.Since(begun).Seconds())
	after, err := r.readMeter(ctx)
	r.set(figureCPU, 1e6*(after.server-before.server).Seconds()/float64(tasks))
	return err
}

// completeSome completes n tasks, which others may be taking for a moment. With a status, they
// have a result of 100 bytes, too.
func completeSome(ctx context.Context, store *stint.Store, n int, status string) error {
	var result func(i int) []byte
	if status != "" {
		result = newBodies(smallBody).of
	}
	for n > 0 {
		owned, err := store.WaitToOwnTasks(ctx, "worker", n, []string{stintAction}, time.Hour)
		if err != nil {
			return err
		}
		if err := returnAllWith(ctx, store, owned, status, result); err != nil {
			return err
		}
		n -= len(owned)
	}
	return nil
}

// pruneFinished looks at the finished tasks, and then prunes the oldest of them.
func pruneFinished(ctx context.Context, r *run) error {
	pool, err := r.pool(ctx, drainers)
	if err != nil {
		return err
	}
	store, err := stint.New(pool, stint.Options{
		Maintenance: stint.MaintainNever, Retention: stint.Retention{Completed: time.Microsecond},
	})
	if err != nil {
		return err
	}
	if err := errors.Join(r.sizeFinished(ctx), r.timeLooks(ctx, store)); err != nil {
		return err
	}
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		const most = 20 * time.Second
		live, stop := context.WithTimeout(ctx, most)
		defer stop()
		pruned, err := store.Prune(live)
		return int(pruned), untilEnd(live, err)
	})
	if err != nil {
		return err
	}
	begun := now()
	_, err = r.observer.Exec(ctx, vacuumFinishedSQL)
	r.set(figureVacuum, time.Since(begun).Seconds())
	return errors.Join(err, store.Close(ctx))
}

// sizeFinished tells what finished tasks take on the disk. All tasks must be finished.
func (r *run) sizeFinished(ctx context.Context) error {
	var tasks, rows, bytes, all int64
	err := errors.Join(
		r.observer.QueryRow(ctx, finishedSizeSQL).Scan(&tasks, &rows, &bytes),
		r.observer.QueryRow(ctx, stintSizeSQL).Scan(&all))
	if err == nil && tasks != int64(r.Backlog) {
		err = fmt.Errorf("%d tasks of %d are finished", tasks, r.Backlog)
	}
	r.set(figureBytes, float64(all)/float64(tasks))
	r.set(figureFinishedBytes, float64(bytes)/float64(tasks))
	r.set(figureSpan, float64(tasks)/float64(rows))
	return err
}

// timeLooks times the verbs that look at finished tasks, at old ones and new ones in turn.
func (r *run) timeLooks(ctx context.Context, store *stint.Store) error {
	const often = 100
	ids, err := r.oldIDs(ctx, often)
	if err != nil {
		return err
	}
	return errors.Join(
		r.timeCalls(figureGet, often, func(i int) error {
			_, err := store.GetTasks(ctx, ids[i:i+1])
			return err
		}),
		r.timeCalls(figureList, often, func(int) error {
			_, err := store.ListTasks(ctx, stint.Filter{
				States: []stint.State{stint.StateCompleted},
			})
			return err
		}),
		r.timeCalls(figurePrefix, often, func(i int) error {
			const half = 13 // of the digits
			_, err := store.ListTasks(ctx, stint.Filter{IDPrefix: string(ids[i])[:half]})
			return err
		}),
		r.timeCalls(figureStats, often, func(int) error {
			_, err := store.Stats(ctx)
			return err
		}),
	)
}

// oldIDs are the IDs of n tasks of all ages.
func (r *run) oldIDs(ctx context.Context, n int) ([]stint.TaskID, error) {
	rows, err := r.observer.Query(ctx, oldIDsSQL, n)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[stint.TaskID])
}

// timeCalls tells the median of the milliseconds that calls take.
func (r *run) timeCalls(figure string, often int, call func(i int) error) error {
	took := make([]float64, often)
	for i := range took {
		begun := now()
		if err := call(i); err != nil {
			return fmt.Errorf("%s: %w", figure, err)
		}
		took[i] = millis(time.Since(begun))
	}
	r.set(figure, percentile(took, 0.50))
	return nil
}

// checkFinished measures how long Check takes, which must find nothing.
func checkFinished(ctx context.Context, r *run) error {
	store, err := newStint(ctx, r, 1)
	if err != nil {
		return err
	}
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		found, err := store.Check(ctx)
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("%d inconsistencies, the first: %s", len(found), found[0])
		}
		return r.Backlog, err
	})
	return errors.Join(err, store.Close(ctx))
}
