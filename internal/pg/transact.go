package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/outage"
)

// Transact runs work in a transaction of its own, or in a savepoint of the caller's, for calls that
// must look at an answer before they go on. Work may be run more than once.
func (db *DB) Transact(ctx context.Context, work func(*DB) error) error {
	return db.retryDeadlocks(func() error { return db.TransactOnce(ctx, work) })
}

// TransactOnce is [DB.Transact] for work that cannot be repeated.
func (db *DB) TransactOnce(ctx context.Context, work func(*DB) error) error {
	if err := db.CheckUsable(ctx); err != nil {
		return err
	}
	pending := &Notices{}
	err := db.within(ctx, pgx.ReadCommitted, pgx.ReadWrite, func(tx pgx.Tx) error {
		within := &DB{
			shared: db.shared, tx: tx, callersTx: db.callersTx, pending: pending, quiet: db.quiet,
			afterClose: db.afterClose, pulse: db.pulse, temporary: db.temporary,
		}
		if db.tx == nil && !db.idles {
			within.pulse = newPulse(tx.Conn())
			defer within.pulse.end()
		}
		return work(within)
	})
	if err != nil {
		return err
	}
	db.Notify(ctx, pending)
	return nil
}

// Read lets look read in one transaction, which is undone, at an isolation level. In the caller's
// transaction, look sees what that transaction sees.
func (db *DB) Read(ctx context.Context, level pgx.TxIsoLevel, look func(*DB) error) error {
	if err := db.CheckUsable(ctx); err != nil {
		return err
	}
	return db.within(ctx, level, "", func(tx pgx.Tx) error {
		return look(&DB{
			shared: db.shared, tx: tx, callersTx: db.callersTx, quiet: db.quiet,
			afterClose: db.afterClose, pulse: db.pulse, temporary: db.temporary,
		})
	})
}

// within lets use work in a transaction, or in a savepoint of the caller's. It commits what use has
// done, and undoes it if use fails, or if the transaction only reads: then the mode is empty.
func (db *DB) within(
	ctx context.Context, level pgx.TxIsoLevel, mode pgx.TxAccessMode, use func(pgx.Tx) error,
) error {
	if db.tx != nil {
		if err := db.checkOriginInTx(ctx); err != nil {
			return err
		}
		release := db.pulse.hold()
		tx, err := db.tx.Begin(ctx)
		release()
		if err != nil {
			return err
		}
		if readsTexts(db.tx, db.tx.Conn()) {
			return finish(ctx, tx, mode, db.pulse, use)
		}
		return finish(ctx, tx, mode, db.pulse, func(tx pgx.Tx) error {
			err := db.open(ctx, tx, db.text("keep_texts"))
			if err == nil {
				err = use(tx)
			}
			if err == nil {
				_, err = tx.Exec(ctx, db.text("restore_texts"))
			}
			return err
		})
	}
	var begun begun
	err := elsewhere(func() (again bool, err error) {
		begun, again, err = db.begin(ctx, level, mode)
		return again, err
	})
	if err != nil {
		return outage.Advise(err)
	}
	defer begun.release()
	err = finish(ctx, begun.Tx, mode, nil, use)
	if err == nil && mode == pgx.ReadWrite {
		db.noteChange(ctx)
	}
	return outage.Advise(err)
}

// A begun transaction has a connection.
type begun struct {
	pgx.Tx
	release func()
}

// begin begins a transaction of the DB's own. If that fails, it reports whether it may be begun
// again, over another connection, since this one led to a standby.
func (db *DB) begin(
	ctx context.Context, level pgx.TxIsoLevel, mode pgx.TxAccessMode,
) (_ begun, again bool, err error) {
	conn, err := db.acquire(ctx)
	if err != nil {
		return begun{}, false, unsentIf(ctx, err)
	}
	isBegun := false
	defer func() { // also if a tracer of the caller's does not return
		if !isBegun {
			conn.release()
		}
	}()
	if err := db.checkOrigin(ctx, conn.Conn); err != nil {
		return begun{}, db.giveUp(ctx, conn.Conn, err) && db.conn == nil, err
	}
	begin := db.beginQuery(level, mode)
	if !readsTexts(conn.Conn, conn.Conn) {
		begin += "; " + db.text("read_texts")
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		return begun{}, db.giveUp(ctx, conn.Conn, err) && db.conn == nil, err
	}
	isBegun = true
	return begun{tx, conn.release}, false, nil
}

// finish lets use work in a transaction that has begun, and ends it. It undoes it also if use does
// not return: it may run code of the caller's, such as the sequence of InsertTasksFrom, which may
// panic or end its goroutine.
func finish(
	ctx context.Context, tx pgx.Tx, mode pgx.TxAccessMode, pulse *pulse, use func(pgx.Tx) error,
) error {
	returned := false
	defer func() {
		if !returned {
			defer pulse.hold()()
			_ = undo(ctx, tx, nil) // a connection that is still in a transaction is closed
		}
	}()
	err := use(tx)
	returned = true
	defer pulse.hold()()
	if err != nil || mode != pgx.ReadWrite {
		return undo(ctx, tx, err)
	}
	return tx.Commit(ctx)
}

// undo rolls tx back because of err. If the connection is lost, the server rolls back on its own.
func undo(ctx context.Context, tx pgx.Tx, err error) error {
	ctx, cancel := Undoing(ctx)
	defer cancel()
	if undoErr := tx.Rollback(ctx); undoErr != nil && status(tx, tx.Conn()) != 0 {
		return errors.Join(err, undoErr)
	}
	return err
}

// beginQuery begins a transaction of the DB's own. The mode is empty if it only reads. The settings
// of set_path go in the same round trip, before the driver prepares anything, and so do the limit
// on idling and the durability.
func (db *DB) beginQuery(level pgx.TxIsoLevel, mode pgx.TxAccessMode) string {
	begin := fmt.Sprintf("begin isolation level %s %s; set local jit = off; "+
		"set local row_security = off; set local search_path = pg_catalog, pg_temp", level, mode)
	if !db.idles {
		begin += "; " + db.text("limit_idling")
	}
	if db.CommitEarly {
		begin += "; " + db.text("commit_early")
	}
	return begin
}

// set sends settings in a savepoint of the caller's transaction, for statements that do not go
// through [DB.Run]. They last until the savepoint is rolled back, or until restore_planner.
func (db *DB) set(ctx context.Context, tx pgx.Tx, names ...string) error {
	if db.tx == nil {
		return nil // beginQuery has
	}
	batch := &pgx.Batch{}
	for _, name := range names {
		batch.Queue(db.text(name))
	}
	defer db.pulse.hold()()
	return tx.SendBatch(ctx, batch).Close()
}

// InTemporaryTables makes temporary tables in the transaction, by a statement that may be several,
// and returns a DB whose statements work on these instead of on the tables of the schema with the
// same names. Its calls notify nobody.
func (db *DB) InTemporaryTables(ctx context.Context, create string) (*DB, error) {
	temporary, err := db.onTemporary()
	if err != nil {
		return nil, err
	}
	if err := db.set(ctx, db.tx, "set_path"); err != nil {
		return nil, err
	}
	release := db.pulse.hold()
	_, err = db.tx.Exec(ctx, db.text(create))
	release()
	if err != nil {
		return nil, outage.Advise(err)
	}
	return &DB{
		shared: db.shared, tx: db.tx, pending: &Notices{}, quiet: true, afterClose: db.afterClose,
		pulse: db.pulse, temporary: temporary,
	}, nil
}

// Copy inserts rows into a table, in the transaction, by COPY.
func (db *DB) Copy(
	ctx context.Context, table string, columns []string, rows pgx.CopyFromSource,
) error {
	defer db.pulse.hold()()
	_, err := db.tx.CopyFrom(ctx, pgx.Identifier{db.Schema, table}, columns, rows)
	return err
}

// A Table is what COPY adds to a table.
type Table struct {
	name    string
	columns []string
	rows    [][]any
}

// NewTable returns rows for some columns of a table.
func NewTable(name string, rows [][]any, columns ...string) Table {
	return Table{name, columns, rows}
}

// CopyTables inserts rows into tables, in the transaction, by COPY.
func (db *DB) CopyTables(ctx context.Context, tables []Table) error {
	for _, table := range tables {
		if len(table.rows) == 0 {
			continue
		}
		err := db.Copy(ctx, table.name, table.columns, pgx.CopyFromRows(table.rows))
		if err != nil {
			return err
		}
	}
	return nil
}
