package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	//go:embed sql/raw_create.sql
	rawCreateSQL string
	//go:embed sql/raw_insert.sql
	rawInsertSQL string
	//go:embed sql/raw_drain.sql
	rawDrainSQL string
	//go:embed sql/raw_delete.sql
	rawDeleteSQL string
	//go:embed sql/raw_notify.sql
	rawNotifySQL string
	//go:embed sql/raw_notify_alone.sql
	rawNotifyAloneSQL string
	//go:embed sql/raw_left.sql
	rawLeftSQL string
)

// Variants of W21 in raw SQL: where the notification of a row is sent.
const (
	rawUnnotified     = "none"
	rawNotified       = "in each commit"
	rawNotifiedBehind = "behind each commit"
	rawNotifiedAlone  = "in one commit at a time"
)

// rawContender moves rows in and out of a table with one index, durably and in the fastest way,
// and keeps no rule at all: no order, no lease, no retry, no state. It is not a queue to use, but
// what the machine and PostgreSQL can do at best.
func rawContender() contender {
	return contender{
		name:  "raw",
		title: "raw SQL",
		create: func(ctx context.Context, r *run) error {
			for _, statements := range []string{rawCreateSQL, rawKeyedCreateSQL} {
				if _, err := r.observer.Exec(ctx, statements); err != nil {
					return err
				}
			}
			return nil
		},
		entries: append([]entry{
			{workload: "W1", measure: insertRaw},
			{workload: "W2", fill: fillRaw, measure: drainRaw},
			{workload: "W3-insert", measure: insertRawSingly},
			{workload: "W21", variant: rawUnnotified, measure: insertRawSingly},
			{workload: "W21", variant: rawNotified, measure: insertRawNotified},
			{workload: "W21", variant: rawNotifiedBehind, measure: insertRawNotified},
			{workload: "W21", variant: rawNotifiedAlone, measure: insertRawNotified},
			{workload: "W3-own-16", fill: fillRaw, measure: drainRawSingly},
			{workload: "W3-own-200", fill: fillRaw, measure: drainRawSingly, notQuick: true},
			{workload: "W4", measure: hearRaw},
			{workload: "W8-insert", measure: insertRaw},
			{workload: "W8-drain", fill: fillRaw, measure: drainRaw},
		}, rawLimitEntries()...),
	}
}

// copyRaw copies n rows into the table, as many at a time as the others insert.
func copyRaw(ctx context.Context, r *run, pool *pgxpool.Pool, n int) error {
	text := newBodies(r.BodyBytes)
	return inBatches(ctx, inserters, n, r.insertBatch(),
		func(ctx context.Context, from, to int) error {
			_, err := pool.CopyFrom(ctx, pgx.Identifier{"raw_task"}, []string{"id", "body"},
				pgx.CopyFromSlice(to-from, func(i int) ([]any, error) {
					return []any{taskID(from + i), text.of(from + i)}, nil
				}))
			return err
		})
}

func fillRaw(ctx context.Context, r *run) error {
	pool, err := r.pool(ctx, inserters)
	if err != nil {
		return err
	}
	return copyRaw(ctx, r, pool, r.Backlog)
}

func insertRaw(ctx context.Context, r *run) error {
	pool, err := r.pool(ctx, inserters)
	if err != nil {
		return err
	}
	return r.measure(ctx, func(ctx context.Context) (int, error) {
		return r.Tasks, copyRaw(ctx, r, pool, r.Tasks)
	})
}

func insertRawSingly(ctx context.Context, r *run) error {
	pool, err := r.pool(ctx, r.Callers)
	if err != nil {
		return err
	}
	text := newBodies(r.BodyBytes)
	return r.measure(ctx, func(ctx context.Context) (int, error) {
		err := inBatches(ctx, r.Callers, r.Tasks, 1,
			func(ctx context.Context, from, _ int) error {
				_, err := pool.Exec(ctx, rawInsertSQL, taskID(from), text.of(from))
				return err
			})
		return r.Tasks, err
	})
}

// notifyWorkloads is W21, which only raw SQL enters: what notifications cost.
func notifyWorkloads() []workload {
	return []workload{{
		id: "W21", title: "insert one, 16 callers, and notify",
		tasks: 50_000, quick: 5_000, callers: 16,
	}}
}

// insertRawNotified is insertRawSingly with a notification of each row, which somebody hears: in
// its commit, in a transaction of its own behind that, or in its commit unless another commit
// notifies at that moment.
func insertRawNotified(ctx context.Context, r *run) error {
	pool, err := r.pool(ctx, r.Callers)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "LISTEN raw"); err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	live, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			_, err = conn.WaitForNotification(live)
		}
		ended <- untilEnd(live, err)
	}()
	text := newBodies(r.BodyBytes)
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		return r.Tasks, inBatches(ctx, r.Callers, r.Tasks, 1,
			func(ctx context.Context, from, _ int) error {
				batch, id := &pgx.Batch{}, taskID(from)
				if r.Variant == rawNotifiedBehind {
					batch.Queue("BEGIN")
				}
				batch.Queue(rawInsertSQL, id, text.of(from))
				switch r.Variant {
				case rawNotifiedBehind:
					batch.Queue("COMMIT")
					batch.Queue(rawNotifySQL, id)
				case rawNotifiedAlone:
					batch.Queue(rawNotifyAloneSQL, id)
				default:
					batch.Queue(rawNotifySQL, id)
				}
				return pool.SendBatch(ctx, batch).Close()
			})
	})
	cancel()
	return errors.Join(err, <-ended, conn.Close(context.WithoutCancel(ctx)))
}

func drainRaw(ctx context.Context, r *run) error {
	return drainRawWith(ctx, r, drainers, r.drainBatch())
}

func drainRawSingly(ctx context.Context, r *run) error {
	return drainRawWith(ctx, r, r.Callers, 1)
}

func drainRawWith(ctx context.Context, r *run, goroutines, batch int) error {
	pool, err := r.pool(ctx, goroutines)
	if err != nil {
		return err
	}
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		var taken atomic.Int64
		err := inParallel(ctx, goroutines, func(ctx context.Context, _ int) error {
			place := "(0,0)"
			for taken.Load() < int64(r.Tasks) {
				rows, err := takeRaw(ctx, pool, place, batch)
				if err != nil {
					return err
				}
				if len(rows) == 0 {
					return nil // the others have the rest
				}
				taken.Add(int64(len(rows)))
				place = rows[len(rows)-1].Place
			}
			return nil
		})
		return int(taken.Load()), err
	})
	if err != nil {
		return err
	}
	left, err := r.count(ctx, rawLeftSQL)
	if err == nil && (r.report.Tasks < r.Tasks || r.Backlog-r.report.Tasks != left) {
		err = fmt.Errorf("%d of %d rows were taken, and %d are left",
			r.report.Tasks, r.Backlog, left)
	}
	return err
}

// A rawRow is a row with its place in the table.
type rawRow struct {
	Place string
	ID    string
	Body  []byte
}

// takeRaw takes some rows.
func takeRaw(
	ctx context.Context, pool *pgxpool.Pool, place string, batch int,
) ([]rawRow, error) {
	rows, err := pool.Query(ctx, rawDrainSQL, place, batch)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[rawRow])
}

// hearRaw measures the latency of a row that is inserted with its notification, and deleted by who
// hears it.
func hearRaw(ctx context.Context, r *run) error {
	inserting, err := r.pool(ctx, 4)
	if err != nil {
		return err
	}
	deleting, err := r.pool(ctx, 4)
	if err != nil {
		return err
	}
	start := func(ctx context.Context, begun func(body []byte)) (func() error, error) {
		conn, err := pgx.ConnectConfig(ctx, deleting.Config().ConnConfig)
		if err != nil {
			return nil, err
		}
		if _, err := conn.Exec(ctx, "LISTEN raw"); err != nil {
			return nil, errors.Join(err, conn.Close(ctx))
		}
		live, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- hearRawRows(live, conn, deleting, begun) }()
		return func() error {
			cancel()
			return errors.Join(<-ended, conn.Close(ctx))
		}, nil
	}
	return r.latencies(ctx, start, func(ctx context.Context, body []byte) error {
		batch := &pgx.Batch{}
		batch.Queue(rawInsertSQL, string(body), body)
		batch.Queue(rawNotifySQL, string(body))
		return inserting.SendBatch(ctx, batch).Close()
	})
}

func hearRawRows(
	live context.Context, conn *pgx.Conn, pool *pgxpool.Pool, begun func(body []byte),
) error {
	for {
		heard, err := conn.WaitForNotification(live)
		if err != nil {
			return untilEnd(live, err)
		}
		var body []byte
		if err := pool.QueryRow(live, rawDeleteSQL, heard.Payload).Scan(&body); err != nil {
			return err
		}
		begun(body)
	}
}
