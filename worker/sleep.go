package worker

import (
	"context"
	"time"
)

// sleep waits for d and returns true, or returns false as soon as ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// within reports whether done was closed before d had passed.
func within(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// wakeUp makes whoever receives from the channel look, now or next.
func wakeUp(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// now is only for measuring how long something takes in this process. The times of tasks are those
// of the database.
func now() time.Time {
	return time.Now() //nolint:forbidigo // durations of this process
}
