package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/outage"
)

// attemptMax is how long one attempt to give tasks back, or to take leave, may take.
const attemptMax = 5 * time.Second

// reconnect returns the pauses between attempts to reach a database that cannot be reached. Behind
// a restart the last one is how long tasks wait for nothing, so they stay short.
func reconnect() Retry { return Retry{Base: 100 * time.Millisecond, Max: time.Second} }

// An execution is what the goroutines of one [Worker.Run] share.
type execution struct {
	*Worker
	logger *slog.Logger

	// stopped is closed when the worker no longer waits for handlers to return, nor for a database
	// that cannot be reached.
	stopped chan struct{}

	// leaveBy is until when what the end of the run still asks of the server may take.
	leaveBy time.Time

	performing sync.WaitGroup
	// handlers is how many handlers have not returned, also those that nobody waits for any more.
	handlers atomic.Int64

	ended   endedQueue
	returns *returnGroup
	outage  serverOutage
	waits   handlerWaits
	unbegun unbegunTasks
	// releasing is what the log has of attempts to give back tasks that have not begun.
	releasing *outage.Log

	mutex sync.Mutex // guards the fields below
	held  map[stint.Token]*performance
	// No lease is known to expire before expiry. Sooner is sent to when a new lease does.
	expiry time.Time
	sooner chan struct{}
}

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

// hopeless reports whether a call fails with err however often it is repeated.
func hopeless(err error) bool {
	return errors.Is(err, stint.ErrSchemaVersion) || errors.Is(err, stint.ErrClosed) ||
		errors.Is(err, stint.ErrInvalidArgument) || errors.Is(err, stint.ErrRefused)
}
