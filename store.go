package stint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/bodies"
	"github.com/stint-tasks/stint/internal/counts"
	"github.com/stint-tasks/stint/internal/duty"
	"github.com/stint-tasks/stint/internal/ends"
	"github.com/stint-tasks/stint/internal/groupcommit"
	"github.com/stint-tasks/stint/internal/limit"
	"github.com/stint-tasks/stint/internal/numbering"
	"github.com/stint-tasks/stint/internal/outage"
	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/prune"
	"github.com/stint-tasks/stint/internal/queuefloors"
	"github.com/stint-tasks/stint/internal/session"
	"github.com/stint-tasks/stint/internal/waiters"
)

// A Store keeps tasks in a schema of a PostgreSQL database. It is safe for concurrent use. Any
// number of stores, in any number of processes, may work on one schema.
//
// Every verb is one transaction, whose effects others see all at once. Most take one round trip. A
// verb whose ctx ends, or whose connection breaks, may or may not have taken effect; its
// documentation says how to repeat it safely.
//
// If a process is stopped between two statements of a verb, or its host is lost, the server ends
// the transaction after five seconds, so that others do not wait for it; if the process goes on,
// the verb fails as if the connection had broken. However long a verb on many tasks takes, a
// process that is merely busy is not stopped. This limit does not apply to [Store.InsertTasksFrom],
// which lasts as long as its sequence, and to verbs in the caller's transaction. Nor does it help
// where a process is stopped while the server sends it many rows, or takes many from it: the
// transaction then lasts until the process goes on or ends.
type Store struct {
	*core
	// db is where this store works: the pool or a transaction, and for how long it waits.
	db *pg.DB
	handle
}

// core is what a store shares with those that are derived from it.
type core struct {
	// fetchBytes and pieceBytes are the constants, except in tests.
	fetchBytes, pieceBytes int

	headers func(context.Context) map[string]string // of Options, or nil

	keep prune.Keep
	// maxLosses is how many losses in a row abort a task, 0 if none do.
	maxLosses int
	// triesKept is how many ended tries of a task are kept, and triesAge for how long.
	triesKept int
	triesAge  time.Duration
	// withoutMinutes keeps it from noting what happens in each minute.
	withoutMinutes bool
	poll           time.Duration
	logger         *slog.Logger
	logs           failureLogs
	// owning starts the maintenance that begins with the first tasks that are owned.
	owning func()
	// session is nil if the store polls only.
	session  *session.Session
	watch    *session.Watch
	roster   atomic.Pointer[duty.Roster] // nil if the store does not maintain
	awaiting waiters.Waiters
	poller   *waiters.Poller
	waiting  waiters.Keyed[waiter]
	endBound ends.Bound
	endNews  ends.News
	owners   owners
	// goingOn is full while a goroutine tries to give back what its caller has left behind.
	goingOn chan struct{}
	// givenUp is closed some time after Close has begun: then nobody goes on any more.
	givenUp chan struct{}
	giveUp  func()
	groups
	queues queuefloors.Floors
	sizes  bodies.Sizes
	limits *limit.Engine
	keys   numbering.Allocator
	claims atomic.Int64 // counts the calls under claims of their callers
	stats  *counts.Notes
	// counter keeps what Stats has estimated.
	counter counts.Counter
	due     dueCursor
}

// failureLogs log the failures of work that begins and ends again and again.
type failureLogs struct{ waited, polled, owned, abandoned, callback *outage.Log }

func newFailureLogs(logger *slog.Logger) failureLogs {
	return failureLogs{
		waited: outage.New(logger, "could not look at the tasks that are waited for"),
		polled: outage.New(logger, "could not look for ready tasks"),
		owned:  outage.New(logger, "could not look at what is owned"),
		abandoned: outage.New(logger, "tasks whose callers have left may be owned by nobody until "+
			"their lease expires"),
		callback: outage.New(logger, "a function that was given to WatchOwnership has failed"),
	}
}

// groups are the verbs whose calls share statements when many are made at the same time. Close
// waits for their batches.
type groups struct {
	inserts *groupcommit.Group[bool, Task, error]
	owns    *groupcommit.Group[ownKey, exchange, ownAnswer]
	extends *groupcommit.Group[extendKey, []OwnedTask, []bool]
	returns *groupcommit.Group[struct{}, []Return, []error]
	records *groupcommit.Group[struct{}, recordedCall, recordAnswer]
	lists   *groupcommit.Group[struct{}, OwnedTask, listAnswer]
}

// on returns a store that works on another view of the database.
func (s *Store) on(db *pg.DB) *Store {
	return &Store{core: s.core, db: db, handle: pg.NewHandle(db)}
}

// waitIfRepeated returns err. If err is what a call is told that was made before, it waits until
// the effects of that call are as safe as its own would be.
func (s *Store) waitIfRepeated(ctx context.Context, err, repeated error) error {
	if errors.Is(err, repeated) {
		if waitErr := s.db.WaitForCommit(ctx); waitErr != nil {
			return waitErr
		}
	}
	return err
}

// transact runs work in a transaction of its own, or in a savepoint of the caller's. Work may be
// run more than once.
func (s *Store) transact(ctx context.Context, work func(*Store) error) error {
	return s.db.Transact(ctx, func(db *pg.DB) error { return work(s.on(db)) })
}

// WithTx returns a store whose verbs take part in tx: their effects are committed or rolled back
// with it (R21). So a worker can complete a task, insert its successors and write its own rows in
// one commit. The store lasts as long as tx and needs no Close. The package stintsql makes a pgx.Tx
// from a database/sql transaction.
//
// If tx is nil, or holds none, such as a nil pointer or an empty struct, every verb is refused with
// an [*ArgumentError]: a transaction that was forgotten never means that there is to be none.
//
// A verb that fails leaves tx as it was before the verb, and usable, unless the connection is lost,
// or a statement cannot be prepared because a table is locked. (If a return or an extension fails
// in its second look for late owners, its effects on other tasks stay.) tx should be READ
// COMMITTED, which is PostgreSQL's default. Under a stricter level the verbs are still correct, but
// fail with serialization errors (SQLSTATE 40001) where they would otherwise wait, and where they
// collide with rows that tx cannot see, such as an ID that was taken after tx began. Then roll back
// and begin again.
//
// Until tx ends, tasks that it has owned, returned or changed are hidden from other owners or make
// them wait, so return tasks last and commit soon. Until the commit, a token that OwnTasks gave out
// in tx is useless outside it. Verbs in tx may lock tasks of a network in another order than others
// do; if PostgreSQL reports a deadlock, roll back and begin again.
//
// If a task was fetched together with others, a verb first separates it from them, on another
// connection: of the pool, or besides it. If none can be had, nobody can return or extend the
// others until tx ends. A ready task is not separated: if a verb in tx takes it, aborts it or makes
// another task wait for it, up to 999 tasks that were inserted together with it are fetched by
// nobody until tx ends.
//
// If somebody listens, the verbs notify in tx, unless it is [Quiet] or the store is PollOnly. A
// transaction that notifies cannot be prepared for two-phase commit, and its commit fails if the
// server's queue of notifications is full (SQLSTATE 54000): nothing in tx can prevent that. A wait
// that begins between a verb and the commit is not woken: it polls.
func (s *Store) WithTx(tx pgx.Tx) *Store {
	if pg.IsMissing(tx) {
		return s.on(s.db.WithoutTx(argumentError("tx",
			"must not be nil, or without a transaction; the store itself works without one")))
	}
	quiet, isQuiet := tx.(quietTx)
	if isQuiet {
		tx = quiet.Tx
	}
	return s.on(s.db.WithTx(tx, isQuiet))
}

// outsideTx refuses a verb in a transaction; why is the rest of the sentence that says so.
func (s *Store) outsideTx(why string) error {
	switch {
	case s.db.Refused() != nil:
		return s.db.Refused()
	case s.db.InTx():
		return argumentError("store", "must not be in a transaction"+why)
	}
	return nil
}

type quietTx struct{ pgx.Tx }

// Quiet returns a transaction in which verbs notify nobody, for [Store.WithTx] and for what takes a
// transaction for it, such as Task.ReturnIn of the package worker:
//
//	err := store.WithTx(stint.Quiet(tx)).InsertTasks(ctx, tasks)
//
// So tx can be prepared for two-phase commit, its commit does not take its turn among all that
// notify on the server, and it does not fail if the server's queue of notifications is full. Others
// notice what tx did when they poll next, within 1.25 [Options.PollInterval]. If tx is nil, verbs
// are refused as with tx itself.
func Quiet(tx pgx.Tx) pgx.Tx { return quietTx{tx} }

// Schema returns the name of the database schema that the store works on.
func (s *Store) Schema() string { return s.db.Schema }

// PoolSize returns how many connections the store's pool opens at most. Handlers that hold one for
// as long as they run cannot run in larger numbers: see worker.Options.Concurrency.
func (s *Store) PoolSize() int { return int(s.db.Pool.Stat().MaxConns()) }

// Close ends the store's background work and waits for it, no longer than ctx allows. Afterwards
// every verb returns [ErrClosed]. Close ends verbs that wait, but does not interrupt others that
// are under way. Tasks that registered actors still own are handed on: see [Store.RegisterActor].
// Close may be called more than once.
func (s *Store) Close(ctx context.Context) error {
	defer time.AfterFunc(closeMax, s.giveUp).Stop()
	defer s.giveUp()
	// Tasks that are being fetched at this moment are owned before the session ends and hands
	// them on.
	if err := s.db.Close(ctx); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// handle gives the packages of this module a store's DB. The alias keeps it out of the API.
type handle = pg.Handle

// The kinds of notifications: the first word of each. A notification is only a hint; its receiver
// looks at the tables.
const (
	kindReady    = "ready"    // and an action: a task with it became ready
	kindFinished = "finished" // and keys: tasks that post their results have ended
	kindLost     = "lost"     // and keys: tasks were taken from their owners
)

// readyTopic is the topic of those who wait for tasks with an action, and the payload for them.
func readyTopic(action string) string { return kindReady + " " + action }
