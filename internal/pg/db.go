// Package pg runs statements on PostgreSQL: the steps of a call in one transaction and one round
// trip, under the settings that the statements are written for, with notifications after the
// commit. It knows nothing of tasks.
package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Config says where a [DB] works, and how.
type Config struct {
	Pool   *pgxpool.Pool
	Schema string

	// Version is the version of the schema that the statements are written for. If it is 0, calls
	// do not look which version the schema has.
	Version int32

	// Statements are those that steps name, besides those of this package.
	Statements []*Statements

	// Literals are texts in statements that begin as a name in the schema does, and are none.
	Literals []string

	// CommitEarly makes commits not wait for the disk.
	CommitEarly bool

	// Environment is what the database has to be called for a DB that acts, if it is called
	// something; "": it does not matter. ActInCopies lets a DB that acts do so in copies.
	Environment string
	ActInCopies bool

	// PollOnly means that nobody is notified.
	PollOnly bool

	Logger *slog.Logger

	// Here is who hears of changes in this process; nil: nobody.
	Here Listener

	// Inside is for tests of this module.
	Inside any
}

// A Listener hears in this process of changes that others may wait for.
type Listener interface {
	// ID returns the number of the session by which it hears of the changes of others.
	ID() int64
	// Tell tells it of messages, by topic, and returns how many of them it wants to hear.
	Tell(topics, payloads []string) (heard int64)
	// Expect has it pass over messages that a connection sends, since it was told of them. Unsent
	// says that some were not sent.
	Expect(process uint32, payloads []string)
	Unsent(process uint32, payloads []string)
}

// A DB is a schema of a database, and perhaps a transaction in it. It is safe for concurrent use
// unless it is in a transaction.
type DB struct {
	*shared
	// tx is the caller's transaction, or one of the DB's own, or nil.
	tx pgx.Tx
	// callersTx says that the transaction is the caller's, or a part of it.
	callersTx bool
	// refused is what all calls return, since the caller's transaction is missing; nil otherwise.
	refused error
	// pending are the notices of a transaction of the DB's own; it is nil in the caller's.
	pending *Notices
	// afterClose says that calls work even after Close.
	afterClose bool
	// pulse keeps a transaction of the DB's own from idling; nil in the caller's.
	pulse *pulse
	// quiet says that nobody is notified.
	quiet bool
	// temporary are the statements on temporary tables; nil: on those of the schema.
	temporary set
	// idles says that the caller decides how long a transaction of the DB's own takes.
	idles bool
	// answers says that the database may take only so long to answer.
	answers bool
	// primary says that calls only make sense at a primary, even if their steps only read.
	primary bool
	// acts says that calls are refused in a copy; judged, that the caller's transaction was found
	// to be in none.
	acts   bool
	judged *bool
	// unhurried says that calls rather wait a little than have the pool open a connection.
	unhurried bool
	// conn is the connection of all statements, if one was acquired ahead of them.
	conn *pgx.Conn
	// reserve is where a call gets a connection if it has waited for one of the pool for
	// reserveAfter; nil if it waits for the pool alone.
	reserve      *reserve
	reserveAfter time.Duration
}

// shared is what a DB shares with the ones that are derived from it.
type shared struct {
	Config

	statements set
	// onTemporary returns the statements on temporary tables.
	onTemporary func() (set, error)
	logs        logs
	notifier    notifier
	reserves    [2]reserve
	// silence is SilenceMax, except in tests.
	silence time.Duration
	closed  atomic.Bool
	checked atomic.Bool
	// changed says that a transaction of the DB's own has changed something.
	changed atomic.Bool
	// leaving says that connections to standbys are looked for.
	leaving atomic.Bool
	// deaths counts the connections of the pool that were found dead. Each connection has, under
	// the name looked, how many there were when it was last found alive.
	deaths atomic.Int64
	looked string
	// asked is the name under which a connection has when it was last found to lead to no copy.
	asked string
	// closing is closed when Close begins.
	closing   chan struct{}
	closeOnce sync.Once
	// draining is what Close waits for, background what it interrupts.
	draining, background *background
	// opening is full while as many calls as may wait for a connection that the pool opens.
	opening chan struct{}
}

// New returns a DB. It does not contact the database.
func New(config Config) (*DB, error) {
	statements, err := load(config)
	if err != nil {
		return nil, err
	}
	of := &shared{
		Config: config, statements: statements, logs: newLogs(config.Logger), silence: SilenceMax,
		onTemporary: sync.OnceValues(func() (set, error) {
			config.Schema = "pg_temp"
			return load(config)
		}),
		opening: make(chan struct{}, openingMax),
		closing: make(chan struct{}), draining: newBackground(), background: newBackground(),
	}
	of.looked = fmt.Sprintf("stint %p", of) // others may work with the same pool
	// An address may be that of one before, which was for another environment.
	of.asked = fmt.Sprintf("stint origin %d", rand.Uint64()) //nolint:gosec // no secret
	return &DB{shared: of}, nil
}

// WithTx returns a DB whose calls take part in the caller's transaction. If quiet, they notify
// nobody.
func (db *DB) WithTx(tx pgx.Tx, quiet bool) *DB {
	return &DB{shared: db.shared, tx: tx, callersTx: true, quiet: quiet}
}

// WithoutTx returns a DB whose calls return err, since the transaction of the caller's in which
// they should take part is missing.
func (db *DB) WithoutTx(err error) *DB {
	return &DB{shared: db.shared, callersTx: true, refused: err}
}

// Outside returns the DB outside of any transaction. It works after Close if db does.
func (db *DB) Outside() *DB {
	return &DB{shared: db.shared, refused: db.refused, afterClose: db.afterClose}
}

// AfterClose returns a DB whose calls work even after Close, for the work that is left then.
func (db *DB) AfterClose() *DB {
	within := *db
	within.afterClose = true
	return &within
}

// WithoutIdleLimit returns a DB whose transactions the server does not end, however long nothing is
// sent in them.
func (db *DB) WithoutIdleLimit() *DB {
	within := *db
	within.idles = true
	return &within
}

// WithAnswerLimit returns a DB whose statements, outside transactions, fail with [ErrSilent] if the
// database is silent.
func (db *DB) WithAnswerLimit() *DB {
	within := *db
	within.answers = true
	return &within
}

// Unhurried returns a DB whose calls, outside transactions, wait a little for a connection that the
// pool has, rather than have it open another one. It is for work in the background, so that a store
// that has little to do keeps one connection, and only makes sense at a primary.
func (db *DB) Unhurried() *DB {
	within := db.AtPrimary()
	within.unhurried = true
	return within
}

// AtPrimary returns a DB whose statements, outside transactions, fail at a hot standby even if they
// only read, so that no answer is one of a server that was left behind by a failover.
func (db *DB) AtPrimary() *DB {
	within := *db
	within.primary = true
	return &within
}

// AtPrimaryIfChanged is [DB.AtPrimary] if the DB has changed anything, and so has been at one.
func (db *DB) AtPrimaryIfChanged() *DB {
	if db.changed.Load() {
		return db.AtPrimary()
	}
	return db
}

// Tx returns the transaction that calls take part in, or nil.
func (db *DB) Tx() pgx.Tx { return db.tx }

// InTx reports whether calls take part in a transaction, or should.
func (db *DB) InTx() bool { return db.tx != nil || db.refused != nil }

// Refused returns why all calls are refused, or nil.
func (db *DB) Refused() error { return db.refused }

// InCallersTx reports whether calls take part in a transaction that the caller ends.
func (db *DB) InCallersTx() bool { return db.callersTx }

// Start starts work that [DB.Close] waits for. After Close it returns [ErrClosed].
func (db *DB) Start(work func()) error {
	if !db.draining.start(func(context.Context) { work() }) {
		return ErrClosed
	}
	return nil
}

// StartBackground starts work whose context ends with [DB.Close]. It reports false after Close.
func (db *DB) StartBackground(work func(context.Context)) bool { return db.background.start(work) }

// Closing is closed when [DB.Close] begins.
func (db *DB) Closing() <-chan struct{} { return db.closing }

// Closed reports whether [DB.Close] was called.
func (db *DB) Closed() bool { return db.closed.Load() }

// Close makes later calls fail. It waits for what [DB.Start] has started and for notifications,
// and then ends the work in the background and waits for it, no longer than ctx allows.
func (db *DB) Close(ctx context.Context) error {
	db.closed.Store(true)
	db.closeOnce.Do(func() { close(db.closing) })
	err := db.draining.stop(ctx)
	for i := range db.reserves {
		db.reserves[i].close()
	}
	return errors.Join(err, db.background.stop(ctx))
}
