package pg

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stint-tasks/stint/internal/outage"
)

// background is work besides the calls, until the DB is closed.
type background struct {
	mutex   sync.Mutex
	stopped bool
	wait    sync.WaitGroup
	launch  func(work func(context.Context))
	end     context.CancelFunc
}

func newBackground() *background {
	ctx, end := context.WithCancel(context.Background())
	b := &background{end: end}
	b.launch = func(work func(context.Context)) { b.wait.Go(func() { work(ctx) }) }
	return b
}

// start runs work in a goroutine, whose context ends when the DB is closed. It reports whether it
// did: after that, it starts nothing.
func (b *background) start(work func(context.Context)) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.stopped {
		return false
	}
	b.launch(work)
	return true
}

// stop ends all work and waits for it, no longer than ctx allows.
func (b *background) stop(ctx context.Context) error {
	b.mutex.Lock()
	b.stopped = true
	b.mutex.Unlock()
	b.end()
	done := make(chan struct{})
	go func() {
		b.wait.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RepeatUntil does work once per interval until ctx ends. The log calls it by its name. Work that
// fails is logged and tried again, after pauses that grow while it fails.
func (db *DB) RepeatUntil(
	ctx context.Context, name string, every time.Duration, work func(context.Context) error,
) {
	outages := outage.New(db.Logger.With(slog.String("work", name), slog.Duration("every", every)),
		"work in the background failed, it is tried again soon")
	pause := every
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(Around(pause)):
		}
		pause = PauseAfterWork(Failed(ctx, outages, work(ctx)), pause, every)
	}
}

// OutagePauseMax is how long, on average, the pauses between attempts at failing work may grow,
// unless its interval is longer anyway. When the server can be reached again, a store may notice
// this much later.
const OutagePauseMax = 3 * time.Second

// PauseAfterWork is the pause after work that is done once per interval. After a failure it is
// twice as long as the pause before, so that many stores do not besiege a server that cannot be
// reached.
func PauseAfterWork(failed bool, pause, every time.Duration) time.Duration {
	if !failed {
		return every
	}
	return min(2*pause, max(every, OutagePauseMax))
}

// logs are of work that begins and ends again and again.
type logs struct{ unsent, starved, unreserved, standby, copied *outage.Log }

func newLogs(logger *slog.Logger) logs {
	return logs{
		unsent: outage.New(logger, "others were not told of tasks they may wait for"),
		starved: outage.New(logger, "an owner's call went over a connection besides the pool, "+
			"which is too small"),
		unreserved: outage.New(logger, "owners' calls wait for the pool, since no connection "+
			"besides it can be opened"),
		standby: outage.New(logger, "a connection leads to a standby, which changes nothing: it "+
			"is given up, and another one is made"),
		copied: outage.New(logger, "nothing is handed out, and no schedule fires"),
	}
}

// Failed reports whether background work has failed, and logs the failure if it is time to. It logs
// no error that comes from the closing of the DB, nor that it leads to a copy, which has a log of
// its own.
func Failed(ctx context.Context, outages *outage.Log, err error) bool {
	switch {
	case err == nil:
		outages.Worked(ctx)
		return false
	case ctx.Err() == nil && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrCopy):
		outages.Failed(ctx, err)
	}
	return true
}

// Around returns a random pause that has the given length on average. The jitter keeps many
// processes from acting all at once.
func Around(pause time.Duration) time.Duration {
	return pause*3/4 + rand.N(pause/2+1) //nolint:gosec // no secret
}

// WakeUp makes the receiver of the channel look, now or when it is next free. It reports false if
// the receiver has been woken already and has not looked since.
func WakeUp(wake chan<- struct{}) bool {
	select {
	case wake <- struct{}{}:
		return true
	default:
		return false
	}
}
