package stint

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// background is the work that a store does besides its verbs, until it is closed.
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

// start runs work in a goroutine, whose context ends when the store is closed. It reports whether
// it did: a store that is closed starts nothing.
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

// repeat does a part of the store's background work every so often: the parts do not wait for each
// other.
func (s *Store) repeat(every time.Duration, work func(context.Context) error) {
	s.background.start(func(ctx context.Context) { s.repeatUntil(ctx, every, work) })
}

// repeatUntil does work every so often until ctx ends. What fails is logged, and done the next
// time.
func (s *Store) repeatUntil(
	ctx context.Context, every time.Duration, work func(context.Context) error,
) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(around(every)):
		}
		err := work(ctx)
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrClosed) {
			s.logger.WarnContext(ctx, "work in the background failed, it is tried again soon",
				slog.Any("error", err), slog.Duration("every", every))
		}
	}
}
