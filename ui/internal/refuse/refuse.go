// Package refuse says why there is no page, or why a form changes nothing.
package refuse

import (
	"context"
	"errors"
	"net/http"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/views"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// A PageError is why there is no page, as the page says that is sent in its place.
type PageError struct {
	Code              int
	Heading, Sentence string
}

// Error is what the page says.
func (r *PageError) Error() string { return r.Sentence }

// The refusals.
var (
	ErrForbidden = &PageError{http.StatusForbidden, "Not allowed", "You may not see this."}
	errRefused   = &PageError{
		http.StatusForbidden, "Not allowed", "You may not see all of this. A list may name an " +
			"action, or the beginning of the IDs, whose tasks you may see.",
	}
	ErrNoPage  = &PageError{http.StatusNotFound, "No such page", "There is no such page."}
	ErrNoShard = &PageError{http.StatusNotFound, "No such shard", "There is no such shard."}
	ErrMethod  = &PageError{
		http.StatusMethodNotAllowed, "Not possible", "Pages can only be looked at.",
	}
	ErrLongQuery = &PageError{
		http.StatusRequestURITooLong, "Not possible", "The address is too long.",
	}
	ErrNotText = &PageError{
		http.StatusBadRequest, "Not understood", "The address or the form holds what is no text.",
	}
	ErrManyArrows = &PageError{
		http.StatusBadRequest, "Too much", "The network has too many arrows for a picture.",
	}
	ErrManySchedules = &PageError{
		http.StatusInsufficientStorage, "Too much", "The bodies of all schedules together " +
			"are too large to be read for a page. The command lists them: stint schedule ls",
	}
	errLate = &PageError{
		http.StatusGatewayTimeout, "No answer", "The store did not answer in time. It may be " +
			"busy, or out of reach.",
	}
	errNoAnswer = &PageError{
		http.StatusBadGateway, "No answer", "The store did not answer. The log of this program " +
			"says why.",
	}
)

// The refusals of forms: nothing was changed, unless they say so.
var (
	ErrOnlyForm = &PageError{
		http.StatusMethodNotAllowed, "Not possible", "Forms of other pages lead here.",
	}
	ErrNotAllowed = &PageError{
		http.StatusForbidden, "Not allowed", "You may not do this. Nothing was changed.",
	}
	ErrOtherSite = &PageError{
		http.StatusForbidden, "Not allowed", "The form was sent by another site, or by way of a " +
			"proxy that hides under which name the pages were opened. Nothing was changed.",
	}
	ErrBadForm = &PageError{
		http.StatusBadRequest, "Not understood", "The form is not one of these pages. Nothing " +
			"was changed.",
	}
	ErrLargeForm = &PageError{
		http.StatusRequestEntityTooLarge, "Too much", "The form is too large. Nothing was changed.",
	}
	ErrManyTasks = &PageError{
		http.StatusRequestEntityTooLarge, "Too much", "No more than 10,000 tasks are changed at " +
			"once. Nothing was changed.",
	}
	ErrOldForm = &PageError{
		http.StatusConflict, "Too late", "What you agreed to was shown more than an hour ago. " +
			"Nothing was changed. Go back, and look again.",
	}
	ErrNothingNamed = &PageError{
		http.StatusBadRequest, "Not understood", "There is no name of what to change. Nothing " +
			"was changed.",
	}
	ErrLimitsChanged = &PageError{
		http.StatusConflict, "Too late", "Somebody has changed these limits since you saw them. " +
			"Nothing was changed. Go back, and look again.",
	}
	ErrInserted = &PageError{
		http.StatusConflict, "Inserted already", "There is a task with this ID already, perhaps " +
			"by the same form. Nothing was inserted.",
	}
	ErrCopied = &PageError{
		http.StatusConflict, "Too late", "The task that you copy was replaced by another one " +
			"since you saw it. Nothing was inserted.",
	}
	ErrMoreNow = &PageError{
		http.StatusConflict, "Too late", "It would now change more tasks that depend on these " +
			"than you were told. Nothing was changed. Go back, and look again.",
	}
	ErrPausedAnew = &PageError{
		http.StatusConflict, "Too late", "It was paused anew since you saw it. " +
			"Nothing was changed. Go back, and look who has paused it.",
	}
	ErrHiddenBodies = &PageError{
		http.StatusForbidden, "Not allowed", "You may not read the bodies of the tasks of this " +
			"schedule, so you cannot change it here. Nothing was changed.",
	}
	ErrScheduleChanged = &PageError{
		http.StatusConflict, "Too late", "Somebody has changed the schedule since you saw it. " +
			"Nothing was changed. Go back, and look again.",
	}
	ErrScheduleThere = &PageError{
		http.StatusConflict, "Too late", "There is a schedule of this name by now, perhaps by " +
			"the same form. Nothing was changed. Go back, and look.",
	}
	ErrTriggered = &PageError{
		http.StatusConflict, "Triggered already", "The schedule was triggered since you saw it, " +
			"perhaps by the same form. It was not triggered again.",
	}
	ErrManyTriggered = &PageError{
		http.StatusConflict, "Not possible", "The schedule inserts so many tasks that it cannot " +
			"be told whether somebody triggers it twice. The command triggers it: stint schedule " +
			"trigger",
	}
	ErrNoSchedule = &PageError{
		http.StatusNotFound, "No such schedule", "There is no such schedule any more.",
	}
	ErrAnswered = &PageError{
		http.StatusConflict, "Not answered", "The task has ended or changed since you saw it, " +
			"perhaps by the same form.",
	}
	ErrTooEarly = &PageError{
		http.StatusConflict, "Not answered", "The task waits for others, or for its time: answer " +
			"it later.",
	}
	ErrNoCode = &PageError{
		http.StatusBadRequest, "Not answered", "Choose whether it was done or not.",
	}
	ErrLargeResult = &PageError{
		http.StatusRequestEntityTooLarge, "Not answered", "The result has more than 64 KiB: " +
			"shorten it.",
	}
	ErrSkippedResult = &PageError{
		http.StatusBadRequest, "Not answered", "A task that is not needed has no result: leave " +
			"the result empty, or choose how else it ended.",
	}
	ErrNotExternal = &PageError{
		http.StatusConflict, "Not possible", "The task takes no answers from outside.",
	}
	ErrWrongKey = &PageError{
		http.StatusConflict, "Not answered", "This is not the key of the task; if it was " +
			"inserted without one, leave the key empty.",
	}
	errSchema = &PageError{
		http.StatusConflict, "Not possible", "The schema does not match this release, or " +
			"programs of an older release are connected: the log says which. Nothing was " +
			"changed. The command tells the version of the schema: stint migrate status",
	}
	errServiceRefuses = &PageError{
		http.StatusForbidden, "Not allowed", "You may not do that to all of these tasks, actions " +
			"or schedules. Nothing was changed.",
	}
	ErrUnknownOutcome = &PageError{
		http.StatusBadGateway, "No answer", "The store did not answer. The change may have taken " +
			"place, or not: go back, and look. Tasks that it has changed are not changed again " +
			"if you send the same form once more.",
	}
)

// NotUnderstood refuses an address or a form with what it never has.
func NotUnderstood(sentence string) *PageError {
	return &PageError{http.StatusBadRequest, "Not understood", sentence}
}

// Of is what a page says of an error.
func Of(err error) *PageError {
	var already *PageError
	var wrong *stint.ArgumentError
	switch {
	case errors.As(err, &already):
		return already
	case errors.Is(err, stint.ErrTaskNotFound):
		return &PageError{http.StatusNotFound, "No such task", "There is no such task."}
	case errors.Is(err, views.ErrUnknown):
		return ErrNoShard
	case errors.Is(err, stint.ErrScheduleNotFound):
		return ErrNoSchedule
	case errors.Is(err, stint.ErrSchemaVersion):
		return errSchema
	case errors.As(err, &wrong):
		return NotUnderstood(wrong.Argument + " " + wrong.Problem + ".")
	case errors.Is(err, stint.ErrRefused):
		return errRefused
	case errors.Is(err, context.DeadlineExceeded):
		return errLate
	}
	return errNoAnswer
}

// ToChange is the page for an error of a change, or of its preview.
func ToChange(err error) error {
	var cycle *stint.CycleError
	if errors.As(err, &cycle) {
		return &PageError{
			http.StatusConflict, "Not possible", show.Text(cycle.Error()) + ".",
		}
	}
	if errors.Is(err, stint.ErrRefused) {
		return errServiceRefuses
	}
	return err
}
