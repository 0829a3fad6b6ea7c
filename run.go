package stint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint/internal/advice"
)

// schemaVersion is the version of the migrations that the statements of this release are written
// for.
const schemaVersion = 2

// PostgreSQL's codes for the errors that the library tells apart.
const (
	codeUniqueViolation      = "23505"
	codeSerializationFailure = "40001"
	codeDeadlockDetected     = "40P01"
	codeUndefinedTable       = "42P01"
	codeDuplicatePrepared    = "42P05"
	codeLockNotAvailable     = "55P03"
	codeCompletionUnknown    = "40003"
	codeLimitExceeded        = "54000"
	classConnectionException = "08"

	codeFeatureNotSupported   = "0A000"
	codeInsufficientPrivilege = "42501"
	classSyntaxError          = "42"
)

// attemptsMax is how often a verb looks for tasks that change their states meanwhile. Each attempt
// waits for the transaction that locks the task, so a second attempt hardly ever misses.
const attemptsMax = 20

// errUnstable occurs only in a transaction that is stricter than READ COMMITTED. The caller must
// begin that transaction again.
var errUnstable = fmt.Errorf("task changed its state at every attempt: %w", &pgconn.PgError{
	Severity: "ERROR", Code: codeSerializationFailure,
	Message: "could not serialize access due to concurrent update",
})

// A step is one statement of a verb.
type step struct {
	name string
	args []any
	// read takes the rows, or is nil if there are none.
	read func(pgx.Rows) error
	// unplanned says that the statement does not need the planner settings: it looks nothing up,
	// and answers with nothing but numbers.
	unplanned bool
	// count takes the number of rows affected, or is nil if it does not matter.
	count func(int64)
	// behind says that the statement only reads, and runs behind the commit of the others, so that
	// nobody waits for it who waits for their locks. In the caller's transaction it has its turn.
	behind bool
}

// A request is steps to execute in one transaction and one round trip.
type request struct {
	steps []step
	// expected are notices that are known before the steps run; nil if there are none.
	expected *notices
	// splits says that the steps may make a new part of a lease.
	splits bool
}

// run executes steps in one transaction and one round trip.
func (s *Store) run(ctx context.Context, steps ...step) error {
	return s.do(ctx, request{steps: steps})
}

// do executes a request under the settings that the statements are written for: see set_path and
// set_planner. In the caller's transaction a savepoint takes the place of the transaction, so that
// a failure undoes the steps and nothing else. If the request succeeds, the expected notices are
// sent.
func (s *Store) do(ctx context.Context, r request) error {
	early := s.early(r.expected)
	late := r.expected
	switch {
	case early != nil, s.isQuiet():
		late = nil
	case s.tx != nil && s.pending == nil && !late.empty():
		r.steps = append(r.steps, s.notifyStep(late, false))
		late = nil
	}
	attempt := func() error {
		return s.retryDeadlocks(func() error {
			if err := s.checkUsable(ctx); err != nil {
				return err
			}
			return s.execute(ctx, early, r.steps)
		})
	}
	var err error
	if r.splits {
		err = retrySplits(attempt)
	} else {
		err = attempt()
	}
	if err != nil {
		return err
	}
	s.notify(ctx, late)
	return nil
}

// retrySplits makes a call that may make a new part of a lease. If two calls do so at once, both
// choose the same number for it, and the second call is made again.
func retrySplits(call func() error) error {
	const attempts = 10
	var err error
	for range attempts {
		if err = call(); !violates(err, "leases_pkey") {
			return err
		}
	}
	return unseen(err) // stricter than READ COMMITTED, it chooses the same number at each attempt
}

// retryDeadlocks makes a call, and makes it again if PostgreSQL undid it to let others go on: two
// inserts of the same IDs in different orders deadlock, and the one that is undone must find the
// IDs taken. It does not repeat a call that is only a part of a transaction: an earlier part of
// that transaction may have stood in the way.
func (s *Store) retryDeadlocks(call func() error) error {
	if s.tx != nil {
		return call()
	}
	const attempts = 5
	var err error
	for range attempts {
		err = call()
		if !isCode(err, codeDeadlockDetected) && !isCode(err, codeSerializationFailure) {
			break
		}
	}
	return err
}

// execute sends steps in the transaction of the store or, if it has none, in one of their own, with
// early notices, unless these are nil.
func (s *Store) execute(ctx context.Context, early *notices, steps []step) error {
	if s.tx != nil {
		opening := []string{"savepoint stint", s.statements["keep_planner"]}
		defer s.pulse.hold()()
		return advice.On(s.pulse.explain(s.send(ctx, s.tx, s.tx.Conn(), opening,
			"rollback to savepoint stint", "release savepoint stint", nil, steps)))
	}
	err := s.withConn(ctx, func(ctx context.Context, conn *pgx.Conn, heard func()) error {
		if s.isBrief {
			return s.sendAlone(ctx, conn, conn, early, listening(steps, heard))
		}
		return s.sendAlone(ctx, conn, conn, early, steps)
	})
	if !isMisread(err) {
		return advice.On(err)
	}
	err = s.transactOnce(ctx, func(s *Store) error { return s.run(ctx, steps...) })
	if err == nil {
		s.notify(ctx, early)
	}
	return err
}

// isMisread reports whether the server could not make sense of a statement. The driver has
// statements prepared before the settings apply, and then somebody else's operator may fit better
// than PostgreSQL's own. In a transaction that begins with the settings, the statement is prepared
// correctly, and stays so for the rest of the connection.
func isMisread(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	switch pgErr.Code {
	case codeInsufficientPrivilege, codeUndefinedTable, codeDuplicatePrepared:
		return false
	case codeFeatureNotSupported: // such as a plan whose result is of another type
		return true
	}
	return strings.HasPrefix(pgErr.Code, classSyntaxError)
}

// sendAlone sends steps as a transaction. A transaction that writes says so, whatever the default.
// One that only reads does not, since a hot standby allows nothing else.
func (s *Store) sendAlone(
	ctx context.Context, wire wire, conn *pgx.Conn, pending *notices, steps []step,
) error {
	opening := []string{"begin isolation level read committed"}
	if slices.ContainsFunc(steps, func(step step) bool { return s.writing[step.name] }) {
		opening[0] += " read write"
		if s.durability == Opportunistic {
			opening = append(opening, s.statements["commit_early"])
		}
	}
	return s.send(ctx, wire, conn, opening, "rollback", "commit", pending, steps)
}

// A wire is a connection, or the caller's transaction, which refuses to be used after its end.
type wire interface {
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
}

// send sends the statements that open a transaction or a savepoint, the settings, the steps and the
// commit.
func (s *Store) send(
	ctx context.Context, wire wire, conn *pgx.Conn, opening []string, undo, commit string,
	pending *notices, steps []step,
) error {
	batch := &pgx.Batch{}
	for _, statement := range opening {
		batch.Queue(statement)
	}
	isBehind := func(step step) bool { return step.behind && s.tx == nil }
	s.queueSteps(batch, slices.DeleteFunc(slices.Clone(steps), isBehind))
	if s.tx != nil {
		batch.Queue(s.statements["restore_planner"])
	}
	committed := false
	batch.Queue(commit).Exec(func(pgconn.CommandTag) error {
		committed = true
		return nil
	})
	if slices.ContainsFunc(steps, isBehind) {
		batch.Queue("begin isolation level read committed read only")
		s.queueSteps(batch, slices.DeleteFunc(slices.Clone(steps), func(step step) bool {
			return !step.behind
		}))
		batch.Queue("commit")
	}
	var heard int64
	if pending != nil {
		s.queueNotices(batch, pending, &heard)
	}
	err := wire.SendBatch(ctx, batch).Close()
	if pending != nil && committed && (err != nil || heard > 0) {
		s.logUnsent(ctx, err)
		return nil
	}
	if err == nil || errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	if status(wire, conn) == 'E' {
		ctx, cancel := undoing(ctx)
		defer cancel()
		_, undoErr := wire.Exec(ctx, undo)
		if s.tx != nil && undoErr == nil {
			_, undoErr = wire.Exec(ctx, commit)
		}
		return errors.Join(err, undoErr)
	}
	return err
}

// queueSteps queues steps behind the settings that they are written for.
func (s *Store) queueSteps(batch *pgx.Batch, steps []step) {
	settings := "set_path"
	if slices.ContainsFunc(steps, func(step step) bool { return !step.unplanned }) {
		settings = "set_planner"
	}
	batch.Queue(s.statements[settings])
	for _, step := range steps {
		queued := batch.Queue(s.statements[step.name], step.args...)
		switch {
		case step.read != nil:
			queued.Query(step.read)
		case step.count != nil:
			queued.Exec(func(tag pgconn.CommandTag) error {
				step.count(tag.RowsAffected())
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

// undoing returns a context in which to undo something, even if the context of the call has ended.
func undoing(ctx context.Context) (context.Context, context.CancelFunc) {
	const undoMax = 5 * time.Second
	return context.WithTimeout(context.WithoutCancel(ctx), undoMax)
}

// transact runs work in a transaction of its own, or in a savepoint of the caller's, for verbs that
// must look at an answer before they go on. Work may be run more than once.
func (s *Store) transact(ctx context.Context, work func(*Store) error) error {
	return s.retryDeadlocks(func() error { return s.transactOnce(ctx, work) })
}

func (s *Store) transactOnce(ctx context.Context, work func(*Store) error) error {
	if err := s.checkUsable(ctx); err != nil {
		return err
	}
	pending := &notices{}
	err := s.within(ctx, pgx.ReadCommitted, pgx.ReadWrite, func(tx pgx.Tx) error {
		within := &Store{
			core: s.core, tx: tx, callersTx: s.callersTx, pending: pending, quiet: s.quiet,
			afterClose: s.afterClose, pulse: s.pulse,
		}
		if s.tx == nil && !s.unhurried {
			within.pulse = newPulse(tx.Conn())
			defer within.pulse.end()
		}
		return work(within)
	})
	if err != nil {
		return err
	}
	s.notify(ctx, pending)
	return nil
}

// within lets use work in a transaction, or in a savepoint of the caller's. It commits what use has
// done, and undoes it if use fails, or if the transaction only reads: then the mode is empty.
func (s *Store) within(
	ctx context.Context, level pgx.TxIsoLevel, mode pgx.TxAccessMode, use func(pgx.Tx) error,
) error {
	if s.tx != nil {
		release := s.pulse.hold()
		tx, err := s.tx.Begin(ctx)
		release()
		if err != nil {
			return err
		}
		return finish(ctx, tx, mode, s.pulse, use)
	}
	conn, err := s.acquire(ctx)
	if err != nil {
		return advice.On(err)
	}
	defer conn.release()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: s.beginQuery(level, mode)})
	if err != nil {
		return advice.On(err)
	}
	return advice.On(finish(ctx, tx, mode, nil, use))
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
	ctx, cancel := undoing(ctx)
	defer cancel()
	if undoErr := tx.Rollback(ctx); undoErr != nil && status(tx, tx.Conn()) != 0 {
		return errors.Join(err, undoErr)
	}
	return err
}

// beginQuery begins a transaction of the store's own. The mode is empty if it only reads. The
// settings of set_path go in the same round trip, before the driver prepares anything, and so do
// the limit on idling and the durability.
func (s *Store) beginQuery(level pgx.TxIsoLevel, mode pgx.TxAccessMode) string {
	begin := fmt.Sprintf("begin isolation level %s %s; set local jit = off; "+
		"set local row_security = off; set local search_path = pg_catalog, pg_temp", level, mode)
	if !s.unhurried {
		begin += "; " + s.statements["limit_idling"]
	}
	if s.durability == Opportunistic {
		begin += "; " + s.statements["commit_early"]
	}
	return begin
}

// set sends settings in a savepoint of the caller's transaction, for statements that do not go
// through run. They last until the savepoint is rolled back, or until restore_planner.
func (s *Store) set(ctx context.Context, tx pgx.Tx, names ...string) error {
	if s.tx == nil {
		return nil // beginQuery has
	}
	batch := &pgx.Batch{}
	for _, name := range names {
		batch.Queue(s.statements[name])
	}
	defer s.pulse.hold()()
	return tx.SendBatch(ctx, batch).Close()
}

// checkOpen returns an error if the context has ended or the store is closed. It does not ask the
// database.
func (s *Store) checkOpen(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() && !s.afterClose {
		return ErrClosed
	}
	return nil
}

// checkUsable returns an error if no verb may run, because of the context, the store or the schema.
func (s *Store) checkUsable(ctx context.Context) error {
	if err := s.checkOpen(ctx); err != nil || s.checked.Load() {
		return err
	}
	if err := s.checkSchema(ctx); err != nil {
		return err
	}
	s.checked.Store(true)
	return nil
}

func (s *Store) checkSchema(ctx context.Context) error {
	var version, since int32
	var distributed bool
	schema := pgx.Identifier{s.schema}.Sanitize()
	err := s.within(ctx, pgx.ReadCommitted, "", func(tx pgx.Tx) error {
		if err := s.set(ctx, tx, "set_path"); err != nil {
			return err
		}
		return tx.QueryRow(ctx, s.statements["schema_version"], schema).
			Scan(&version, &since, &distributed)
	})
	switch {
	case isCode(err, codeUndefinedTable):
		return fmt.Errorf("%w: no tables of Stint in the schema %q: create them by "+
			"migrations.Migrate, or the command stint migrate", ErrSchemaVersion, s.schema)
	case err != nil:
		return err
	case distributed:
		return fmt.Errorf("%w: %q is distributed by Citus, which Stint does not work with: SELECT "+
			"citus_schema_undistribute('%s')", ErrSchemaVersion, s.schema,
			strings.ReplaceAll(schema, "'", "''"))
	case version < schemaVersion:
		return fmt.Errorf("%w: %q is at version %d, this release works with %d and up: migrate it",
			ErrSchemaVersion, s.schema, version, schemaVersion)
	case since > schemaVersion:
		return fmt.Errorf("%w: %q is at version %d, which works with releases for %d and up, "+
			"this one is for %d", ErrSchemaVersion, s.schema, version, since, schemaVersion)
	}
	return nil
}

func isCode(err error, code string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == code
}

// violates reports whether err is a violation of a unique constraint.
func violates(err error, constraint string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == codeUniqueViolation &&
		pgErr.ConstraintName == constraint
}

// unseen is the error of a transaction that collides at every attempt with a row that it cannot
// see, since its snapshot is older. It is the violation as a serialization failure: PostgreSQL
// reports the same collision of an INSERT ... ON CONFLICT so. A new transaction sees the row.
func unseen(violation error) error {
	var pgErr *pgconn.PgError
	if !errors.As(violation, &pgErr) {
		return violation
	}
	failure := *pgErr
	failure.Code = codeSerializationFailure
	failure.Message = "could not serialize access due to concurrent insert: " + pgErr.Message
	return &failure
}

// wasCutOff reports whether a call failed because its connection broke, so that it may have taken
// effect. If the server sent an error, the call has not taken effect, unless that error was the
// last thing that the server, or a pooler in between, sent.
func wasCutOff(err error) bool {
	if err == nil {
		return false
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.SeverityUnlocalized == "FATAL" || pgErr.SeverityUnlocalized == "PANIC" ||
			strings.HasPrefix(pgErr.Code, classConnectionException) ||
			pgErr.Code == codeCompletionUnknown
	}
	var connectErr *pgconn.ConnectError
	return !errors.As(err, &connectErr) && !errors.Is(err, ErrClosed)
}

// limitWaiting are the steps that limit how long a transaction waits for locks, if it is hasty.
func limitWaiting(hasty bool) []step {
	if hasty {
		return []step{{name: "limit_waiting", unplanned: true}}
	}
	return nil
}
