package worker

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stint-tasks/stint"
)

// A performance is one fetch of a task, from when it is owned until it is returned or lost.
type performance struct {
	task *Task
	of   *handling
	// ctx is the context of the handler without its time-out. It has the span of the performance.
	ctx   context.Context //nolint:containedctx // the performance is the call
	end   context.CancelCauseFunc
	span  trace.Span
	begun time.Time

	// until is when the lease expires; expired says that it has. The mutex of the execution guards
	// both.
	until   time.Time
	expired bool
	lost    atomic.Bool

	// settled says that settle was called; only the goroutine that returns the task or lets go of
	// it uses the fields below.
	settled atomic.Bool
	ending  ending
	outcome Outcome
	ret     stint.Return
	// unsure says that an attempt to return the task got no answer, so it may have returned it.
	unsure bool
}

// lose tells the handler that its task is lost, unless it has returned the task itself.
func (p *performance) lose(cause error) {
	if !p.task.returned.Load() {
		p.lost.Store(true)
		p.end(cause)
	}
}

// unwaited is the ending of a performance whose handler nobody waits for any more because of err,
// unless the handler has said how the task has ended.
func (p *performance) unwaited(err, cause error) ending {
	if t := p.task.inBatch.Load(); t != nil {
		if said, ok := t.ending(); ok {
			return said
		}
	}
	return ended(endedUnwaited, err, cause)
}
