package structures

import (
	"errors"
	"fmt"
	"strings"
)

// These are the errors of [Build], to be matched with [errors.Is]. Each is wrapped in a
// [*ShapeError] that names the tasks or nodes at fault.
var (
	// ErrDuplicate reports two nodes of a network with one name, or two tasks with one ID.
	ErrDuplicate = errors.New("used twice")

	// ErrUnknownName reports that a node waits for a name that its network does not have.
	ErrUnknownName = errors.New("unknown name")

	// ErrCycle reports nodes or tasks that wait for themselves through one another.
	ErrCycle = errors.New("cycle")

	// ErrReservedAction reports a task with the action [stint.Spontaneous], which is reserved for
	// joins: the OnAbort of a join must agree with the tasks that wait for it.
	ErrReservedAction = errors.New("reserved action")

	// ErrTooDeep reports structures within structures beyond 100,000 levels.
	ErrTooDeep = errors.New("nested too deeply")
)

// A ShapeError says what is wrong with a structure, and where.
type ShapeError struct {
	// Names are the names of the nodes, or the IDs of the tasks, that the error is about: the one
	// that is used twice; the unknown name, and the node that waits for it; or the whole cycle,
	// each before the one that waits for it, the first again at the end. A task without an ID is
	// named by its place among the tasks that were given, such as "#0".
	Names []string
	// Err is one of the errors of this package.
	Err error
}

// namedMax is how many names the text of an error holds.
const namedMax = 10

func (e *ShapeError) Error() string {
	separator := ", "
	if errors.Is(e.Err, ErrCycle) {
		separator = " -> "
	}
	var text strings.Builder
	text.WriteString(e.Err.Error())
	for i, name := range e.Names {
		if i == namedMax {
			fmt.Fprintf(&text, " and %d more", len(e.Names)-namedMax)
			break
		}
		if i == 0 {
			text.WriteString(": ")
		} else {
			text.WriteString(separator)
		}
		fmt.Fprintf(&text, "%.80q", name)
	}
	return text.String()
}

// Unwrap returns [ShapeError.Err].
func (e *ShapeError) Unwrap() error { return e.Err }
