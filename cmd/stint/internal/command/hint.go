package command

import (
	"errors"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/localpg"
)

// hint says what to do about an error that does not say it.
func (p *program) hint(err error) string {
	switch {
	case errors.Is(err, stint.ErrPredecessorAborted):
		return "; name that one, and the tasks aborted because of it are retried too"
	case errors.Is(err, stint.ErrScheduleNotFound):
		return "; to see which there are: stint schedule ls" + p.flagsLine()
	case errors.Is(err, stint.ErrTaskInProgress):
		return "; abort it first, or wait for its end"
	case errors.Is(err, stint.ErrRefused):
		return "; it knows you by the token of --token-file, " + tokenFileVariable + " or " +
			tokenVariable
	case errors.Is(err, localpg.ErrUnsupported):
		return "; name a server of yours by --database-url or " + urlVariable
	case isCode(err, codeInsufficientPrivilege):
		return "; what roles need: " +
			"https://github.com/stint-tasks/stint/blob/main/docs/operations/roles.md#roles"
	}
	return ""
}
