package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A pooling is how server processes are given to connections.
type pooling int

const (
	poolingNone pooling = iota
	// poolingSession gives each connection a process, for as long as the connection lasts.
	poolingSession
	// poolingTransaction gives each transaction a process.
	poolingTransaction
)

// askPooler finds out whether a pooler stands between, and how it pools. If another process answers
// than the one that the connection was told of, there is a pooler. A store recognises poolers in
// the same way. It pools by transactions if two connections are served by one process, or if one
// has to wait for the transaction of the other.
func (c *checkup) askPooler(ctx context.Context, pool *pgxpool.Pool) error {
	return pool.AcquireFunc(ctx, func(first *pgxpool.Conn) error {
		seen := map[uint32]bool{}
		const transactions = 3
		for range transactions {
			number, err := c.process(ctx, first)
			if err != nil {
				return err
			}
			seen[number] = true
		}
		if len(seen) == 1 && seen[first.Conn().PgConn().PID()] {
			return nil
		}
		mode := poolingTransaction
		if len(seen) == 1 {
			var err error
			if mode, err = c.poolingOf(ctx, pool, first, seen); err != nil {
				return err
			}
		}
		c.find(poolerFindings(mode)...)
		return nil
	})
}

// poolingOf tells modes of pooling apart by a transaction on a second connection.
func (c *checkup) poolingOf(
	ctx context.Context, pool *pgxpool.Pool, first *pgxpool.Conn, seen map[uint32]bool,
) (pooling, error) {
	const patience = 3 * time.Second
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	isShared := false
	err := func() error {
		tx, err := pool.Begin(waiting)
		if err != nil {
			return err
		}
		defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it did nothing
		second, err := c.process(waiting, tx)
		if err != nil {
			return err
		}
		again, err := c.process(waiting, first)
		isShared = seen[second] || err == nil && !seen[again]
		return err
	}()
	switch {
	case isShared, err != nil && waiting.Err() != nil && ctx.Err() == nil:
		return poolingTransaction, nil
	case err != nil:
		return poolingNone, errors.Join(err, ctx.Err())
	}
	return poolingSession, nil
}

// A querier is a connection, or a transaction on one.
type querier interface {
	QueryRow(ctx context.Context, text string, args ...any) pgx.Row
}

// process is the number of the server process that serves a transaction on the connection.
func (c *checkup) process(ctx context.Context, conn querier) (uint32, error) {
	text, err := c.statement("check_process")
	if err != nil {
		return 0, err
	}
	var number uint32
	err = conn.QueryRow(ctx, text).Scan(&number)
	return number, err
}
