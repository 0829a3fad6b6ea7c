package ui

import (
	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/filters"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// A previewData is what a page says before a change, with the form of somebody who agrees.
type previewData struct {
	Heading  string
	Sentence show.Sentence
	Details  []show.Sentence
	Left     []leftOut
	Tasks    []stint.TaskID // the first of those that are changed
	More     int            // how many there are besides
	Fields   []field
	Asks     string // what the reason is for; empty if none is asked for
	Reason   string
	Button   string // empty if there is nothing to do
	Removes  bool
	Back     string
	Command  string

	// Rest is the form with which the script can go on by itself with the tasks that are left: it
	// asks what the change would do to them. Nil if none are left.
	Rest []field

	// Next is the page to which the form leads: that of the change, or another preview.
	Next string

	Limits *limitForm
	Weight *weightForm
	Answer *answerForm
	Insert *insertForm
	Timing *timingForm
	// Schedule is there with Timing, for a new one.
	Schedule *scheduleForm
	Waiting  *waitingForm
}

// A limitForm is the limits of an action as a form has them.
type limitForm struct {
	InProgress int
	Counted    bool
	Fair       bool
	FairGroup  string
	Ordered    bool
	ByCost     bool
	Numbers    []numberField
	Problem    string
}

// A numberField is a number of a form, empty if it is none, and the time that it is of.
type numberField struct {
	Name, Label, Value, Hint string
	Per                      *perField
}

type perField struct {
	Name, Value string
	Choices     []filters.Choice
}

// A weightForm is the weight of a key as a form has it.
type weightForm struct{ Key, Weight, Problem string }

// An answerForm is how a task ended that nobody is given, as somebody says it.
type answerForm struct {
	ResultMax         int
	Code, Result, Key string
	Problem           string
}

// A waitingForm is how tasks are to wait, as a form has it.
type waitingForm struct {
	Start, At, Priority, MaxTries, Key string
	NoKey                              bool
	Starts                             []filters.Choice
	Problem                            string
}

// A formError is that of a form with a value that the store does not take, or, if told, that would
// do what nobody was told before.
type formError struct {
	data previewData
	told bool
	err  error // what the log is to say of it
}

// Error is for nobody: the form is shown again.
func (*formError) Error() string { return "the form is shown again" }

// An insertForm is a new task as a form has it.
type insertForm struct {
	ID, Action, Key, Body, Priority, MaxTries, Cost, After, Headers, Start, At, Deadline string

	When        string // conditions, in JSON
	AnyOf       bool   // one of them is enough
	SameBody    bool
	CopiedBody  int // how many bytes the body of the task has that is copied; 0: there is none
	Actions     []string
	Starts      []filters.Choice
	Problem     string
	WhenProblem string // of the conditions
}

// A scheduleForm is a new schedule as a form has it, without when it occurs.
type scheduleForm struct {
	Name, Action, Key, Body string

	Actions []string
}

// A timingForm is when a schedule occurs, as a form has it.
type timingForm struct {
	Spec, Zone, Jitter, CatchUp, Window, Overlap string

	Expire             bool
	CatchUps, Overlaps []filters.Choice
	Problem            string
}
