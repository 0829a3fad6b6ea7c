package views

import "github.com/stint-tasks/stint"

// A Finding is something that a check has found.
type Finding struct {
	Severity string // error: a fault; warning: it calls for action; note: for information
	Topic    string
	Text     string       // what is wrong, and what to do about it
	ID       stint.TaskID // the task that it is about, if there is one
}

// The severities.
const (
	Error   = "error"
	Warning = "warning"
	Note    = "note"
)
