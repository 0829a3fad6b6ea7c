package ui

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/views"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// A refusal is why there is no page, as the page says that is sent in its place.
type refusal struct {
	code              int
	heading, sentence string
}

// Error is what the page says.
func (r *refusal) Error() string { return r.sentence }

// The refusals.
var (
	errForbidden = &refusal{http.StatusForbidden, "Not allowed", "You may not see this."}
	errRefused   = &refusal{
		http.StatusForbidden, "Not allowed", "You may not see all of this. A list may name an " +
			"action, or the beginning of the IDs, whose tasks you may see.",
	}
	errNoPage  = &refusal{http.StatusNotFound, "No such page", "There is no such page."}
	errNoShard = &refusal{http.StatusNotFound, "No such shard", "There is no such shard."}
	errMethod  = &refusal{
		http.StatusMethodNotAllowed, "Not possible", "Pages can only be looked at.",
	}
	errLongQuery = &refusal{
		http.StatusRequestURITooLong, "Not possible", "The address is too long.",
	}
	errNotText = &refusal{
		http.StatusBadRequest, "Not understood", "The address or the form holds what is no text.",
	}
	errManyArrows = &refusal{
		http.StatusBadRequest, "Too much", "The network has too many arrows for a picture.",
	}
	errManySchedules = &refusal{
		http.StatusInsufficientStorage, "Too much", "The bodies of all schedules together " +
			"are too large to be read for a page. The command lists them: stint schedule ls",
	}
	errLate = &refusal{
		http.StatusGatewayTimeout, "No answer", "The store did not answer in time. It may be " +
			"busy, or out of reach.",
	}
	errNoAnswer = &refusal{
		http.StatusBadGateway, "No answer", "The store did not answer. The log of this program " +
			"says why.",
	}
)

// The refusals of forms: nothing was changed, unless they say so.
var (
	errOnlyForm = &refusal{
		http.StatusMethodNotAllowed, "Not possible", "Forms of other pages lead here.",
	}
	errOtherSite = &refusal{
		http.StatusForbidden, "Not allowed", "The form was sent by another site, or by way of a " +
			"proxy that hides under which name the pages were opened. Nothing was changed.",
	}
	errBadForm = &refusal{
		http.StatusBadRequest, "Not understood", "The form is not one of these pages. Nothing " +
			"was changed.",
	}
	errLargeForm = &refusal{
		http.StatusRequestEntityTooLarge, "Too much", "The form is too large. Nothing was changed.",
	}
	errManyTasks = &refusal{
		http.StatusRequestEntityTooLarge, "Too much", "No more than 10,000 tasks are changed at " +
			"once. Nothing was changed.",
	}
	errOldForm = &refusal{
		http.StatusConflict, "Too late", "What you agreed to was shown more than an hour ago. " +
			"Nothing was changed. Go back, and look again.",
	}
	errNothingNamed = &refusal{
		http.StatusBadRequest, "Not understood", "There is no name of what to change. Nothing " +
			"was changed.",
	}
	errLimitsChanged = &refusal{
		http.StatusConflict, "Too late", "Somebody has changed these limits since you saw them. " +
			"Nothing was changed. Go back, and look again.",
	}
	errTriggered = &refusal{
		http.StatusConflict, "Triggered already", "The schedule was triggered since you saw it, " +
			"perhaps by the same form. It was not triggered again.",
	}
	errManyTriggered = &refusal{
		http.StatusConflict, "Not possible", "The schedule inserts so many tasks that it cannot " +
			"be told whether somebody triggers it twice. The command triggers it: stint schedule " +
			"trigger",
	}
	errNoSchedule = &refusal{
		http.StatusNotFound, "No such schedule", "There is no such schedule any more.",
	}
	errAnswered = &refusal{
		http.StatusConflict, "Not answered", "The task has ended or changed since you saw it, " +
			"perhaps by the same form.",
	}
	errTooEarly = &refusal{
		http.StatusConflict, "Not answered", "The task waits for others, or for its time: answer " +
			"it later.",
	}
	errNoCode = &refusal{
		http.StatusBadRequest, "Not answered", "Choose whether it was done or not.",
	}
	errNotExternal = &refusal{
		http.StatusConflict, "Not possible", "The task takes no answers from outside.",
	}
	errOldStores = &refusal{
		http.StatusConflict, "Not possible", "Programs with a release are connected that does " +
			"not know of limits and pauses. Nothing was changed.",
	}
	errServiceRefuses = &refusal{
		http.StatusForbidden, "Not allowed", "You may not do that to all of these tasks, actions " +
			"or schedules. Nothing was changed.",
	}
	errUnknownOutcome = &refusal{
		http.StatusBadGateway, "No answer", "The store did not answer. The change may have taken " +
			"place, or not: go back, and look. Tasks that it has changed are not changed again " +
			"if you send the same form once more.",
	}
)

type failureData struct {
	Heading, Sentence string
	ID                stint.TaskID  // of a task that is not there
	Folder            string        // leads to that of the pages
	Gone              show.Sentence // who has changed it last
	Partly            bool          // as in [request]
}

// serveError says why there is no page.
func (h *Handler) serveError(w http.ResponseWriter, r *request, err error) {
	if errors.Is(err, context.Canceled) { // whoever asked has gone
		return
	}
	why := refusalOf(err)
	if why.code >= http.StatusInternalServerError {
		h.options.Logger.LogAttrs(r.Context(), slog.LevelWarn,
			"a page of the web interface failed", slog.String("page", r.page.name),
			slog.Any("error", err))
	}
	data := failureData{
		Heading: why.heading, Sentence: why.sentence, Folder: r.up, Partly: r.partly,
	}
	var missing *stint.TaskError
	if errors.Is(err, stint.ErrTaskNotFound) && errors.As(err, &missing) && len(missing.IDs) > 0 {
		data.ID = missing.IDs[0]
		data.Gone = h.goneBy(r, data.ID)
	}
	err = h.write(w, r, why.code, view{name: "failure", title: why.heading, data: data})
	if err != nil {
		http.Error(w, why.sentence, why.code)
	}
}

func refusalOf(err error) *refusal {
	var already *refusal
	var wrong *stint.ArgumentError
	switch {
	case errors.As(err, &already):
		return already
	case errors.Is(err, stint.ErrTaskNotFound):
		return &refusal{http.StatusNotFound, "No such task", "There is no such task."}
	case errors.Is(err, views.ErrUnknown):
		return errNoShard
	case errors.Is(err, stint.ErrScheduleNotFound):
		return errNoSchedule
	case errors.Is(err, stint.ErrSchemaVersion):
		return errOldStores
	case errors.As(err, &wrong):
		return &refusal{
			http.StatusBadRequest, "Not understood", wrong.Argument + " " + wrong.Problem + ".",
		}
	case errors.Is(err, stint.ErrRefused):
		return errRefused
	case errors.Is(err, context.DeadlineExceeded):
		return errLate
	}
	return errNoAnswer
}
