package ui

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/stint-tasks/stint"
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
	errNoPage = &refusal{http.StatusNotFound, "No such page", "There is no such page."}
	errMethod = &refusal{
		http.StatusMethodNotAllowed, "Not possible", "Pages can only be looked at.",
	}
	errLongQuery = &refusal{
		http.StatusRequestURITooLong, "Not possible", "The address is too long.",
	}
	errNotText = &refusal{
		http.StatusBadRequest, "Not understood", "The address holds what is no text.",
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

type failureData struct {
	Heading, Sentence string
	ID                stint.TaskID // of a task that is not there
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
	data := failureData{Heading: why.heading, Sentence: why.sentence}
	var missing *stint.TaskError
	if errors.Is(err, stint.ErrTaskNotFound) && errors.As(err, &missing) && len(missing.IDs) > 0 {
		data.ID = missing.IDs[0]
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
