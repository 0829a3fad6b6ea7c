package worker

import (
	"time"

	"github.com/stint-tasks/stint"
)

// Metrics receives the performances of a worker. Its methods are called from many goroutines and
// must not block, nor change or keep the task. If one panics, a count is missing, and the log says
// so.
type Metrics interface {
	// Begin is called when a performance of a task begins.
	Begin(task *stint.OwnedTask)
	// End is called with how a performance ended, and how long it took until the task was returned.
	// The return has been committed then, unless the outcome is [OutcomeLost].
	End(task *stint.OwnedTask, outcome Outcome, took time.Duration)
}
