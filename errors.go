package stint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-tasks/stint/internal/ends"
	"github.com/stint-tasks/stint/internal/headers"
	"github.com/stint-tasks/stint/internal/pg"
)

// The errors of this package, to be matched with [errors.Is]. Those about tasks come wrapped in a
// [*TaskError] that names the tasks, those about arguments in an [*ArgumentError]. A call that
// fails with a *TaskError or an *ArgumentError has changed nothing.
var (
	// ErrTaskExists reports that an ID is taken, or comes twice in one call (R1). When an insert is
	// repeated because its outcome is unknown, this error says that the first one took place.
	ErrTaskExists = errors.New("task exists")

	// ErrTaskNotFound reports that the store holds no task with an ID: it never did, or the task
	// was deleted or pruned.
	ErrTaskNotFound = errors.New("task not found")

	// ErrTaskInProgress reports that a task cannot be replaced (R5) or deleted (R17): it is owned.
	ErrTaskInProgress = errors.New("task is in progress")

	// ErrTaskStarted reports that a task cannot be made to wait, or changed: it is in progress or
	// final (R3, R6, R16).
	ErrTaskStarted = errors.New("task has started")

	// ErrTaskFinished reports that there is nothing to wait for: the predecessor is final (R16); or
	// that a task cannot be answered any more: it is final, or its Deadline has passed (R22).
	ErrTaskFinished = errors.New("task has finished")

	// ErrTaskBlocked reports that a task cannot be answered yet: it waits for other tasks, or for
	// its time.
	ErrTaskBlocked = errors.New("task is blocked")

	// ErrCycle reports that tasks would wait for each other (R4). It comes in a [*CycleError].
	ErrCycle = errors.New("dependencies form a cycle")

	// ErrPredecessorAborted reports that a task cannot be retried: a predecessor was aborted and is
	// not among the retried tasks.
	ErrPredecessorAborted = errors.New("predecessor was aborted")

	// ErrInvalidToken reports that a token is not the token of the task's last owner, or that the
	// task is no longer owned (R8). The caller has lost the task and should drop its work.
	ErrInvalidToken = errors.New("invalid performance token")

	// ErrInvalidAnswerKey reports that an answer came without the key that its task was inserted
	// with, or with another one: [Task.AnswerKey].
	ErrInvalidAnswerKey = errors.New("invalid answer key")

	// ErrAlreadyReturned reports that the same return was made before, with the same token and the
	// same outcome, so there is nothing left to do (R11). It is also an [ErrInvalidToken].
	ErrAlreadyReturned = fmt.Errorf("task was already returned with this outcome: %w",
		ErrInvalidToken)

	// ErrScheduleNotFound reports that the store holds no schedule with a name. It comes wrapped in
	// a [*ScheduleError].
	ErrScheduleNotFound = errors.New("schedule not found")

	// ErrNoPostResult reports that a task cannot be waited for: it has no PostResult (R19).
	ErrNoPostResult = errors.New("task was inserted without PostResult")

	// ErrEndsPruned reports that tasks have been pruned that ended behind the cursor of a caller
	// who follows ends: [Store.Ends] cannot tell which.
	ErrEndsPruned = ends.ErrPruned

	// ErrBusy reports a return that [Store.ReturnAndOwnTasks] has not made, since it would have to
	// wait.
	ErrBusy = errors.New("return would have to wait")

	// ErrInvalidArgument reports a value that is refused before the database sees it.
	ErrInvalidArgument = errors.New("invalid argument")

	// ErrTooLarge reports a value over its limit. It is also an [ErrInvalidArgument].
	ErrTooLarge = fmt.Errorf("too large: %w", ErrInvalidArgument)

	// ErrRefused reports that a service does not let its caller do this, or does not know the
	// caller: see the package service. A store never returns it.
	ErrRefused = errors.New("the service refuses the call")

	// ErrCopy reports that the database is a copy, such as a restored dump: nothing is handed out
	// or maintained there until somebody calls [Adopt] (stint adopt). All other verbs work; of
	// ReturnAndOwnTasks the returns are refused, too. Copies of files are told by
	// [Options.Environment].
	ErrCopy = pg.ErrCopy

	// ErrClosed reports that the store was closed.
	ErrClosed = pg.ErrClosed

	// ErrSchemaVersion reports that the database schema is missing, older than this release works
	// with, or so much newer that it does not work with this release. The package migrations brings
	// it up to date. A schema that Citus distributes over its nodes is refused with it, too.
	ErrSchemaVersion = pg.ErrSchemaVersion
)

// A TaskError names the tasks that an error is about.
type TaskError struct {
	IDs []TaskID // all tasks concerned, each once, in order
	Err error    // what is wrong with them: one of the errors of this package
}

// taskError is a TaskError about tasks in any order, some perhaps named twice.
func taskError(ids []TaskID, err error) error {
	slices.Sort(ids)
	return &TaskError{IDs: slices.Compact(ids), Err: err}
}

// namedMax is how many tasks the text of an error names.
const namedMax = 5

func (e *TaskError) Error() string {
	var text strings.Builder
	text.WriteString(e.Err.Error())
	for i, id := range e.IDs {
		if i == namedMax {
			fmt.Fprintf(&text, " and %d more", len(e.IDs)-namedMax)
			break
		}
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		fmt.Fprintf(&text, "%s%q", separator, string(id))
	}
	return text.String()
}

// Unwrap returns [TaskError.Err].
func (e *TaskError) Unwrap() error { return e.Err }

// A ScheduleError names the schedules that an error is about.
type ScheduleError struct {
	Names []string // all schedules concerned, each once, in order
	Err   error    // [ErrScheduleNotFound], or what is wrong with the schedule
}

func (e *ScheduleError) Error() string {
	if !errors.Is(e.Err, ErrScheduleNotFound) {
		return fmt.Sprintf("schedule %s: %s", quoted(e.Names), e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Err, quoted(e.Names))
}

// Unwrap returns [ScheduleError.Err].
func (e *ScheduleError) Unwrap() error { return e.Err }

// quoted are the first names of a list, and how many more there are.
func quoted(names []string) string {
	var text strings.Builder
	for i, name := range names {
		if i == namedMax {
			fmt.Fprintf(&text, " and %d more", len(names)-namedMax)
			break
		}
		if i > 0 {
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, "%q", name)
	}
	return text.String()
}

// A CycleError describes the cycle that dependencies would form.
type CycleError struct {
	// Path lists the tasks of a cycle, each waiting for the one before it; the last is the first
	// again.
	Path []TaskID
}

func (e *CycleError) Error() string {
	var text strings.Builder
	text.WriteString(ErrCycle.Error())
	for i, id := range e.Path {
		separator := " -> "
		if i == 0 {
			separator = ": "
		}
		if i == pathMax && len(e.Path) > pathMax+1 {
			fmt.Fprintf(&text, "%s(%d more)", separator, len(e.Path)-pathMax-1)
		}
		if i < pathMax || i == len(e.Path)-1 {
			fmt.Fprintf(&text, "%s%q", separator, string(id))
		}
	}
	return text.String()
}

// pathMax is how many tasks of a cycle the text of an error names, besides the last.
const pathMax = 10

// Unwrap returns [ErrCycle].
func (e *CycleError) Unwrap() error { return ErrCycle }

// A DependencyError lists the dependencies that AddDependencies refused: repeat it without these.
type DependencyError struct {
	Refused []RefusedDependency
}

// A RefusedDependency is a dependency that cannot be added, with the reason.
type RefusedDependency struct {
	Dependency

	// Err is [ErrTaskFinished] if the predecessor is final, [ErrTaskStarted] if the dependent is in
	// progress or final, [ErrTaskNotFound] if one of them does not exist.
	Err error

	// PredecessorState and DependentState are the states found; empty if there is no such task. A
	// task whose lease has expired counts as in progress until somebody else owns it.
	PredecessorState, DependentState State
}

func (e *DependencyError) Error() string {
	var text strings.Builder
	text.WriteString("dependencies refused")
	for i, refused := range e.Refused {
		if i == namedMax {
			fmt.Fprintf(&text, " and %d more", len(e.Refused)-namedMax)
			break
		}
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		fmt.Fprintf(&text, "%s%q after %q (%v)", separator, string(refused.Dependent),
			string(refused.Predecessor), refused.Err)
	}
	return text.String()
}

// Unwrap returns the errors of the refused dependencies, each once.
func (e *DependencyError) Unwrap() []error {
	var errs []error
	for _, refused := range e.Refused {
		if !slices.Contains(errs, refused.Err) {
			errs = append(errs, refused.Err)
		}
	}
	return errs
}

// An ArgumentError says which argument was refused and why.
type ArgumentError struct {
	Argument string // its name, such as "lease" or "Task.ID"
	Index    int    // the place of the task or return in the call, -1 if the call takes no list
	ID       TaskID // the task that the value belongs to, if there is one
	Problem  string // says what is wrong with the value
	Err      error  // [ErrInvalidArgument] or [ErrTooLarge]
}

func (e *ArgumentError) Error() string {
	where := e.Argument
	if e.Index >= 0 {
		where = fmt.Sprintf("%s at index %d", where, e.Index)
		if e.ID != "" {
			where = fmt.Sprintf("%s (task %.80q)", where, string(e.ID))
		}
	}
	return fmt.Sprintf("%s: %s: %s", e.Err, where, e.Problem)
}

// Unwrap returns [ArgumentError.Err].
func (e *ArgumentError) Unwrap() error { return e.Err }

// ErrClaimSpent reports that nothing is fetched under a [Claim] any more: it was released, or
// tasks were fetched under it that the actor does not own. The caller goes on under a new claim.
var ErrClaimSpent = errors.New("claim was used before")

// The limits of design: each is checked here before the database sees the value, and again by a
// constraint of the table.
const (
	idBytesMax          = 512
	actionBytesMax      = 255
	keyBytesMax         = 255
	actorBytesMax       = 255
	statusBytesMax      = 64 << 10
	statusPartBytesMax  = 512
	bodyBytesMax        = 64 << 20
	resultBytesMax      = 64 << 20
	schemaBytesMax      = 63
	environmentBytesMax = 255
	costMax             = 1_000_000_000
	ownedTasksMax       = 100_000
	leaseMax            = 10 * 365 * 24 * time.Hour
	actionsMax          = 10_000
	listedTasksMax      = 10_000
	// A page looks at the queue of each action.
	listedActionsMax = 1000
	retryAfterMax    = leaseMax
)

func argumentError(argument, problem string) *ArgumentError {
	return &ArgumentError{
		Argument: argument, Index: -1, Problem: problem, Err: ErrInvalidArgument,
	}
}

func tooLarge(argument string, size, limit int) *ArgumentError {
	return &ArgumentError{
		Argument: argument, Index: -1, Err: ErrTooLarge,
		Problem: fmt.Sprintf("%d exceeds the limit of %d", size, limit),
	}
}

// checkText checks a name: not empty, not too long, valid UTF-8, no NUL.
func checkText(argument, text string, bytesMax int) error {
	switch {
	case text == "":
		return argumentError(argument, "must not be empty")
	case len(text) > bytesMax:
		return tooLarge(argument+" bytes", len(text), bytesMax)
	case !utf8.ValidString(text):
		return argumentError(argument, "must be valid UTF-8")
	case strings.IndexByte(text, 0) >= 0:
		return argumentError(argument, "must not contain a NUL byte")
	}
	return nil
}

func checkHeaders(argument string, given map[string]string) error {
	switch problem, isTooLarge := headers.Check(given); {
	case isTooLarge:
		return &ArgumentError{Argument: argument, Index: -1, Problem: problem, Err: ErrTooLarge}
	case problem != "":
		return argumentError(argument, problem)
	}
	return nil
}

// at adds the place in a list to an argument's error.
func at(err error, index int, id TaskID) error {
	if argument, ok := err.(*ArgumentError); ok { //nolint:errorlint // made just before, unwrapped
		argument.Index, argument.ID = index, id
	}
	return err
}

func checkTask(task *Task, index int) error {
	return at(task.check(), index, task.ID)
}

func (t *Task) checkConditions() error {
	if len(t.WhenAny) > 0 && len(t.When)+len(t.After) > 0 {
		return argumentError("Task.WhenAny", "excludes After and When; to wait for more, wait for "+
			"a spontaneous task that has the WhenAny")
	}
	conditions := t.conditions()
	if len(conditions) == 0 {
		return nil
	}
	named := make(map[TaskID]bool, len(conditions))
	for _, condition := range conditions {
		if err := condition.check(); err != nil {
			return err
		}
		if named[condition.After] || slices.Contains(t.After, condition.After) {
			return argumentError("Condition.After", fmt.Sprintf("%q is named twice; name it once, "+
				"with all its States and Results", string(condition.After)))
		}
		named[condition.After] = true
	}
	return nil
}

func (c *Condition) check() error {
	const resultsMax, resultBytesMax = 32, 255
	if err := checkText("Condition.After", string(c.After), idBytesMax); err != nil {
		return err
	}
	for _, state := range c.States {
		if state != StateCompleted && state != StateAborted && state != StateSkipped {
			return argumentError("Condition.States",
				"must be StateCompleted, StateAborted or StateSkipped")
		}
	}
	switch {
	case len(c.Results) > resultsMax:
		return tooLarge("Condition.Results", len(c.Results), resultsMax)
	case len(c.Results) > 0 && len(c.States) > 0 && !slices.Contains(c.States, StateCompleted):
		return argumentError("Condition.Results",
			"is about tasks that complete: add StateCompleted")
	}
	for _, result := range c.Results {
		if len(result) > resultBytesMax {
			return tooLarge("Condition.Results bytes", len(result), resultBytesMax)
		}
	}
	return nil
}

func checkLease(lease time.Duration) error {
	switch {
	case lease == NoExpiry:
		return nil
	case lease <= 0:
		return argumentError("lease", "must be positive; use NoExpiry for none")
	case lease < time.Microsecond:
		return argumentError("lease", "must be at least a microsecond")
	case lease > leaseMax:
		return &ArgumentError{
			Argument: "lease", Index: -1, Err: ErrTooLarge, Problem: "must not exceed ten years",
		}
	}
	return nil
}

func checkIDs(ids []TaskID) error {
	for i, id := range ids {
		if err := checkText("task ID", string(id), idBytesMax); err != nil {
			return at(err, i, "")
		}
	}
	return nil
}

// statusText makes any text storable, since a status must never make a return impossible (R11): it
// replaces NUL and bytes that are not UTF-8, and cuts text that is too long.
func statusText(text string) *string { return pg.NonZero(pg.Storable(text, statusBytesMax)) }

func checkActor(actor ActorID, actions []string) error {
	if err := checkText("actor", string(actor), actorBytesMax); err != nil {
		return err
	}
	if len(actions) == 0 {
		return argumentError("actions", "must not be empty")
	}
	if len(actions) > actionsMax {
		return tooLarge("actions", len(actions), actionsMax)
	}
	for i, action := range actions {
		if err := checkText("action", action, actionBytesMax); err != nil {
			return at(err, i, "")
		}
		if action == Spontaneous {
			return at(argumentError("action", "spontaneous tasks are never fetched"), i, "")
		}
		if action == External {
			return at(argumentError("action",
				"external tasks are never fetched: AnswerTasks ends them"), i, "")
		}
	}
	return nil
}
