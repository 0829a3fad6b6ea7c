package stint

import (
	"errors"
	"fmt"
	"strings"
)

// The errors of this package, to be matched with [errors.Is]. Those about tasks come wrapped in a
// [*TaskError] that names them, those about arguments in an [*ArgumentError].
var (
	// ErrTaskExists reports that an ID is taken, or comes twice in one call (R1). Nothing was
	// inserted. After an insert whose outcome is unknown, it tells that the insert took place.
	ErrTaskExists = errors.New("task exists")

	// ErrTaskNotFound reports that the store holds no task with an ID: it never did, or the task
	// was deleted or pruned.
	ErrTaskNotFound = errors.New("task not found")

	// ErrTaskInProgress reports that a task is owned, which keeps it from being replaced (R5) or
	// deleted (R17). Nothing was changed.
	ErrTaskInProgress = errors.New("task is in progress")

	// ErrInvalidToken reports that a token is not the one of the task's last owner, or that the
	// task is no longer owned (R8). The caller has lost the task and should drop its work.
	ErrInvalidToken = errors.New("invalid performance token")

	// ErrAlreadyReturned reports that the same return was made before, with the same token and the
	// same outcome: what the caller wants is so (R11). It is also an [ErrInvalidToken].
	ErrAlreadyReturned = fmt.Errorf("task was already returned so: %w", ErrInvalidToken)

	// ErrInvalidArgument reports a value that is refused before the database sees it.
	ErrInvalidArgument = errors.New("invalid argument")

	// ErrTooLarge reports a value over its limit. It is also an [ErrInvalidArgument].
	ErrTooLarge = fmt.Errorf("too large: %w", ErrInvalidArgument)

	// ErrClosed reports that the store was closed.
	ErrClosed = errors.New("store is closed")

	// ErrSchemaVersion reports that the database schema is missing, or of another version than
	// this release works with. The package migrations brings it up to date.
	ErrSchemaVersion = errors.New("schema version does not fit")
)

// A TaskError names the tasks that an error is about.
type TaskError struct {
	// IDs are the tasks concerned, all of them, each once, in order.
	IDs []TaskID
	// Err is what is wrong with them, one of the errors of this package.
	Err error
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

// An ArgumentError says which argument was refused and why.
type ArgumentError struct {
	// Argument is the name of the argument, such as "lease" or "Task.ID".
	Argument string
	// Index is the place of the task or return in the call, or -1 if the call takes no list.
	Index int
	// ID is the task the value belongs to, if there is one.
	ID TaskID
	// Problem says what is wrong with the value.
	Problem string
	// Err is [ErrInvalidArgument] or [ErrTooLarge].
	Err error
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
