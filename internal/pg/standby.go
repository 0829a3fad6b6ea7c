package pg

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// isStandby reports whether the server of a connection was a hot standby when it last said so: it
// reports that with its first answer, and when it has been promoted.
func isStandby(wire wire, conn *pgx.Conn) bool {
	return reported(wire, conn, "in_hot_standby") == "on"
}

// isRefusedByStandby reports whether a server has refused a change, or a transaction that may
// change something, since it is a hot standby. Nothing was done.
func isRefusedByStandby(err error, wire wire, conn *pgx.Conn) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	switch pgErr.Routine {
	case "PreventCommandIfReadOnly": // of somebody's transaction, which may be read-only elsewhere
		return pgErr.Code == codeReadOnly && isStandby(wire, conn)
	case "PreventCommandDuringRecovery": // LISTEN, for example
		return pgErr.Code == codeReadOnly
	case "call_bool_check_hook": // BEGIN READ WRITE, which sets transaction_read_only
		return pgErr.Code == codeFeatureNotSupported
	}
	return false
}

// giveUp closes a connection if its server has refused a change since it is a standby, and so the
// idle connections of the pool that lead to standbys, and reports whether it did: after a failover
// the address leads to another server, but connections that were made before stay where they are.
func (db *DB) giveUp(ctx context.Context, conn *pgx.Conn, err error) bool {
	if !isRefusedByStandby(err, conn, conn) {
		return false
	}
	db.logs.standby.Failed(ctx, err)
	closing, cancel := Undoing(ctx)
	defer cancel()
	_ = conn.Close(closing)
	db.giveUpIdle(closing)
	return true
}

// elsewhere makes a call, and makes it again, over another connection, while it reports that its
// own led to a standby and was given up. That may be so more than once: connections that others use
// at that moment come back to the pool, and are given up by the next who gets them.
func elsewhere(call func() (again bool, err error)) error {
	const attempts = 4
	var err error
	for range attempts {
		again := false
		if again, err = call(); !again {
			break
		}
	}
	return err
}

// giveUpIdle closes the idle connections of the pool that lead to standbys.
func (db *DB) giveUpIdle(ctx context.Context) {
	for _, conn := range db.Pool.AcquireAllIdle(ctx) {
		if isStandby(conn.Conn(), conn.Conn()) {
			_ = conn.Conn().Close(ctx)
		}
		conn.Release()
	}
}

// noteChange notes that a primary was changed.
func (db *DB) noteChange(ctx context.Context) {
	db.logs.standby.Worked(ctx)
	if !db.changed.Load() {
		db.changed.Store(true)
	}
}

// giveUpLater does what giveUp does where the connection is in a transaction of the caller's. They
// roll that back, and soon the pool has the connection again.
func (db *DB) giveUpLater(ctx context.Context, err error) {
	if !isRefusedByStandby(err, db.tx, db.tx.Conn()) {
		return
	}
	db.logs.standby.Failed(ctx, err)
	if !db.leaving.CompareAndSwap(false, true) {
		return
	}
	isStarted := db.background.start(func(ctx context.Context) {
		defer db.leaving.Store(false)
		const first, longest = 10 * time.Millisecond, 5 * time.Second
		for pause := first; pause < longest; pause *= 2 {
			db.giveUpIdle(ctx)
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
	})
	if !isStarted {
		db.leaving.Store(false)
	}
}
