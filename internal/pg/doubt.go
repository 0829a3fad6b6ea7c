package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pingMax is how long a connection may take to answer when it is looked at before its use.
const pingMax = 2 * time.Second

// errDead is that of calls whose connections were all found dead before anything was sent.
var errDead = errors.New("connections of the pool were dead before they were used")

// acquirePooled acquires a connection of the pool. What ends one connection, such as a restart of
// the server, mostly ends others, and each of these would fail the call that is the first to use
// it. So once a connection was found dead, every other is looked at before its next use. Until
// then, and after that, the look costs nothing.
func (db *DB) acquirePooled(ctx context.Context) (*pgxpool.Conn, error) {
	var dead error
	for range db.Pool.Stat().MaxConns() + 1 {
		conn, err := db.acquireOpening(ctx)
		if err != nil {
			return nil, err
		}
		if dead = db.keepIfAlive(ctx, conn); dead == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return nil, fmt.Errorf("%w: %w", errDead, dead)
}

// openingMax is how many connections of the pool calls have it open at once. A server that has lost
// all of them, or that is slow, is not helped by processes that each open a whole pool, give up,
// and begin anew.
const openingMax = 4

// acquireOpening acquires a connection of the pool. If the pool has to open one, others may be
// opening theirs first.
func (db *DB) acquireOpening(ctx context.Context) (*pgxpool.Conn, error) {
	if !opens(db.Pool.Stat()) {
		return db.Pool.Acquire(ctx)
	}
	select {
	case db.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-db.opening }()
	const pause = 5 * time.Millisecond
	for { // the pool goes on to open those whose callers have left
		stat := db.Pool.Stat()
		if !opens(stat) || stat.ConstructingConns() < openingMax {
			return db.Pool.Acquire(ctx)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// opens reports whether the pool would open a connection for the next call.
func opens(stat *pgxpool.Stat) bool {
	return stat.IdleConns() == 0 && stat.TotalConns() < stat.MaxConns()
}

// keepIfAlive looks at a connection of the pool, and releases it unless it is alive: also if a
// tracer of the caller's does not return from the look. The pool drops what is closed.
func (db *DB) keepIfAlive(ctx context.Context, conn *pgxpool.Conn) (err error) {
	isAlive := false
	defer func() {
		if !isAlive {
			conn.Release()
		}
	}()
	err = db.look(ctx, conn.Conn())
	isAlive = err == nil
	return err
}

// look looks at a connection of the pool, unless it was looked at since the last one that was found
// dead. It closes one that does not answer.
func (db *DB) look(ctx context.Context, conn *pgx.Conn) error {
	deaths := db.deaths.Load()
	known := conn.PgConn().CustomData()
	if seen, _ := known[db.looked].(int64); seen == deaths {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pingMax)
	defer cancel()
	if err := conn.Ping(ctx); err != nil {
		closing, cancel := Undoing(ctx)
		defer cancel()
		return errors.Join(err, conn.Close(closing))
	}
	known[db.looked] = deaths
	return nil
}

// release gives a connection back to the pool. If the call has lost it, and not given it up, others
// may be lost as well.
func (db *DB) release(ctx context.Context, conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() && ctx.Err() == nil {
		db.deaths.Add(1)
	}
	conn.Release()
}

// IsPoolClosed reports whether a call failed since its owner has closed the pool, which never opens
// again. The driver has no name for the error.
func IsPoolClosed(err error) bool {
	return err != nil && strings.HasSuffix(err.Error(), "closed pool")
}

// IsAway reports whether a call failed since the database could not be reached, or was lost in the
// middle: the same call may succeed later.
func IsAway(err error) bool {
	var connectErr *pgconn.ConnectError
	return WasCutOff(err) && !IsPoolClosed(err) || errors.As(err, &connectErr) ||
		errors.Is(err, errDead) || isUnsent(err)
}
