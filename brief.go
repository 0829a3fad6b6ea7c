package stint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// lookMax is how long a look of those who wait lets the database take to answer. A server that is
// frozen answers nothing, while its connections stand for as long as its system does: without a
// limit, all who wait would wait for it long after another server has taken over.
const lookMax = 10 * time.Second

var errSilent = fmt.Errorf("the database has not answered for %v", lookMax)

// brief returns a store whose statements, outside transactions, fail with errSilent if the database
// is silent.
func (s *Store) brief() *Store {
	within := *s
	within.isBrief = true
	return &within
}

// withConn calls use with a connection of the pool.
func (s *Store) withConn(
	ctx context.Context, use func(ctx context.Context, conn *pgxpool.Conn) error,
) error {
	if !s.isBrief {
		return s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error { return use(ctx, conn) })
	}
	conn, err := s.acquireBriefly(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	brief, cancel := context.WithTimeout(ctx, lookMax)
	defer cancel()
	return silentIf(brief, ctx, use(brief, conn))
}

// acquireBriefly acquires a connection. It gives up if the pool has handed out none to anybody for
// lookMax: among many who wait for one, the turn of the last may come later than that.
func (s *Store) acquireBriefly(ctx context.Context) (*pgxpool.Conn, error) {
	brief, cancel := context.WithCancel(ctx)
	defer cancel()
	acquired := s.pool.Stat().AcquireCount()
	var watch *time.Timer
	started := make(chan struct{})
	watch = time.AfterFunc(lookMax, func() {
		<-started
		now := s.pool.Stat().AcquireCount()
		if now == acquired || brief.Err() != nil { // or the call is over, and Stop came too late
			cancel()
			return
		}
		acquired = now
		watch.Reset(lookMax)
	})
	close(started)
	defer watch.Stop()
	conn, err := s.pool.Acquire(brief)
	if err = silentIf(brief, ctx, err); errors.Is(err, errSilent) {
		err = fmt.Errorf("no connection of the pool became free or could be made: %w", err)
	}
	return conn, err
}

// silentIf returns errSilent in the place of an error that came since a limit of the look has
// ended: it must not look like the end of the caller's context.
func silentIf(brief, ctx context.Context, err error) error {
	if err != nil && brief.Err() != nil && ctx.Err() == nil {
		return errSilent
	}
	return err
}
