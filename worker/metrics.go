package worker

import "time"

// Metrics is told of performances. Its methods are called from many goroutines and must not block.
type Metrics interface {
	// Begin notes that a performance of a task with the action begins.
	Begin(action string)
	// End notes how a performance ended, and how long it took until the task was returned.
	End(action string, outcome Outcome, took time.Duration)
}
