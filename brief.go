package stint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
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

// withConn calls use with a connection of the pool, or the reserve.
func (s *Store) withConn(
	ctx context.Context, use func(ctx context.Context, conn *pgx.Conn) error,
) error {
	acquire := s.acquire
	if s.isBrief {
		acquire = s.acquireBriefly
	}
	conn, err := acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.release()
	if !s.isBrief {
		return use(ctx, conn.Conn)
	}
	brief, cancel := context.WithTimeout(ctx, lookMax)
	defer cancel()
	return silentIf(brief, ctx, use(brief, conn.Conn))
}

// acquireBriefly acquires a connection. It gives up if the pool has handed out none to anybody for
// so long: among many who wait for one, the turn of the last may come later than that.
func (s *Store) acquireBriefly(ctx context.Context) (lent, error) {
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
	conn, err := s.acquire(brief)
	if err = silentIf(brief, ctx, err); errors.Is(err, errSilent) {
		reason := errors.New("no connection of the pool became free or could be made")
		if s.isExhausted() {
			reason = s.exhausted()
		}
		err = fmt.Errorf("%w: %w", reason, err)
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
