package outage

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// A Tally logs failures that come one by one, such as those of the tasks of an action, while other
// work of the kind may succeed: the first at once, and all that follow within a minute together, at
// its end, with the details of the last. So it writes no more than a record a minute. It is safe
// for concurrent use.
type Tally struct {
	logger *slog.Logger
	level  slog.Level
	what   string

	mutex sync.Mutex
	// quiet runs for a minute after a record; nil if there was none.
	quiet    *time.Timer
	failures int // that were not logged
	since    time.Time
	last     []slog.Attr
	ctx      context.Context //nolint:containedctx // of the last failure
}

// Failed counts a failure with its details, and reports whether it was logged.
func (t *Tally) Failed(ctx context.Context, details ...slog.Attr) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.quiet == nil {
		t.quiet = time.AfterFunc(Every, t.next)
		t.logger.LogAttrs(ctx, t.level, t.what, details...) //nolint:sloglint // that of Tallies
		return true
	}
	if t.failures == 0 {
		t.since = time.Now() //nolint:forbidigo // how long it lasts for this process
	}
	t.failures++
	t.last, t.ctx = slices.Clone(details), context.WithoutCancel(ctx)
	return false
}

// next ends a minute, and begins another one if there were failures.
func (t *Tally) next() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.quiet == nil {
		return // flushed
	}
	t.quiet = nil
	if t.failures > 0 {
		t.quiet = time.AfterFunc(Every, t.next)
		t.tell()
	}
}

// tell logs the failures that were counted; the mutex is held.
func (t *Tally) tell() {
	now := time.Now() //nolint:forbidigo // as above
	details := t.last
	if t.failures > 1 {
		details = append(details, slog.Int("failures", t.failures), slog.Time("since", t.since),
			slog.Duration("for", now.Sub(t.since)))
	}
	t.logger.LogAttrs(t.ctx, t.level, t.what, details...) //nolint:sloglint // as above
	t.failures, t.last, t.ctx = 0, nil, nil
}

// flush logs what was counted, and begins anew.
func (t *Tally) flush() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.quiet != nil {
		t.quiet.Stop()
		t.quiet = nil
	}
	if t.failures > 0 {
		t.tell()
	}
}

// A Kind is what a [Tally] counts: the message and the level of its records, and whose failures
// they are, such as an action.
type Kind struct {
	What  string
	Level slog.Level
	Of    string
}

// Tallies are a [Tally] for each kind of failure. There must not be ever more kinds: of is no ID.
type Tallies struct {
	logger *slog.Logger
	mutex  sync.Mutex
	kinds  map[Kind]*Tally
}

// NewTallies returns Tallies of no failures.
func NewTallies(logger *slog.Logger) *Tallies {
	return &Tallies{logger: logger, kinds: map[Kind]*Tally{}}
}

// Failed counts a failure of a kind. One that is not logged for now is logged by itself at the
// level Debug.
func (t *Tallies) Failed(ctx context.Context, kind Kind, details ...slog.Attr) {
	if !t.logger.Enabled(ctx, kind.Level) {
		return
	}
	t.mutex.Lock()
	of := t.kinds[kind]
	if of == nil {
		of = &Tally{logger: t.logger, level: kind.Level, what: kind.What}
		t.kinds[kind] = of
	}
	t.mutex.Unlock()
	if !of.Failed(ctx, details...) {
		t.logger.LogAttrs(ctx, slog.LevelDebug, kind.What, details...) //nolint:sloglint // as above
	}
}

// Flush logs what was counted and not logged, since no minute will end any more.
func (t *Tallies) Flush() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for _, of := range t.kinds {
		of.flush()
	}
}
