package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// reserveAfter is how long an owner's verb waits for a connection of the pool before it asks
	// for the reserve; less if the lease that is at stake is short.
	reserveAfter = 100 * time.Millisecond
	reservePart  = 30 // of a lease

	// An unused reserve is closed after reserveUnused. If it belongs to the pool, others wait for
	// it: then it is kept only until the next heartbeat of a worker whose last one got nothing.
	reserveUnused = time.Minute
	reserveGap    = 2 * time.Second

	// reserveAgain is the pause between attempts to open a reserve.
	reserveAgain = time.Second
)

// A Reserve is one of two connections besides the pool, which keep owners alive where the pool has
// none for them, since handlers hold all of them and wait for more. Each serves one call at a time.
type Reserve int

const (
	// Prompt is for calls that never wait long for a lock: heartbeats, for example.
	Prompt Reserve = iota
	// Patient is for calls that may: returns, for example.
	Patient
)

// A reserve is a connection that is opened when it is asked for. If the server has no room for it,
// the first connection that the pool can spare takes its place.
type reserve struct {
	mutex sync.Mutex
	// idle is open and unused. busy says that the connection is lent, or being opened.
	idle    *spare
	busy    bool
	waiting []chan *spare // each has room for one
	unused  *time.Timer   // closes idle
	closed  bool
	// failed says that the last attempt to open a connection has failed.
	failed bool
}

// A spare is the connection of a reserve.
type spare struct {
	*pgx.Conn
	pooled *pgxpool.Conn // if it is of the pool
	opened time.Time
}

// WithReserve returns a DB whose statements, outside transactions, do not wait for a connection of
// the pool for longer than it takes to get the reserve. The lease is how long the call may take at
// most, if it is short; zero otherwise. It is for owners, who only exist at a primary.
func (db *DB) WithReserve(which Reserve, lease time.Duration) *DB {
	within := *db
	within.reserve, within.reserveAfter, within.primary = &db.reserves[which], reserveAfter, true
	if lease > 0 {
		within.reserveAfter = min(reserveAfter, lease/reservePart)
	}
	return &within
}

// Acquire returns a DB all of whose calls use one connection, until it is released.
func (db *DB) Acquire(ctx context.Context) (on *DB, release func(), err error) {
	conn, err := db.acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	within := *db
	within.conn = conn.Conn
	return &within, conn.release, nil
}

// IsStarved reports whether there is no connection to be had soon: all of the pool are in use, and
// the reserve could not be opened.
func (db *DB) IsStarved(which Reserve) bool {
	return db.isExhausted() && db.reserves[which].isAway()
}

// A lent connection is used by one call.
type lent struct {
	*pgx.Conn
	release func()
}

// acquire acquires a connection of the pool or, for an owner's verb, the reserve, whichever comes
// first.
func (db *DB) acquire(ctx context.Context) (lent, error) {
	if db.conn != nil {
		return lent{db.conn, func() {}}, nil
	}
	if db.unhurried {
		db.awaitIdle(ctx)
	}
	if db.reserve == nil {
		conn, err := db.acquirePooled(ctx)
		if err != nil {
			return lent{}, db.starved(ctx, err)
		}
		return lent{conn.Conn(), func() { db.release(ctx, conn) }}, nil
	}
	acquiring, cancel := context.WithCancel(ctx)
	defer cancel()
	var got *spare
	asked := make(chan struct{})
	asking := time.AfterFunc(db.reserveAfter, func() {
		defer close(asked)
		for !db.isExhausted() { // it is opening connections
			select {
			case <-time.After(db.reserveAfter):
			case <-acquiring.Done():
				return
			}
		}
		if got = db.askReserve(acquiring); got != nil {
			cancel()
		}
	})
	conn, err := db.acquirePooled(acquiring)
	cancel()
	if asking.Stop() {
		db.logs.unreserved.Worked(ctx) // nobody needs it
	} else {
		<-asked
	}
	switch {
	case err == nil:
		if got != nil {
			db.giveReserve(db.reserve, got)
		}
		return lent{conn.Conn(), func() { db.release(ctx, conn) }}, nil
	case got != nil:
		db.logs.starved.Failed(ctx, db.exhausted())
		return lent{got.Conn, func() { db.giveReserve(db.reserve, got) }}, nil
	}
	return lent{}, db.starved(ctx, err)
}

// awaitIdle waits until a connection of the pool is idle, unless it has none, or none becomes idle
// soon.
func (db *DB) awaitIdle(ctx context.Context) {
	const times, pause = 20, 10 * time.Millisecond
	for range times {
		if stat := db.Pool.Stat(); stat.IdleConns() > 0 || stat.TotalConns() == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// starved names the pool in the error of a call whose context has ended before it got a connection.
func (db *DB) starved(ctx context.Context, err error) error {
	if ctx.Err() == nil || !db.isExhausted() {
		return err
	}
	return fmt.Errorf("%w: %w", db.exhausted(), err)
}

func (db *DB) isExhausted() bool {
	stat := db.Pool.Stat()
	return stat.AcquiredConns() >= stat.MaxConns()
}

func (db *DB) exhausted() error {
	return fmt.Errorf("all %d connections of the pool are in use", db.Pool.Stat().MaxConns())
}

// askReserve waits for the reserve until ctx ends. It returns nil if it did not get it, or none
// that can be used.
func (db *DB) askReserve(ctx context.Context) *spare {
	const attempts = 3 // an unused one may be from before a restart of the server
	for range attempts {
		got := db.awaitReserve(ctx, db.reserve)
		if got == nil || db.prepareReserve(ctx, got) {
			return got
		}
		db.giveReserve(db.reserve, got)
	}
	return nil
}

func (db *DB) awaitReserve(ctx context.Context, r *reserve) *spare {
	turn := make(chan *spare, 1)
	r.mutex.Lock()
	switch {
	case r.closed:
		r.mutex.Unlock()
		return nil
	case r.idle != nil:
		turn <- r.idle
		r.idle, r.busy = nil, true
		r.unused.Stop()
	default:
		r.waiting = append(r.waiting, turn)
		if !r.busy {
			r.busy = db.background.start(func(ctx context.Context) { db.openReserve(ctx, r) })
		}
	}
	r.mutex.Unlock()
	select {
	case got := <-turn:
		return got
	case <-ctx.Done():
		if got := r.leave(turn); got != nil {
			db.giveReserve(r, got)
		}
		return nil
	}
}

// leave ends a wait for the reserve. It returns the reserve if that has just come.
func (r *reserve) leave(turn chan *spare) *spare {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for i, other := range r.waiting {
		if other == turn {
			r.waiting = append(r.waiting[:i], r.waiting[i+1:]...)
			return nil
		}
	}
	return <-turn
}

// giveReserve passes the reserve to the next call that waits for it, unless it is no good any more:
// then it is opened anew for that.
func (db *DB) giveReserve(r *reserve, got *spare) {
	good := !got.IsClosed() && got.PgConn().TxStatus() == 'I' && db.keepsReserve(got)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	switch {
	case good && len(r.waiting) > 0:
		r.waiting[0] <- got
		r.waiting = r.waiting[1:]
		return
	case good && !r.closed:
		r.idle, r.busy = got, false
		unused := reserveUnused
		if got.pooled != nil {
			unused = reserveGap
		}
		r.unused = time.AfterFunc(unused, func() { db.dropReserve(r, got) })
		return
	}
	go got.drop() // a server that is gone must hold up nobody
	r.busy = len(r.waiting) > 0 &&
		db.background.start(func(ctx context.Context) { db.openReserve(ctx, r) })
}

// dropReserve closes the reserve if it is still unused.
func (db *DB) dropReserve(r *reserve, unused *spare) {
	r.mutex.Lock()
	isUnused := r.idle == unused
	if isUnused {
		r.idle = nil
	}
	r.mutex.Unlock()
	if isUnused {
		db.logs.starved.Worked(context.Background())
		unused.drop()
	}
}

// close closes the reserve, or has whoever uses it close it.
func (r *reserve) close() {
	r.mutex.Lock()
	unused := r.idle
	r.idle, r.closed = nil, true
	r.mutex.Unlock()
	if unused != nil {
		r.unused.Stop()
		unused.drop()
	}
}

// isAway reports whether the reserve cannot be had: it could not be opened.
func (r *reserve) isAway() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.failed
}

// drop closes a connection, or gives it back to the pool.
func (c *spare) drop() {
	if c.pooled != nil {
		c.pooled.Release()
		return
	}
	ctx, cancel := Undoing(context.Background())
	defer cancel()
	_ = c.Close(ctx)
}

// openReserve opens the reserve for those who wait for it. While the server has no room for another
// connection, it keeps a place among those who wait for the pool, however often the calls that need
// it give up and are made again.
func (db *DB) openReserve(ctx context.Context, r *reserve) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pooled := make(chan *pgxpool.Conn, 1)
	for try := 1; ; try++ {
		conn, err := db.Connect(ctx, func(*pgx.ConnConfig) {})
		r.mutex.Lock()
		r.failed = err != nil
		r.mutex.Unlock()
		if err == nil {
			db.logs.unreserved.Worked(ctx)
			db.giveReserve(r, &spare{Conn: conn, opened: time.Now()}) //nolint:forbidigo // its age
			cancel()
			if try > 1 {
				if conn := <-pooled; conn != nil {
					conn.Release()
				}
			}
			return
		}
		if ctx.Err() == nil {
			db.logs.unreserved.Failed(ctx, errors.Join(db.exhausted(), err))
		}
		if try == 1 {
			go func() {
				conn, _ := db.Pool.Acquire(ctx)
				pooled <- conn
			}()
		}
		select {
		case conn := <-pooled:
			if conn == nil { // the store or the pool is closed
				r.mutex.Lock()
				r.busy = false
				r.mutex.Unlock()
				return
			}
			db.giveReserve(r, &spare{Conn: conn.Conn(), pooled: conn})
			return
		case <-time.After(reserveAgain):
		}
	}
}

// prepareReserve does what the pool does ahead of each use of a connection.
func (db *DB) prepareReserve(ctx context.Context, got *spare) bool {
	if got.pooled != nil {
		return true
	}
	config, good, err := db.Pool.Config(), true, got.Ping(ctx)
	switch {
	case err != nil:
	case config.PrepareConn != nil:
		good, err = config.PrepareConn(ctx, got.Conn)
	case config.BeforeAcquire != nil: //nolint:staticcheck // users may have it
		good = config.BeforeAcquire(ctx, got.Conn) //nolint:staticcheck // as above
	}
	if good && err == nil {
		return true
	}
	_ = got.Close(ctx)
	return false
}

// keepsReserve does what the pool does behind each use of a connection, and reports whether the
// pool would keep it.
func (db *DB) keepsReserve(got *spare) bool {
	if got.pooled != nil {
		return true
	}
	config := db.Pool.Config()
	return time.Since(got.opened) < config.MaxConnLifetime &&
		(config.AfterRelease == nil || config.AfterRelease(got.Conn))
}
