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
	// The return has been committed then, unless the outcome is [OutcomeLost], or the handler has
	// called [Task.ReturnIn]: then only its transaction can tell.
	End(task *stint.OwnedTask, outcome Outcome, took time.Duration)
}

// An Outcome is how a performance ended.
type Outcome string

// The outcomes.
const (
	OutcomeCompleted Outcome = "completed"
	OutcomeRetried   Outcome = "retried" // given back for another try
	OutcomeSnoozed   Outcome = "snoozed" // given back until later, without a try
	OutcomeAborted   Outcome = "aborted" // by the handler, or since it was the last try
	OutcomeStopped   Outcome = "stopped" // given back because the worker stops
	OutcomeLost      Outcome = "lost"    // nothing was returned
	// OutcomeOverdue is that of a task that was given back, for another try if there was one, since
	// its handler had not returned within the grace of its time-out.
	OutcomeOverdue Outcome = "overdue"
)
