package main

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	//go:embed sql/raw_keyed_create.sql
	rawKeyedCreateSQL string
	//go:embed sql/raw_keyed_spans.sql
	rawKeyedSpansSQL string
	//go:embed sql/raw_keyed_singly.sql
	rawKeyedSinglySQL string
	//go:embed sql/raw_analyze.sql
	rawAnalyzeSQL string
	//go:embed sql/raw_take_span.sql
	rawTakeSpanSQL string
	//go:embed sql/raw_take_turns.sql
	rawTakeTurnsSQL string
	//go:embed sql/raw_lock_turns.sql
	rawLockTurnsSQL string
	//go:embed sql/raw_read_jobs.sql
	rawReadJobsSQL string
	//go:embed sql/raw_finish.sql
	rawFinishSQL string
	//go:embed sql/raw_drop_held.sql
	rawDropHeldSQL string
	//go:embed sql/raw_unfinished.sql
	rawUnfinishedSQL string
)

// Variants of W15 in raw SQL: a queue with leases that writes the least that it can where tasks lie
// in spans, where a row for each of their keys says who holds it, and where keys take turns, so
// that each task has rows of its own. What Stint loses beyond the quotients of these is its own.
const (
	rawSpans = "spans"
	rawHeld  = "a row of each key"
	rawTurns = "turns"

	rawPerSpan = 1000
)

// rawLimitEntries are those of W15 in raw SQL.
func rawLimitEntries() []entry {
	var entries []entry
	for _, d := range []rawKeyedDrain{
		{keyLimitWorkload, rawSpans, ownKey},
		{keyLimitWorkload, rawHeld, ownKey},
		{fairWorkload, rawSpans, skewedKey},
		{fairWorkload, rawTurns, skewedKey},
	} {
		entries = append(entries, entry{
			workload: d.workload, variant: d.variant, fill: d.fill, measure: d.measure,
		})
	}
	return entries
}

// A rawKeyedDrain is a variant of W15 in raw SQL.
type rawKeyedDrain struct {
	workload, variant string
	key               func(n int) string // of the task with a number
}

func (d rawKeyedDrain) fill(ctx context.Context, r *run) error {
	pool, err := r.pool(ctx, inserters)
	if err != nil {
		return err
	}
	text := newBodies(r.BodyBytes)
	err = inBatches(ctx, inserters, r.Backlog, r.insertBatch(),
		func(ctx context.Context, from, to int) error {
			columns := []string{"key", "id", "limit_key", "body"}
			_, err := pool.CopyFrom(ctx, pgx.Identifier{"raw_job"}, columns,
				pgx.CopyFromSlice(to-from, func(i int) ([]any, error) {
					n := from + i
					return []any{int64(n), taskID(n), d.key(n), text.of(n)}, nil
				}))
			return err
		})
	if err == nil && d.variant != rawTurns {
		_, err = pool.Exec(ctx, rawKeyedSpansSQL, rawPerSpan)
	}
	if err == nil {
		_, err = pool.Exec(ctx, rawAnalyzeSQL)
	}
	return err
}

// measure drains as Stint's verbs do: many tasks in a call, and those returned in another one. That
// tasks get into the queues of their keys, and that keys are forgotten, is a part of it, as there.
func (d rawKeyedDrain) measure(ctx context.Context, r *run) error {
	pool, err := r.pool(ctx, drainers)
	if err != nil {
		return err
	}
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		if d.variant == rawTurns {
			if _, err := pool.Exec(ctx, rawKeyedSinglySQL); err != nil {
				return 0, err
			}
		}
		taken, err := d.drainAll(ctx, r, pool)
		if err == nil && d.variant == rawHeld {
			_, err = pool.Exec(ctx, rawDropHeldSQL)
		}
		return taken, err
	})
	if err != nil {
		return err
	}
	left, err := r.count(ctx, rawUnfinishedSQL)
	if err == nil && left != r.Backlog-r.report.Tasks {
		err = fmt.Errorf("%d of %d tasks are unfinished, %d were taken", left, r.Backlog,
			r.report.Tasks)
	}
	return err
}

func (d rawKeyedDrain) drainAll(ctx context.Context, r *run, pool *pgxpool.Pool) (int, error) {
	var claims, taken atomic.Int64
	err := inParallel(ctx, drainers, func(ctx context.Context, _ int) error {
		for taken.Load() < int64(r.Tasks) {
			n, err := d.drain(ctx, pool, claims.Add(1), r.drainBatch())
			if err != nil || n == 0 { // the others have the rest
				return err
			}
			taken.Add(int64(n))
		}
		return nil
	})
	return int(taken.Load()), err
}

// A rawJob is a task.
type rawJob struct {
	Key  int64
	ID   string
	Body []byte
}

// drain takes some tasks and finishes them. In turns it reads them behind the commit, for which
// others wait.
func (d rawKeyedDrain) drain(
	ctx context.Context, pool *pgxpool.Pool, claim int64, batch int,
) (tasks int, err error) {
	var rows pgx.Rows
	if d.variant == rawTurns {
		keys, err := takeRawTurns(ctx, pool, claim, batch)
		if err != nil || len(keys) == 0 {
			return 0, err
		}
		rows, err = pool.Query(ctx, rawReadJobsSQL, keys)
		if err != nil {
			return 0, err
		}
	} else {
		rows, err = pool.Query(ctx, rawTakeSpanSQL, claim, d.variant == rawHeld)
		if err != nil {
			return 0, err
		}
	}
	jobs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[rawJob])
	if err != nil || len(jobs) == 0 {
		return 0, err
	}
	keys := make([]int64, len(jobs))
	for i, job := range jobs {
		keys[i] = job.Key
	}
	if d.variant != rawTurns {
		keys = []int64{slices.Min(keys)} // where the span begins
	}
	_, err = pool.Exec(ctx, rawFinishSQL, claim, keys)
	return len(jobs), err
}

// takeRawTurns leases tasks by turns, and returns their keys.
func takeRawTurns(
	ctx context.Context, pool *pgxpool.Pool, claim int64, batch int,
) (keys []int64, err error) {
	take := &pgx.Batch{}
	take.Queue(rawLockTurnsSQL)
	take.Queue(rawTakeTurnsSQL, claim, batch).Query(func(rows pgx.Rows) (err error) {
		keys, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err
	})
	err = pool.SendBatch(ctx, take).Close()
	return keys, err
}
