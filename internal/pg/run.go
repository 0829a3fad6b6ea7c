package pg

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint/internal/outage"
)

// A Step is one statement of a call.
type Step struct {
	Name string
	Args []any
	// Read takes the rows, or is nil if there are none.
	Read func(pgx.Rows) error
	// NoPlanner says that the statement does not need the planner settings: it looks nothing up,
	// and answers with nothing but numbers.
	NoPlanner bool
	// Count takes the number of rows affected, or is nil if it does not matter.
	Count func(int64)
	// AfterCommit says that the statement only reads, and runs after the commit of the others, so
	// that it delays nobody who waits for their locks. In the caller's transaction it has its turn.
	AfterCommit bool
}

// A Request is steps to execute in one transaction and one round trip.
type Request struct {
	Steps []Step
	// Known are notices that are known before the steps run; nil if there are none.
	Known *Notices
	// Collides names a unique constraint, if the steps choose a new number under it: two requests
	// that run at once choose the same one, and the second is made again.
	Collides string
}

// Run executes steps in one transaction and one round trip.
func (db *DB) Run(ctx context.Context, steps ...Step) error {
	return db.Do(ctx, Request{Steps: steps})
}

// Do executes a request under the settings that the statements are written for: see set_path and
// set_planner. In the caller's transaction a savepoint takes the place of the transaction, so that
// a failure undoes the steps and nothing else. If the request succeeds, the known notices are sent.
func (db *DB) Do(ctx context.Context, r Request) error {
	along, after := db.along(r.Known), r.Known
	switch {
	case along != nil, db.isQuiet():
		after = nil
	case db.tx != nil && db.pending == nil && !after.Empty():
		r.Steps = append(r.Steps, db.notifyStep(after))
		after = nil
	}
	attempt := func() error {
		return db.retryDeadlocks(func() error {
			if err := db.CheckUsable(ctx); err != nil {
				return err
			}
			return db.execute(ctx, along, r.Steps)
		})
	}
	var err error
	if r.Collides != "" {
		err = retryCollisions(r.Collides, attempt)
	} else {
		err = attempt()
	}
	if err != nil {
		return err
	}
	db.Notify(ctx, after)
	return nil
}

// retryCollisions makes a call, and makes it again if it violates a constraint.
func retryCollisions(constraint string, call func() error) error {
	const attempts = 10
	var err error
	for range attempts {
		if err = call(); !Violates(err, constraint) {
			return err
		}
	}
	// Stricter than READ COMMITTED, it chooses the same number at each attempt.
	return AsSerializationFailure(err)
}

// retryDeadlocks makes a call, and makes it again if PostgreSQL undid it to let others go on: two
// inserts of the same IDs in different orders deadlock, and the one that is undone must find the
// IDs taken. It does not repeat a call that is only a part of a transaction: an earlier part of
// that transaction may have stood in the way.
func (db *DB) retryDeadlocks(call func() error) error {
	if db.tx != nil {
		return call()
	}
	const attempts = 5
	var err error
	for range attempts {
		err = call()
		if !IsCode(err, CodeDeadlockDetected) && !IsCode(err, CodeSerializationFailure) {
			break
		}
	}
	return err
}

// execute sends steps in the transaction of db or, if it has none, in one of their own, along with
// notices, unless these are nil.
func (db *DB) execute(ctx context.Context, along *Notices, steps []Step) error {
	if db.tx != nil {
		if err := db.checkOriginInTx(ctx); err != nil {
			return err
		}
		defer db.pulse.hold()() // the pulse writes what readsTexts reads
		opening := []string{"savepoint stint", db.text("keep_planner")}
		if !readsTexts(db.tx, db.tx.Conn()) {
			opening = append(opening, db.text("keep_texts"))
		}
		err := db.send(ctx, db.tx, db.tx.Conn(), opening,
			"rollback to savepoint stint", "release savepoint stint", nil, steps)
		if db.callersTx {
			db.giveUpLater(ctx, err)
		}
		return outage.Advise(db.pulse.explain(err))
	}
	err := elsewhere(func() (bool, error) { return db.executeOnce(ctx, along, steps) })
	if !isUnprepared(err) {
		return outage.Advise(err)
	}
	err = db.within(ctx, pgx.ReadCommitted, pgx.ReadWrite, func(tx pgx.Tx) error {
		return db.sendWithin(ctx, tx, steps)
	})
	if err == nil {
		db.Notify(ctx, along)
	}
	return err
}

// sendWithin sends steps in a transaction that began with the settings, and in no savepoint: some
// statements know their own transaction by the xmin of what it has written.
func (db *DB) sendWithin(ctx context.Context, tx pgx.Tx, steps []Step) error {
	batch := &pgx.Batch{}
	db.queueSteps(batch, steps)
	return tx.SendBatch(ctx, batch).Close()
}

// executeOnce sends steps in a transaction of their own. It reports whether they may be sent again,
// over another connection, since this one led to a standby.
func (db *DB) executeOnce(
	ctx context.Context, along *Notices, steps []Step,
) (again bool, err error) {
	err = db.withConn(ctx, func(ctx context.Context, conn *pgx.Conn, heard func()) error {
		if err := db.checkOrigin(ctx, conn); err != nil {
			again = db.giveUp(ctx, conn, err) && db.conn == nil
			return err
		}
		sent := steps
		if db.answers {
			sent = listening(steps, heard)
		}
		err := db.sendAlone(ctx, conn, conn, along, sent)
		again = db.giveUp(ctx, conn, err) && db.conn == nil
		return err
	})
	return again, err
}

// RunOn executes steps on a connection that is not the pool's, in a transaction of their own, and
// sends notices with them, unless these are nil. It does not look whether the DB is closed.
func (db *DB) RunOn(ctx context.Context, conn *pgx.Conn, pending *Notices, steps ...Step) error {
	return outage.Advise(db.sendAlone(ctx, conn, conn, pending, steps))
}

// sendAlone sends steps as a transaction. A transaction that writes says so, whatever the default.
// One that only reads does not, since a hot standby allows nothing else, unless it has to be at a
// primary.
func (db *DB) sendAlone(
	ctx context.Context, wire wire, conn *pgx.Conn, pending *Notices, steps []Step,
) error {
	opening := []string{"begin isolation level read committed"}
	writes := slices.ContainsFunc(steps, func(step Step) bool {
		return db.statements.get(step.Name).writes
	})
	if writes || db.primary {
		opening[0] += " read write"
	}
	if writes && db.CommitEarly {
		opening = append(opening, db.text("commit_early"))
	}
	err := db.send(ctx, wire, conn, opening, "rollback", "commit", pending, steps)
	if pending != nil && isUntold(err) {
		err = db.send(ctx, wire, conn, opening, "rollback", "commit", nil, steps)
		if err == nil {
			db.Notify(ctx, pending)
		}
	}
	if writes && err == nil {
		db.noteChange(ctx)
	}
	return err
}

// A wire is a connection, or the caller's transaction, which refuses to be used after its end.
type wire interface {
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
}

// send sends the statements that open a transaction or a savepoint, the settings, the steps and the
// commit. Where the server reads texts in another way, the opening takes a round trip of its own.
func (db *DB) send(
	ctx context.Context, wire wire, conn *pgx.Conn, opening []string, undo, commit string,
	pending *Notices, steps []Step,
) error {
	batch, reads := &pgx.Batch{}, readsTexts(wire, conn)
	for _, statement := range opening {
		if reads {
			batch.Queue(statement)
		}
	}
	comesAfter := func(step Step) bool { return step.AfterCommit && db.tx == nil }
	db.queueSteps(batch, slices.DeleteFunc(slices.Clone(steps), comesAfter))
	if db.tx != nil {
		batch.Queue(db.text("restore_planner"))
		if !reads {
			batch.Queue(db.text("restore_texts"))
		}
	}
	var told *telling
	committed := false
	if pending != nil {
		told = db.newTelling(pending)
		told.queue(batch, conn, true)
		defer func() { told.over(committed) }()
	}
	batch.Queue(commit).Exec(func(pgconn.CommandTag) error {
		committed = true
		if told != nil {
			told.here()
		}
		return nil
	})
	if slices.ContainsFunc(steps, comesAfter) {
		db.queueReads(batch, reads, steps)
	}
	var err error
	opened := false
	if !reads {
		err = db.open(ctx, wire, opening...)
		opened = err == nil
	}
	if err == nil {
		err = wire.SendBatch(ctx, batch).Close()
	}
	switch {
	case told != nil && committed:
		told.rest()
	case told != nil && IsCode(err, CodeLimitExceeded): // the queue was full at the commit
		err = untoldError{err}
	}
	if err == nil || errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	if left := status(wire, conn); left == 'E' || left == 'T' && opened {
		ctx, cancel := Undoing(ctx)
		defer cancel()
		_, undoErr := wire.Exec(ctx, undo)
		if db.tx != nil && undoErr == nil {
			_, undoErr = wire.Exec(ctx, commit)
		}
		return errors.Join(err, undoErr)
	}
	return err
}

// queueReads queues the steps that come after the commit of the others.
func (db *DB) queueReads(batch *pgx.Batch, reads bool, steps []Step) {
	batch.Queue("begin isolation level read committed read only")
	if !reads {
		batch.Queue(db.text("read_texts"))
	}
	db.queueSteps(batch, slices.DeleteFunc(slices.Clone(steps), func(step Step) bool {
		return !step.AfterCommit
	}))
	batch.Queue("commit")
}

// queueSteps queues steps behind the settings that they are written for.
func (db *DB) queueSteps(batch *pgx.Batch, steps []Step) {
	settings := "set_path"
	if slices.ContainsFunc(steps, func(step Step) bool { return !step.NoPlanner }) {
		settings = "set_planner"
	}
	batch.Queue(db.text(settings))
	for _, step := range steps {
		queued := batch.Queue(db.text(step.Name), step.Args...)
		switch {
		case step.Read != nil:
			queued.Query(step.Read)
		case step.Count != nil:
			queued.Exec(func(tag pgconn.CommandTag) error {
				step.Count(tag.RowsAffected())
				return nil
			})
		}
	}
}

// status returns the state of a transaction as PostgreSQL last told it, or 0 if the connection is
// closed. A transaction of stintsql has its connection only during a call, and tells how the last
// call left it.
func status(tx wire, conn *pgx.Conn) byte {
	if lent, ok := tx.(interface{ TxStatus() byte }); ok {
		return lent.TxStatus()
	}
	if conn.IsClosed() {
		return 0
	}
	return conn.PgConn().TxStatus()
}

// Undoing returns a context in which to undo something, even if the context of the call has ended.
func Undoing(ctx context.Context) (context.Context, context.CancelFunc) {
	const undoMax = 5 * time.Second
	return context.WithTimeout(context.WithoutCancel(ctx), undoMax)
}

// Now returns what the database's clock shows.
func (db *DB) Now(ctx context.Context) (now time.Time, err error) {
	err = db.Run(ctx, Step{Name: "now", Read: func(rows pgx.Rows) error {
		now, err = pgx.CollectOneRow(rows, pgx.RowTo[time.Time])
		return err
	}})
	return now, err
}

// WaitForCommit makes a transaction wait at its commit, for the disk and for synchronous standbys,
// as if it had changed something. A call that finds that there is nothing left to do tells its
// caller that an earlier one has done it, and that must be as safe as if the call had done it
// itself.
func (db *DB) WaitForCommit(ctx context.Context) error {
	return db.Run(ctx, Step{Name: "wait_for_commit", NoPlanner: true})
}

// LimitWaiting are the steps that limit how long a transaction waits for locks, if it is not to
// wait.
func LimitWaiting(noWait bool) []Step {
	if noWait {
		return []Step{{Name: "limit_waiting", NoPlanner: true}}
	}
	return nil
}
