package stint

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

// reserves keep owners alive where the pool has no connection for them, since handlers hold all of
// them and wait for more: the store then has a connection of its own, for one call at a time. The
// calls of prompt never wait long for a lock: heartbeats, and the cuts that separate a task from
// its neighbours. Those of patient may: returns, for example.
type reserves struct{ prompt, patient reserve }

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

// asOwner returns a store whose statements, outside transactions, do not wait for a connection of
// the pool for longer than it takes to get the reserve.
func (s *Store) asOwner(of *reserve, lease time.Duration) *Store {
	within := *s
	within.reserve, within.reserveAfter = of, reserveAfter
	if lease > 0 {
		within.reserveAfter = min(reserveAfter, lease/reservePart)
	}
	return &within
}

// A lent connection is used by one call.
type lent struct {
	*pgx.Conn
	release func()
}

// acquire acquires a connection of the pool or, for an owner's verb, the reserve, whichever comes
// first.
func (s *Store) acquire(ctx context.Context) (lent, error) {
	if s.conn != nil {
		return lent{s.conn, func() {}}, nil
	}
	if s.reserve == nil {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return lent{}, s.starved(ctx, err)
		}
		return lent{conn.Conn(), conn.Release}, nil
	}
	acquiring, cancel := context.WithCancel(ctx)
	defer cancel()
	var got *spare
	asked := make(chan struct{})
	asking := time.AfterFunc(s.reserveAfter, func() {
		defer close(asked)
		for !s.isExhausted() { // it is opening connections
			select {
			case <-time.After(s.reserveAfter):
			case <-acquiring.Done():
				return
			}
		}
		if got = s.askReserve(acquiring); got != nil {
			cancel()
		}
	})
	conn, err := s.pool.Acquire(acquiring)
	cancel()
	if asking.Stop() {
		s.logs.unreserved.Worked(ctx) // nobody needs it
	} else {
		<-asked
	}
	switch {
	case err == nil:
		if got != nil {
			s.giveReserve(s.reserve, got)
		}
		return lent{conn.Conn(), conn.Release}, nil
	case got != nil:
		s.logs.starved.Failed(ctx, s.exhausted())
		return lent{got.Conn, func() { s.giveReserve(s.reserve, got) }}, nil
	}
	return lent{}, s.starved(ctx, err)
}

// starved names the pool in the error of a call whose context has ended before it got a connection.
func (s *Store) starved(ctx context.Context, err error) error {
	if ctx.Err() == nil || !s.isExhausted() {
		return err
	}
	return fmt.Errorf("%w: %w", s.exhausted(), err)
}

func (s *Store) isExhausted() bool {
	stat := s.pool.Stat()
	return stat.AcquiredConns() >= stat.MaxConns()
}

func (s *Store) exhausted() error {
	return fmt.Errorf("all %d connections of the pool are in use", s.pool.Stat().MaxConns())
}

// askReserve waits for the reserve until ctx ends. It returns nil if it did not get it, or none
// that can be used.
func (s *Store) askReserve(ctx context.Context) *spare {
	const attempts = 3 // an unused one may be from before a restart of the server
	for range attempts {
		got := s.awaitReserve(ctx, s.reserve)
		if got == nil || s.prepareReserve(ctx, got) {
			return got
		}
		s.giveReserve(s.reserve, got)
	}
	return nil
}

func (s *Store) awaitReserve(ctx context.Context, r *reserve) *spare {
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
			r.busy = s.background.start(func(ctx context.Context) { s.openReserve(ctx, r) })
		}
	}
	r.mutex.Unlock()
	select {
	case got := <-turn:
		return got
	case <-ctx.Done():
		if got := r.leave(turn); got != nil {
			s.giveReserve(r, got)
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
func (s *Store) giveReserve(r *reserve, got *spare) {
	good := !got.IsClosed() && got.PgConn().TxStatus() == 'I' && s.keepsReserve(got)
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
		r.unused = time.AfterFunc(unused, func() { s.dropReserve(r, got) })
		return
	}
	go got.drop() // a server that is gone must hold up nobody
	r.busy = len(r.waiting) > 0 &&
		s.background.start(func(ctx context.Context) { s.openReserve(ctx, r) })
}

// dropReserve closes the reserve if it is still unused.
func (s *Store) dropReserve(r *reserve, unused *spare) {
	r.mutex.Lock()
	isUnused := r.idle == unused
	if isUnused {
		r.idle = nil
	}
	r.mutex.Unlock()
	if isUnused {
		s.logs.starved.Worked(context.Background())
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
	ctx, cancel := undoing(context.Background())
	defer cancel()
	_ = c.Close(ctx)
}

// openReserve opens the reserve for those who wait for it. While the server has no room for another
// connection, it keeps a place among those who wait for the pool, however often the calls that need
// it give up and are made again.
func (s *Store) openReserve(ctx context.Context, r *reserve) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pooled := make(chan *pgxpool.Conn, 1)
	for try := 1; ; try++ {
		conn, err := s.connect(ctx, func(*pgx.ConnConfig) {})
		r.mutex.Lock()
		r.failed = err != nil
		r.mutex.Unlock()
		if err == nil {
			s.logs.unreserved.Worked(ctx)
			s.giveReserve(r, &spare{Conn: conn, opened: time.Now()}) //nolint:forbidigo // its age
			cancel()
			if try > 1 {
				if conn := <-pooled; conn != nil {
					conn.Release()
				}
			}
			return
		}
		if ctx.Err() == nil {
			s.logs.unreserved.Failed(ctx, errors.Join(s.exhausted(), err))
		}
		if try == 1 {
			go func() {
				conn, _ := s.pool.Acquire(ctx)
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
			s.giveReserve(r, &spare{Conn: conn.Conn(), pooled: conn})
			return
		case <-time.After(reserveAgain):
		}
	}
}

// prepareReserve does what the pool does ahead of each use of a connection.
func (s *Store) prepareReserve(ctx context.Context, got *spare) bool {
	if got.pooled != nil {
		return true
	}
	config, good, err := s.pool.Config(), true, got.Ping(ctx)
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
func (s *Store) keepsReserve(got *spare) bool {
	if got.pooled != nil {
		return true
	}
	config := s.pool.Config()
	return time.Since(got.opened) < config.MaxConnLifetime &&
		(config.AfterRelease == nil || config.AfterRelease(got.Conn))
}
