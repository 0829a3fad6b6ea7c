package stint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// lookMax is how long a look of those who wait lets the database be silent, before its answer and
// from one row of it to the next. A server that is frozen answers nothing, while its connections
// stand for as long as its system does: without a limit, all who wait would wait for it long after
// another server has taken over. An answer that keeps coming may take any time, on a slow line.
const lookMax = 10 * time.Second

var errSilent = fmt.Errorf("the database has not answered for %v", lookMax)

// brief returns a store whose statements, outside transactions, fail with errSilent if the database
// is silent.
func (s *Store) brief() *Store {
	within := *s
	within.isBrief = true
	return &within
}

// withConn calls use with a connection of the pool, or the reserve. Use calls heard whenever the
// database has said something.
func (s *Store) withConn(
	ctx context.Context, use func(ctx context.Context, conn *pgx.Conn, heard func()) error,
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
		return use(ctx, conn.Conn, func() {})
	}
	brief, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(s.silence, cancel)
	defer silence.Stop()
	return silentIf(brief, ctx, use(brief, conn.Conn, func() { silence.Reset(s.silence) }))
}

// listening returns steps that call heard at each row.
func listening(steps []step, heard func()) []step {
	steps = slices.Clone(steps)
	for i := range steps {
		if read := steps[i].read; read != nil {
			steps[i].read = func(rows pgx.Rows) error { return read(heardRows{rows, heard}) }
		}
	}
	return steps
}

// heardRows are rows that call heard as they come.
type heardRows struct {
	pgx.Rows
	heard func()
}

func (r heardRows) Next() bool {
	next := r.Rows.Next()
	r.heard()
	return next
}

// acquireBriefly acquires a connection. It gives up if the pool has handed out none to anybody for
// so long: among many who wait for one, the turn of the last may come later than that.
func (s *Store) acquireBriefly(ctx context.Context) (lent, error) {
	brief, cancel := context.WithCancel(ctx)
	defer cancel()
	acquired := s.pool.Stat().AcquireCount()
	var watch *time.Timer
	started := make(chan struct{})
	watch = time.AfterFunc(s.silence, func() {
		<-started
		now := s.pool.Stat().AcquireCount()
		if now == acquired || brief.Err() != nil { // or the call is over, and Stop came too late
			cancel()
			return
		}
		acquired = now
		watch.Reset(s.silence)
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
