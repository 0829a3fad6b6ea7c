package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// SilenceMax is how long the database may be silent, before its answer and from one row of it to
// the next. A server that is frozen answers nothing, while its connections
// stand for as long as its system does: without a limit, all who wait would wait for it long after
// another server has taken over. An answer that keeps coming may take any time, on a slow line.
const SilenceMax = 10 * time.Second

// ErrSilent is what calls return if the database is silent for [SilenceMax].
var ErrSilent = fmt.Errorf("the database has not answered for %v", SilenceMax)

// withConn calls use with a connection of the pool, or the reserve. Use calls heard whenever the
// database has said something.
func (db *DB) withConn(
	ctx context.Context, use func(ctx context.Context, conn *pgx.Conn, heard func()) error,
) error {
	acquire := db.acquire
	if db.answers {
		acquire = db.acquireSoon
	}
	conn, err := acquire(ctx)
	if err != nil {
		return unsentIf(ctx, err)
	}
	defer conn.release()
	if !db.answers {
		return use(ctx, conn.Conn, func() {})
	}
	brief, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(db.silence, cancel)
	defer silence.Stop()
	return silentIf(brief, ctx, use(brief, conn.Conn, func() { silence.Reset(db.silence) }))
}

// listening returns steps that call heard at each row.
func listening(steps []Step, heard func()) []Step {
	steps = slices.Clone(steps)
	for i := range steps {
		if read := steps[i].Read; read != nil {
			steps[i].Read = func(rows pgx.Rows) error { return read(heardRows{rows, heard}) }
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

// acquireSoon acquires a connection. It gives up if the pool has handed out none to anybody for
// so long: among many who wait for one, the turn of the last may come later than that.
func (db *DB) acquireSoon(ctx context.Context) (lent, error) {
	brief, cancel := context.WithCancel(ctx)
	defer cancel()
	acquired := db.Pool.Stat().AcquireCount()
	var watch *time.Timer
	started := make(chan struct{})
	watch = time.AfterFunc(db.silence, func() {
		<-started
		now := db.Pool.Stat().AcquireCount()
		if now == acquired || brief.Err() != nil { // or the call is over, and Stop came too late
			cancel()
			return
		}
		acquired = now
		watch.Reset(db.silence)
	})
	close(started)
	defer watch.Stop()
	conn, err := db.acquire(brief)
	if err = silentIf(brief, ctx, err); errors.Is(err, ErrSilent) {
		reason := errors.New("no connection of the pool became free or could be made")
		if db.isExhausted() {
			reason = db.exhausted()
		}
		err = fmt.Errorf("%w: %w", reason, err)
	}
	return conn, err
}

// silentIf returns ErrSilent in the place of an error that came since a limit of the look has
// ended: it must not look like the end of the caller's context.
func silentIf(brief, ctx context.Context, err error) error {
	if err != nil && brief.Err() != nil && ctx.Err() == nil {
		return ErrSilent
	}
	return err
}

// SetSilence sets how long the database may be silent, for tests.
func (db *DB) SetSilence(most time.Duration) { db.silence = most }
