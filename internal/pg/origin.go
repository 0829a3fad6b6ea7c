package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/outage"
)

// ErrCopy is what calls of a DB that acts return in a copy of a database.
var ErrCopy = errors.New("the database is a copy, in which nothing is handed out")

const (
	// originRows is how many rows say where the tasks belong.
	originRows = 2

	// originEvery is how often a connection is asked again: something between it and the server may
	// lead it to another database, and a dump may be restored beneath it.
	originEvery = time.Minute
)

// An Origin is what the table origin says of where the tasks belong.
type Origin struct {
	rows                 int
	rewritten, elsewhere bool
	environments         []string
}

// Acting returns a DB whose statements, outside transactions of its own, fail with [ErrCopy] in a
// copy: they hand out, or change something that nobody has asked for.
func (db *DB) Acting() *DB {
	within := *db
	within.acts, within.judged = true, new(bool)
	return &within
}

// ReadOrigin is a step that reads where the tasks belong.
func ReadOrigin(found func(Origin)) Step {
	return Step{Name: "read_origin", NoPlanner: true, Read: func(rows pgx.Rows) error {
		var of Origin
		_, err := pgx.ForEachRow(rows, []any{
			&of.rows, &of.rewritten, &of.elsewhere, &of.environments,
		}, func() error {
			found(of)
			return nil
		})
		return err
	}}
}

// CopyOf says why the database is a copy, as a part of a sentence; "" if it is none, or if the DB
// acts in copies.
func (db *DB) CopyOf(origin Origin) string {
	switch {
	case db.ActInCopies:
		return ""
	case origin.rewritten:
		return "its rows were restored or replicated from another database, or written anew"
	case origin.elsewhere:
		return "it was made from another database, as by CREATE DATABASE ... TEMPLATE"
	case db.Environment != "" && len(origin.environments) > 0 &&
		!slices.Contains(origin.environments, db.Environment): // two may have named it at once
		return fmt.Sprintf("its environment is %q, and that of this store is %q",
			origin.environments[0], db.Environment)
	}
	return ""
}

func (db *DB) refuseCopy(ctx context.Context, origin Origin) error {
	why := db.CopyOf(origin)
	if why == "" {
		db.logs.copied.Worked(ctx)
		return nil
	}
	err := fmt.Errorf("%w: %s: when its tasks may be performed here, too, run stint adopt",
		ErrCopy, why)
	db.logs.copied.Failed(ctx, err)
	return err
}

// lacks reports whether something is to be added to what the table says.
func (db *DB) lacks(origin Origin) bool {
	return origin.rows < originRows || db.Environment != "" && len(origin.environments) == 0
}

// checkOrigin returns [ErrCopy] if the DB acts, and the connection leads to a copy. A database that
// does not know where its tasks belong is told.
func (db *DB) checkOrigin(ctx context.Context, conn *pgx.Conn) error {
	if !db.acts || db.ActInCopies || db.wasAsked(conn) {
		return nil
	}
	var origin Origin
	if err := db.runApart(ctx, conn, ReadOrigin(func(of Origin) { origin = of })); err != nil {
		return err
	}
	if err := db.refuseCopy(ctx, origin); err != nil {
		return err
	}
	for ; db.lacks(origin); origin.rows++ {
		if err := db.runApart(ctx, conn, db.writeOrigin()); err != nil {
			return err
		}
		origin.environments = []string{db.Environment}
	}
	conn.PgConn().CustomData()[db.asked] = time.Now() //nolint:forbidigo // of this process
	return nil
}

// checkOriginInTx is checkOrigin in the caller's transaction, which the database is not told in.
func (db *DB) checkOriginInTx(ctx context.Context) error {
	conn := db.tx.Conn()
	if !db.acts || db.ActInCopies || *db.judged || conn != nil && db.wasAsked(conn) {
		return nil
	}
	var origin Origin
	within := *db
	within.acts = false
	if err := within.Run(ctx, ReadOrigin(func(of Origin) { origin = of })); err != nil {
		return err
	}
	if err := db.refuseCopy(ctx, origin); err != nil {
		return err
	}
	*db.judged = true
	if conn != nil && !db.lacks(origin) {
		conn.PgConn().CustomData()[db.asked] = time.Now() //nolint:forbidigo // of this process
	}
	return nil
}

// wasAsked reports whether a connection was found to lead to no copy a moment ago.
func (db *DB) wasAsked(conn *pgx.Conn) bool {
	at, ok := conn.PgConn().CustomData()[db.asked].(time.Time)
	return ok && time.Since(at) < originEvery
}

// runApart executes steps on a connection, in a transaction of their own and in no savepoint.
func (db *DB) runApart(ctx context.Context, conn *pgx.Conn, steps ...Step) error {
	err := db.sendAlone(ctx, conn, conn, nil, steps)
	if !isUnprepared(err) {
		return err
	}
	mode := pgx.ReadOnly
	if steps[0].Read == nil {
		mode = pgx.ReadWrite
	}
	options := pgx.TxOptions{BeginQuery: db.beginQuery(pgx.ReadCommitted, mode)}
	return pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		return db.sendWithin(ctx, tx, steps)
	})
}

func (db *DB) writeOrigin() Step {
	var environment *string
	if db.Environment != "" {
		environment = &db.Environment
	}
	return Step{Name: "write_origin", NoPlanner: true, Args: []any{environment}}
}

// Adopt says that the tasks belong to this database. It works outside transactions only.
func (db *DB) Adopt(ctx context.Context) error {
	err := db.CheckUsable(ctx)
	if err == nil {
		err = elsewhere(func() (again bool, err error) {
			err = db.withConn(ctx, func(ctx context.Context, conn *pgx.Conn, _ func()) error {
				err := db.writeAnew(ctx, conn)
				again = db.giveUp(ctx, conn, err) && db.conn == nil
				return err
			})
			return again, err
		})
	}
	if err != nil {
		return fmt.Errorf("adopt: %w", outage.Advise(err))
	}
	return nil
}

// writeAnew replaces what the table says.
func (db *DB) writeAnew(ctx context.Context, conn *pgx.Conn) error {
	write := db.writeOrigin()
	err := db.runApart(ctx, conn, Step{Name: "forget_origin", NoPlanner: true}, write)
	for n := 1; n < originRows && err == nil; n++ {
		err = db.runApart(ctx, conn, write)
	}
	return err
}
