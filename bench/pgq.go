package main

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

var (
	//go:embed sql/pgq_create.sql
	pgqCreateSQL string
	//go:embed sql/pgq_insert.sql
	pgqInsertSQL string
	//go:embed sql/pgq_tick.sql
	pgqTickSQL string
	//go:embed sql/pgq_next.sql
	pgqNextSQL string
	//go:embed sql/pgq_events.sql
	pgqEventsSQL string
	//go:embed sql/pgq_finish.sql
	pgqFinishSQL string
	//go:embed sql/pgq_upkeep.sql
	pgqUpkeepSQL string
	//go:embed sql/pgq_switched.sql
	pgqSwitchedSQL string
	//go:embed sql/pgq_left.sql
	pgqLeftSQL string
)

const (
	pgqBeat   = 10 * time.Millisecond
	pgqUpkeep = 30 * time.Second
)

// pgqContender is PgQ, of which PgQue is a version without C: a log of events that one reader reads
// in batches. It has no leases, no retries of one event at its time and no order but the log's.
func pgqContender() contender {
	return contender{
		name: "pgq", title: "PgQ 3.5", extension: "pgq",
		create: func(ctx context.Context, r *run) error {
			_, err := r.observer.Exec(ctx, pgqCreateSQL, pgx.QueryExecModeSimpleProtocol)
			return err
		},
		entries: pinnedEntries("", openPgQ),
	}
}

// openPgQ has a reader that performs a batch in slots, and ends it when all are done.
func openPgQ(ctx context.Context, r *run, slots int) (slotted, error) {
	pool, err := r.pool(ctx, slotConnections)
	if err != nil {
		return slotted{}, err
	}
	return slotted{
		insert: func(ctx context.Context, _ int, bodies [][]byte) error {
			texts := make([]string, len(bodies))
			for i, body := range bodies {
				texts[i] = string(body)
			}
			_, err := pool.Exec(ctx, pgqInsertSQL, texts)
			return err
		},
		work: func(ctx context.Context, perform func(body []byte)) (func() error, error) {
			ctx = context.WithoutCancel(ctx)
			live, cancel := context.WithCancel(ctx)
			var group errgroup.Group
			group.Go(func() error { return readPgQ(ctx, live, pool, slots, perform) })
			group.Go(func() error { return keepUpPgQ(ctx, live, pool) })
			return func() error {
				cancel()
				return group.Wait()
			}, nil
		},
		check: func(ctx context.Context, _, _ int) error {
			left, err := r.count(ctx, pgqLeftSQL)
			if err == nil && left > 0 {
				err = fmt.Errorf("%d events were not read", left)
			}
			return err
		},
		close: func(context.Context) error { return nil },
	}, nil
}

// readPgQ reads batches until live ends.
func readPgQ(
	ctx, live context.Context, pool *pgxpool.Pool, slots int, perform func(body []byte),
) error {
	for live.Err() == nil {
		var batch *int64
		if err := pool.QueryRow(ctx, pgqNextSQL).Scan(&batch); err != nil {
			return err
		}
		if batch == nil {
			_ = pause(live, pgqBeat) // it has ended
			continue
		}
		rows, err := pool.Query(ctx, pgqEventsSQL, *batch)
		if err != nil {
			return err
		}
		bodies, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		var group errgroup.Group
		group.SetLimit(slots)
		for _, body := range bodies {
			group.Go(func() error {
				perform([]byte(body))
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if _, err := pool.Exec(ctx, pgqFinishSQL, *batch); err != nil {
			return err
		}
	}
	return nil
}

// keepUpPgQ does what the program of PgQ's own does for its queues until live ends.
func keepUpPgQ(ctx, live context.Context, pool *pgxpool.Pool) error {
	for upkeep := now(); live.Err() == nil; _ = pause(live, pgqBeat) {
		if _, err := pool.Exec(ctx, pgqTickSQL); err != nil {
			return err
		}
		if time.Since(upkeep) < pgqUpkeep {
			continue
		}
		upkeep = now()
		for _, statement := range []string{pgqUpkeepSQL, pgqSwitchedSQL} {
			if _, err := pool.Exec(ctx, statement); err != nil {
				return err
			}
		}
	}
	return nil
}
