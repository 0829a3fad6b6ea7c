package stint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// schemaVersion is the version of the migrations that the statements of this release are written
// for.
const schemaVersion = 1

// PostgreSQL's codes for what the library tells apart.
const (
	codeUniqueViolation      = "23505"
	codeSerializationFailure = "40001"
	codeDeadlockDetected     = "40P01"
	codeUndefinedTable       = "42P01"
	codeLockNotAvailable     = "55P03"
	codeCompletionUnknown    = "40003"
	classConnectionException = "08"

	codeFeatureNotSupported   = "0A000"
	codeInsufficientPrivilege = "42501"
	classSyntaxError          = "42"
)

// Options adjust a [Store]. The zero value is a good default.
type Options struct {
	// Schema is the database schema that the migrations made. Default: "stint".
	Schema string

	// Retention says how long finished tasks stay.
	Retention Retention

	// Maintenance says when the store does the work described at [Store.Maintain] by itself.
	// Default: [MaintainWhenOwning].
	Maintenance Maintenance

	// Grace is how long the session of the store may be lost before the tasks of its registered
	// actors are handed on: see [Store.RegisterActor]. Default: 500 ms.
	Grace time.Duration

	// PollOnly makes the store do without a session of its own, the connection on which it listens
	// for notifications: behind a pooler that gives each transaction another connection, and where
	// the server has no LISTEN (R20). Those who wait then look every PollInterval, and actors
	// cannot be registered.
	PollOnly bool

	// PollInterval is how often those who wait look for themselves: what a lost notification costs
	// at most (R19), and with PollOnly how long it takes. Default: 1 s.
	PollInterval time.Duration

	// Logger is told what goes wrong in background work, of each kind at once, then once a minute
	// for as long as it lasts, and when it works again; verbs return their errors instead. Default:
	// silence.
	Logger *slog.Logger
}

// KeepForever and KeepNone are ages for [Retention].
const (
	// KeepForever keeps finished tasks until they are deleted.
	KeepForever time.Duration = math.MaxInt64
	// KeepNone drops finished tasks at once, which is faster than keeping them. Repeating a return
	// then answers [ErrInvalidToken] with [ErrTaskNotFound] rather than [ErrAlreadyReturned], and
	// repeating an insert whose task has been performed meanwhile inserts it again.
	KeepNone time.Duration = -1
)

// Retention is how long finished tasks stay before they are pruned (R18). Tasks with PostResult
// stay for an hour at least; what an unfinished or aborted dependent may ask for stays as long as
// the dependent. Until then their IDs are taken (R1).
//
// The retention belongs to the store, not to the database: of several stores on one schema, the one
// with the shortest retention decides.
type Retention struct {
	// Completed is the age at which completed tasks go. Default: 24 hours.
	Completed time.Duration
	// Aborted is the age at which aborted tasks go. Default: 7 days.
	Aborted time.Duration
}

const (
	graceDefault        = 500 * time.Millisecond
	pollIntervalDefault = time.Second
)

const (
	retentionCompletedDefault  = 24 * time.Hour
	retentionAbortedDefault    = 7 * 24 * time.Hour
	retentionPostResultMinimum = time.Hour
)

// A Store keeps tasks in a schema of a PostgreSQL database. It is safe for concurrent use. Any
// number of stores, in any number of processes, may work on one schema.
//
// Every verb is one transaction, which no other sees halfway. Most take one round trip. A verb
// whose ctx ends, or whose connection breaks, may or may not have taken effect; each says how to
// repeat it without harm.
//
// If a process is stopped amid a verb, or its host is lost, the server ends the transaction after
// five seconds, so that others need not wait; the verb, if it goes on, fails as it does when a
// connection breaks. [Store.InsertTasksFrom] lasts as long as its sequence takes, and what is done
// in the caller's transaction as long as that.
type Store struct {
	*core
	// tx is the caller's transaction, or one of the store's own, or nil.
	tx pgx.Tx
	// lent says that the transaction is the caller's, or a part of it.
	lent bool
	// told gathers what a transaction of the store's own did; it is nil in the caller's.
	told *news
	// parting says that verbs work though the store is closed: for what has to be done then.
	parting bool
	// unhurried says that the caller decides how long a transaction of the store's own takes.
	unhurried bool
}

// core is what a store shares with the ones that WithTx derives from it.
type core struct {
	pool       *pgxpool.Pool
	schema     string
	statements statements
	writing    map[string]bool // which of them write
	keep       Retention
	poll       time.Duration
	logger     *slog.Logger
	logs       failureLogs
	// closing is closed when the store is. travels are flights and notifications, which are seen to
	// their ends then; background is the loops, which end.
	closing    chan struct{}
	closeOnce  sync.Once
	travels    *background
	background *background
	maintainer *maintainer
	// session is nil where there shall be none.
	session  *session
	notifier notifier
	awaiting awaiting
	waiting  waiting
	owners   owners
	inserts  flights[struct{}, Task, error]
	owning   flights[ownKey, int, hand]
	extends  flights[extendKey, []OwnedTask, []bool]
	returns  flights[struct{}, []Return, []error]
	queues   queues
	keys     keyring
	asked    asked
	tries    tries
	duty     duty
	closed   atomic.Bool
	checked  atomic.Bool
}

// New returns a store that works through pool, which stays the caller's: [Store.Close] does not
// close it. New does not talk to the database; a schema that is missing or of another version shows
// as [ErrSchemaVersion] at the first verb.
func New(pool *pgxpool.Pool, opts Options) (*Store, error) {
	if pool == nil {
		return nil, fmt.Errorf("new store: %w", argumentError("pool", "nil"))
	}
	if opts.Schema == "" {
		opts.Schema = "stint"
	}
	if opts.PollInterval == 0 {
		opts.PollInterval = pollIntervalDefault
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if err := checkText("Options.Schema", opts.Schema, schemaBytesMax); err != nil {
		return nil, fmt.Errorf("new store: %w", err)
	}
	if opts.Grace == 0 {
		opts.Grace = graceDefault
	}
	if opts.Grace < 0 || opts.Grace > leaseMax {
		return nil, fmt.Errorf("new store: %w",
			argumentError("Options.Grace", "negative or over ten years"))
	}
	if opts.PollInterval < time.Millisecond {
		return nil, fmt.Errorf("new store: %w",
			argumentError("Options.PollInterval", "under a millisecond"))
	}
	keep, err := opts.Retention.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("new store: %w", err)
	}
	loaded, err := loadStatements(opts.Schema)
	if err != nil {
		return nil, fmt.Errorf("new store: %w", err)
	}
	c := &core{
		pool: pool, schema: opts.Schema, statements: loaded, writing: loaded.writing(), keep: keep,
		poll: opts.PollInterval, logger: opts.Logger, logs: newFailureLogs(opts.Logger),
		closing: make(chan struct{}),
		travels: newBackground(), background: newBackground(),
	}
	if !opts.PollOnly {
		c.session = newSession(opts.Grace)
	}
	store := &Store{core: c}
	store.prepareFlights()
	c.maintainer, err = newMaintainer(store, opts)
	if err != nil {
		return nil, fmt.Errorf("new store: %w", err)
	}
	return store, nil
}

func (r Retention) withDefaults() (Retention, error) {
	for _, age := range []time.Duration{r.Completed, r.Aborted} {
		if age < 0 && age != KeepNone {
			return r, argumentError("Options.Retention", "negative age")
		}
	}
	if r.Completed == 0 {
		r.Completed = retentionCompletedDefault
	}
	if r.Aborted == 0 {
		r.Aborted = retentionAbortedDefault
	}
	return r, nil
}

// WithTx returns a store whose verbs take part in tx: what they do becomes real when the caller
// commits tx and is undone when it rolls tx back (R21). A worker can so complete a task, insert its
// successors and write its own rows in one commit.
//
// A verb that fails leaves tx as it was before the verb, fit for further use, unless the connection
// is lost, or a statement cannot even be prepared because a table is locked. (If a return or an
// extension fails while it looks a second time, for owners that are late, what it did for the
// others stays.) The transaction should be READ COMMITTED, which is PostgreSQL's default: under a
// stricter level the verbs still are correct, but fail with serialization errors (SQLSTATE 40001)
// instead of waiting, and where something stands in the way that the transaction cannot see, such
// as an ID that was taken since it began. Roll back then, and begin again.
//
// What was handed out together with other tasks is set apart from these first, on another
// connection of the pool. If there is none at that moment, nobody can return or extend the others
// until tx ends. A ready task that was inserted together with others is not: if a verb in tx takes
// it, aborts it or makes another one wait for it, up to 999 of those others are handed out to
// nobody until tx ends.
//
// Until tx ends, what it has owned, returned or changed is hidden from other owners or makes them
// wait, so return tasks last and commit soon. Several verbs in one transaction may lock tasks of a
// network in another order than somebody else does; if PostgreSQL then reports a deadlock, roll
// back and begin again. A token that OwnTasks gave out in tx is good for nothing outside it until
// the commit.
//
// Where somebody listens, the verbs notify in tx, so that it cannot be prepared for two-phase
// commit (PREPARE TRANSACTION).
//
// The store is for as long as tx lives and needs no Close.
func (s *Store) WithTx(tx pgx.Tx) *Store {
	return &Store{core: s.core, tx: tx, lent: true}
}

// Close ends the store's background work and waits for it, no longer than ctx allows. Afterwards
// every verb returns [ErrClosed], those that wait at once; another verb under way is not
// interrupted. What registered actors still own is handed on, see [Store.RegisterActor]. The pool
// stays open. Close may be called more than once.
func (s *Store) Close(ctx context.Context) error {
	s.closed.Store(true)
	s.closeOnce.Do(func() { close(s.closing) })
	// What is handed out at this moment is there before the session ends and hands it on.
	err := s.travels.stop(ctx)
	if err := errors.Join(err, s.background.stop(ctx)); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

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
}

// run executes steps in one transaction and one round trip, under the settings that the statements
// are written for: see set_path and set_planner. In the caller's transaction a savepoint takes the
// place of the transaction, so that a failure undoes the steps and nothing else.
func (s *Store) run(ctx context.Context, steps ...step) error {
	return s.runAnd(ctx, nil, steps...)
}

// runAnd is run, with the news of what the steps do, unless it is nil, on the same round trip
// behind the commit.
func (s *Store) runAnd(ctx context.Context, told *news, steps ...step) error {
	return s.persist(func() error {
		if err := s.usable(ctx); err != nil {
			return err
		}
		return s.execute(ctx, told, steps)
	})
}

// persist makes a call again that PostgreSQL undid to get others out of its way: two inserts of the
// same IDs in different orders deadlock, and the one that is undone shall find the IDs taken. Not
// in a transaction that the call is a part of: what stood in the way may be an earlier part of it.
func (s *Store) persist(call func() error) error {
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

func (s *Store) execute(ctx context.Context, told *news, steps []step) error {
	if s.tx != nil {
		return s.send(ctx, s.tx, s.tx.Conn(), "savepoint stint",
			"rollback to savepoint stint", "release savepoint stint", nil, steps)
	}
	err := s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return s.sendAlone(ctx, conn, conn.Conn(), told, steps)
	})
	if !isMisread(err) {
		return err
	}
	err = s.transactOnce(ctx, func(s *Store) error { return s.run(ctx, steps...) })
	if err == nil && told != nil {
		s.tell(ctx, told)
	}
	return err
}

// isMisread reports whether the server made no sense of a statement. The driver has it prepared
// ahead of the settings, where an operator of somebody else's may fit better than PostgreSQL's own;
// in a transaction that is begun with the settings it is prepared right, for the rest of the
// connection.
func isMisread(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	switch pgErr.Code {
	case codeInsufficientPrivilege, codeUndefinedTable:
		return false
	case codeFeatureNotSupported: // such as a plan whose result is of another type
		return true
	}
	return strings.HasPrefix(pgErr.Code, classSyntaxError)
}

// sendAlone sends steps as a transaction. One that writes says so, whatever the default; one that
// only reads does not, since a hot standby has no others.
func (s *Store) sendAlone(
	ctx context.Context, wire wire, conn *pgx.Conn, told *news, steps []step,
) error {
	begin := "begin isolation level read committed"
	if slices.ContainsFunc(steps, func(step step) bool { return s.writing[step.name] }) {
		begin += " read write"
	}
	return s.send(ctx, wire, conn, begin, "rollback", "commit", told, steps)
}

// A wire is a connection, or the caller's transaction, which refuses to be used after its end.
type wire interface {
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
}

func (s *Store) send(
	ctx context.Context, wire wire, conn *pgx.Conn, begin, undo, commit string, told *news,
	steps []step,
) error {
	batch := &pgx.Batch{}
	batch.Queue(begin)
	if s.tx != nil {
		batch.Queue(s.statements["keep_planner"])
	}
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
	if s.tx != nil {
		batch.Queue(s.statements["restore_planner"])
	}
	committed := false
	batch.Queue(commit).Exec(func(pgconn.CommandTag) error {
		committed = true
		return nil
	})
	if told != nil {
		s.queueNews(batch, told)
	}
	err := wire.SendBatch(ctx, batch).Close()
	if err != nil && committed && told != nil {
		s.logUntold(ctx, err)
		return nil
	}
	if err == nil || errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	if !conn.IsClosed() && conn.PgConn().TxStatus() == 'E' {
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

// undoing is the context to undo something in, though that of the call may have ended.
func undoing(ctx context.Context) (context.Context, context.CancelFunc) {
	const undoMax = 5 * time.Second
	return context.WithTimeout(context.WithoutCancel(ctx), undoMax)
}

// transact runs work in a transaction of its own, or in a savepoint of the caller's, for verbs that
// must look at an answer before they go on. Work may be run more than once.
func (s *Store) transact(ctx context.Context, work func(*Store) error) error {
	return s.persist(func() error { return s.transactOnce(ctx, work) })
}

func (s *Store) transactOnce(ctx context.Context, work func(*Store) error) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	tx, err := s.begin(ctx, pgx.ReadCommitted, pgx.ReadWrite)
	if err != nil {
		return err
	}
	told := &news{}
	within := &Store{core: s.core, tx: tx, lent: s.lent, told: told, parting: s.parting}
	if err := work(within); err != nil {
		return undo(ctx, tx, err)
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	s.tell(ctx, told)
	return nil
}

// undo rolls tx back because of err. A connection that is lost has rolled back by itself.
func undo(ctx context.Context, tx pgx.Tx, err error) error {
	ctx, cancel := undoing(ctx)
	defer cancel()
	if undoErr := tx.Rollback(ctx); undoErr != nil && !tx.Conn().IsClosed() {
		return errors.Join(err, undoErr)
	}
	return err
}

// begin begins a transaction, or a savepoint in the caller's. The mode is empty if it only reads.
// What set_path sets goes on the same round trip, ahead of all that the driver prepares, and so
// does the limit on idling, for a transaction of the store's own.
func (s *Store) begin(
	ctx context.Context, level pgx.TxIsoLevel, mode pgx.TxAccessMode,
) (pgx.Tx, error) {
	if s.tx != nil {
		return s.tx.Begin(ctx)
	}
	begin := fmt.Sprintf("begin isolation level %s %s; set local jit = off; "+
		"set local search_path = pg_catalog, pg_temp", level, mode)
	if !s.unhurried {
		begin += "; " + s.statements["limit_idling"]
	}
	return s.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
}

// set sends settings in a savepoint of the caller's, for statements that do not go through run.
// They last until it is rolled back, or restore_planner.
func (s *Store) set(ctx context.Context, tx pgx.Tx, names ...string) error {
	if s.tx == nil {
		return nil // begin has
	}
	batch := &pgx.Batch{}
	for _, name := range names {
		batch.Queue(s.statements[name])
	}
	return tx.SendBatch(ctx, batch).Close()
}

// usable says why no verb may run: the context, the store or the schema.
func (s *Store) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() && !s.parting {
		return ErrClosed
	}
	if s.checked.Load() {
		return nil
	}
	if err := s.checkSchema(ctx); err != nil {
		return err
	}
	s.checked.Store(true)
	return nil
}

func (s *Store) checkSchema(ctx context.Context) error {
	tx, err := s.begin(ctx, pgx.ReadCommitted, "")
	if err != nil {
		return err
	}
	if err := s.set(ctx, tx, "set_path"); err != nil {
		return undo(ctx, tx, err)
	}
	var version, since int32
	err = tx.QueryRow(ctx, s.statements["schema_version"]).Scan(&version, &since)
	undoErr := undo(ctx, tx, nil)
	switch {
	case isCode(err, codeUndefinedTable):
		return fmt.Errorf("%w: there is none named %q, or it was never migrated",
			ErrSchemaVersion, s.schema)
	case err != nil:
		return err
	case version < schemaVersion:
		return fmt.Errorf("%w: %q is at version %d, this release works with %d and up: migrate it",
			ErrSchemaVersion, s.schema, version, schemaVersion)
	case since > schemaVersion:
		return fmt.Errorf("%w: %q is at version %d, which works with releases for %d and up, "+
			"this one is for %d", ErrSchemaVersion, s.schema, version, since, schemaVersion)
	}
	return undoErr
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

// unseen is the error of a transaction that cannot see what it collides with at every look, since
// its snapshot is older: the violation as a serialization failure, as which PostgreSQL reports the
// same collision of INSERT ... ON CONFLICT. Who begins again sees it.
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
