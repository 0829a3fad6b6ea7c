package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
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
	within.acts = true
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
	isOther := func(named string) bool { return named != db.Environment }
	switch {
	case db.ActInCopies:
		return ""
	case origin.rewritten:
		return "its rows were restored or replicated from another database"
	case origin.elsewhere:
		return "it was made from another database, as by CREATE DATABASE ... TEMPLATE"
	case db.Environment != "" && slices.ContainsFunc(origin.environments, isOther):
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
	if !db.acts || db.ActInCopies || db.tx.Conn() != nil && db.wasAsked(db.tx.Conn()) {
		return nil
	}
	var origin Origin
	within := *db
	within.acts = false
	if err := within.Run(ctx, ReadOrigin(func(of Origin) { origin = of })); err != nil {
		return err
	}
	return db.refuseCopy(ctx, origin)
}

// wasAsked reports whether a connection was found to lead to no copy a moment ago.
func (db *DB) wasAsked(conn *pgx.Conn) bool {
	at, ok := conn.PgConn().CustomData()[db.asked].(time.Time)
	return ok && time.Since(at) < originEvery
}

// runApart executes a step on a connection, in a transaction of its own.
func (db *DB) runApart(ctx context.Context, conn *pgx.Conn, step Step) error {
	err := db.sendAlone(ctx, conn, conn, nil, []Step{step})
	if !isUnprepared(err) {
		return err
	}
	mode := pgx.ReadOnly
	if step.Read == nil {
		mode = pgx.ReadWrite
	}
	options := pgx.TxOptions{BeginQuery: db.beginQuery(pgx.ReadCommitted, mode)}
	return pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		db.queueSteps(batch, []Step{step})
		return tx.SendBatch(ctx, batch).Close()
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
	err := db.Run(ctx, Step{Name: "forget_origin", NoPlanner: true}, db.writeOrigin())
	for range originRows - 1 {
		if err == nil {
			err = db.Run(ctx, db.writeOrigin())
		}
	}
	if err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	return nil
}
