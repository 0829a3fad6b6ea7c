package worker

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/groupcommit"
	"github.com/stint-tasks/stint/internal/outage"
)

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

// A returnGroup returns the tasks of performances that end at the same time together, where no
// fetch goes along. The goroutine
// that makes the call also deals with each verdict, not the goroutines that posted the returns: to
// wake those one by one took 15 % of the throughput of a worker.
type returnGroup = groupcommit.Group[struct{}, *performance, struct{}]

// handlerWaits are the calls by which handlers wait for other tasks while they keep their slots.
type handlerWaits struct {
	// slots is how many tasks the execution can perform at once.
	slots int

	mutex sync.Mutex // guards the fields below; it is never held with that of the execution
	calls map[*handlerWait]bool
	timer *time.Timer // runs, or looks, while there are calls
}

type handlerWait struct {
	p      *performance
	source explainer
	ids    []string
	since  time.Time
}

// An explainer is the store, or the client of a service, that has the tasks a handler waits for.
type explainer interface {
	Explain(ctx context.Context, id stint.TaskID) (stint.Explanation, error)
}
