package worker

import "time"

// Metrics receives the performances of a worker. Its methods are called from many goroutines and
// must not block. If one panics, a count is missing, and the log says so.
type Metrics interface {
	// Begin is called when a performance of a task with the action begins.
	Begin(action string)
	// End is called with how a performance ended, and how long it took until the task was returned.
	End(action string, outcome Outcome, took time.Duration)
}
