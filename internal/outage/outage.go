// Package outage logs work that fails again and again: when it begins to fail, seldom while that
// lasts, and when it works again. The store, the worker, the service and its client use it for work
// in the background and for calls, since every process fails many times while a server cannot be
// reached, and the reader of the log wants to know it once, and since when. It also adds to errors
// of the server what to do about them.
package outage

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Every is how often the same failure is logged.
const Every = time.Minute

// A Log logs the failures of one kind of work. It is safe for concurrent use.
//
// The first failure is logged at once, unless a failure of the work was logged within the last
// minute: otherwise work that fails every other time would be logged each time. An outage that was
// over before it was logged is not logged at all.
type Log struct {
	logger *slog.Logger
	what   string

	failing  atomic.Bool // so that work that succeeds costs nothing
	mutex    sync.Mutex
	failures int
	since    time.Time
	toldAt   time.Time
	told     bool // of this outage
}

// New returns a Log whose records have the message what.
func New(logger *slog.Logger, what string) *Log { return &Log{logger: logger, what: what} }

// Failed logs that the work has failed, if it is time to.
func (l *Log) Failed(ctx context.Context, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now := time.Now() //nolint:forbidigo // how long it lasts for this process
	if l.failures == 0 {
		l.since = now
		l.failing.Store(true)
	}
	l.failures++
	if !l.toldAt.IsZero() && now.Sub(l.toldAt) < Every {
		return
	}
	l.toldAt, l.told = now, true
	attrs := []slog.Attr{slog.Any("error", err)}
	if l.failures > 1 {
		attrs = append(attrs, l.extent(now)...)
	}
	l.logger.LogAttrs(ctx, slog.LevelWarn, l.what, attrs...) //nolint:sloglint // that of New
}

// Worked logs that the work succeeds again, if its failure was logged.
func (l *Log) Worked(ctx context.Context) {
	if !l.failing.Load() {
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.told {
		now := time.Now() //nolint:forbidigo // as above
		attrs := append([]slog.Attr{slog.String("failure", l.what)}, l.extent(now)...)
		l.logger.LogAttrs(ctx, slog.LevelInfo, "works again", attrs...)
	}
	l.failures, l.told = 0, false
	l.failing.Store(false)
}

// extent is how often the work has failed, and since when.
func (l *Log) extent(now time.Time) []slog.Attr {
	return []slog.Attr{
		slog.Int("failures", l.failures), slog.Time("since", l.since),
		slog.Duration("for", now.Sub(l.since)),
	}
}
