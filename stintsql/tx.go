package stintsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	_ "embed" // for the statement
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint/internal/pg"
)

// ErrNotPgx reports that what [PgxTx] was given does not lead to a connection of pgx, version 5.
var ErrNotPgx = errors.New("not a transaction of the driver pgx v5")

// ErrNoTransaction reports that what [PgxTx] was given is not in a transaction, such as a *sql.DB,
// or nil.
var ErrNoTransaction = errors.New("not in a transaction")

var errNotOurs = errors.New("commit the transaction of database/sql, or roll it back, instead")

// An Execer is an open transaction of database/sql: a *sql.Tx, or its equivalent in a library above
// database/sql, as listed in the package documentation.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// PgxTx returns an open transaction of database/sql as a pgx.Tx, for Store.WithTx of the package
// stint. It begins nothing. The transaction stays the caller's, to commit or roll back as before;
// Commit and Rollback of the pgx.Tx are refused. After the end of the transaction, calls of the
// pgx.Tx fail with [pgx.ErrTxClosed] and [sql.ErrTxDone].
//
// It fails with [ErrNotPgx] if the database has another driver, such as lib/pq, and with
// [ErrNoTransaction] if no transaction is open, also if tx is nil or holds none, such as a nil
// pointer or an empty struct. If ctx ends meanwhile, or the connection is lost, the transaction can
// only be rolled back.
//
// Each call of the pgx.Tx has the connection to itself, even if database/sql rolls the transaction
// back at that moment because the context that it was begun with has ended: then the call finishes
// first, and the next one fails. For this, each call takes one more round trip than in a
// transaction of pgx, with an empty query.
//
// Begin makes a savepoint. Query and QueryRow read all rows at once. SendBatch does all of its work
// at once: functions of the queries get the results, and Close returns the error; Exec, Query and
// QueryRow of the results are refused. There are no LargeObjects. Do not send anything through
// Conn. As with any transaction, one goroutine at a time may use it.
func PgxTx(ctx context.Context, tx Execer) (pgx.Tx, error) {
	if pg.IsMissing(tx) {
		return nil, fmt.Errorf("stintsql: tx must not be nil, or without a transaction: %w",
			ErrNoTransaction)
	}
	t := &transaction{execer: tx, savepoints: new(int)}
	err := t.do(ctx, func(conn *pgx.Conn) error {
		t.conn = conn
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("stintsql: %w", err)
	}
	return t, nil
}

// A transaction is one of database/sql, as a pgx.Tx.
type transaction struct {
	pgx.Tx     // nil: for methods that later versions of pgx add
	execer     Execer
	conn       *pgx.Conn
	savepoints *int // made so far
	ended      bool // of a savepoint
	// status and reported are as the last call left them.
	status   byte
	reported map[string]string
}

// TxStatus tells package stint, which must not ask the connection between calls, the state in which
// the last call left the transaction, as PostgreSQL's letter, or 0 if the connection was closed.
func (t *transaction) TxStatus() byte { return t.status }

// ParameterStatus tells package stint, for the same reason, what the server has reported of
// settings that say how it reads texts, and whether it is a standby.
func (t *transaction) ParameterStatus(name string) string { return t.reported[name] }

// note takes down what package stint asks for between calls.
func (t *transaction) note(conn *pgx.Conn) {
	t.status, t.reported = statusOf(conn), map[string]string{}
	for _, name := range []string{
		"client_encoding", "standard_conforming_strings", "in_hot_standby",
	} {
		t.reported[name] = conn.PgConn().ParameterStatus(name)
	}
}

func statusOf(conn *pgx.Conn) byte {
	if conn.IsClosed() {
		return 0
	}
	return conn.PgConn().TxStatus()
}

//go:embed lend_connection.sql
var lendConnection string

// do lends the connection of the transaction to work. database/sql keeps the connection to itself,
// but hands each argument of a query to the driver, and pgx shows the connection to an argument
// that rewrites the query. It does so while database/sql holds the locks that keep everybody else
// from the connection.
func (t *transaction) do(ctx context.Context, work func(*pgx.Conn) error) error {
	const advice = "open the *sql.DB by stdlib.OpenDBFromPool of pgx/v5; " +
		"of a bun.Tx give the field Tx"
	if t.ended {
		return pgx.ErrTxClosed
	}
	argument := &visitor{work: func(conn *pgx.Conn) error {
		defer t.note(conn)
		return work(conn)
	}}
	_, err := t.execer.ExecContext(ctx, lendConnection, argument)
	switch {
	case argument.came:
		return argument.err // whatever became of the empty query behind it
	case err == nil:
		return fmt.Errorf("%w: %s", ErrNotPgx, advice)
	case errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("%w: %w", pgx.ErrTxClosed, err)
	case t.conn != nil || ctx.Err() != nil || errors.Is(err, driver.ErrBadConn):
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrNotPgx, advice, err)
}

// A visitor is an argument of a query that works with the connection to which it comes.
type visitor struct {
	work func(*pgx.Conn) error
	came bool
	err  error
}

// RewriteQuery leaves nothing of the query but a comment. An error instead would spare the round
// trip, but look like a failure in logs and traces.
func (v *visitor) RewriteQuery(
	_ context.Context, conn *pgx.Conn, _ string, _ []any,
) (newSQL string, newArgs []any, err error) {
	v.came = true
	if conn.PgConn().TxStatus() == 'I' {
		v.err = ErrNoTransaction
	} else {
		v.err = v.work(conn)
	}
	return "-- stintsql", nil, v.err
}

func (t *transaction) Begin(ctx context.Context) (pgx.Tx, error) {
	*t.savepoints++
	name := "stintsql_" + strconv.Itoa(*t.savepoints)
	if _, err := t.Exec(ctx, "savepoint "+name); err != nil {
		return nil, err
	}
	inner := *t
	return &savepoint{&inner, name}, nil
}

func (*transaction) Commit(context.Context) error { return errNotOurs }

func (*transaction) Rollback(context.Context) error { return errNotOurs }

func (t *transaction) Exec(
	ctx context.Context, query string, args ...any,
) (tag pgconn.CommandTag, err error) {
	err = t.do(ctx, func(conn *pgx.Conn) (err error) {
		tag, err = conn.Exec(ctx, query, args...)
		return err
	})
	return tag, err
}

func (t *transaction) Prepare(
	ctx context.Context, name, query string,
) (description *pgconn.StatementDescription, err error) {
	err = t.do(ctx, func(conn *pgx.Conn) (err error) {
		description, err = conn.Prepare(ctx, name, query)
		return err
	})
	return description, err
}

func (t *transaction) CopyFrom(
	ctx context.Context, table pgx.Identifier, columns []string, source pgx.CopyFromSource,
) (n int64, err error) {
	err = t.do(ctx, func(conn *pgx.Conn) (err error) {
		n, err = conn.CopyFrom(ctx, table, columns, source)
		return err
	})
	return n, err
}

func (t *transaction) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	return batchResults{err: t.do(ctx, func(conn *pgx.Conn) error {
		return conn.SendBatch(ctx, batch).Close()
	})}
}

func (t *transaction) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	r := t.rowsOf(ctx, query, args)
	return r, r.err
}

func (t *transaction) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	return row{t.rowsOf(ctx, query, args)}
}

// rowsOf returns the rows of a query, or its error.
func (t *transaction) rowsOf(ctx context.Context, query string, args []any) *rows {
	r := &rows{conn: t.conn}
	r.err = t.do(ctx, func(conn *pgx.Conn) error {
		found, err := conn.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		return r.read(found)
	})
	return r
}

func (*transaction) LargeObjects() pgx.LargeObjects { return pgx.LargeObjects{} }

func (t *transaction) Conn() *pgx.Conn { return t.conn }

// A savepoint is the part of a transaction from which on it can be undone.
type savepoint struct {
	*transaction
	name string
}

func (s *savepoint) Commit(ctx context.Context) error { return s.end(ctx, "release savepoint ") }

func (s *savepoint) Rollback(ctx context.Context) error {
	return s.end(ctx, "rollback to savepoint ")
}

func (s *savepoint) end(ctx context.Context, how string) error {
	_, err := s.Exec(ctx, how+s.name)
	s.ended = true
	return err
}
