package ui

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
)

type failureData struct {
	Heading, Sentence string
	ID                stint.TaskID  // of a task that is not there
	Folder            string        // leads to that of the pages
	Gone              show.Sentence // who has changed it last
	Partly            bool          // as in [request]
	Again             int           // after how many seconds the browser tries again; 0: never
}

// againAfter is after how many seconds a browser asks again for a page for which the store gave no
// answer.
const againAfter = 5

// serveError says why there is no page.
func (h *Handler) serveError(w http.ResponseWriter, r *request, err error) {
	if errors.Is(err, context.Canceled) { // whoever asked has gone
		return
	}
	why := refuse.Of(err)
	if why.Code >= http.StatusInternalServerError || errors.Is(err, stint.ErrSchemaVersion) {
		h.options.Logger.LogAttrs(r.Context(), slog.LevelWarn,
			"a page of the web interface failed", slog.String("page", r.page.name),
			slog.Any("error", err))
	}
	data := failureData{
		Heading: why.Heading, Sentence: why.Sentence, Folder: r.up, Partly: r.partly,
	}
	var missing *stint.TaskError
	if errors.Is(err, stint.ErrTaskNotFound) && errors.As(err, &missing) && len(missing.IDs) > 0 {
		data.ID = missing.IDs[0]
		data.Gone = h.goneBy(r, data.ID)
	}
	isBusy := why.Code == http.StatusBadGateway || why.Code == http.StatusGatewayTimeout
	if isBusy && !r.page.post && r.Method == http.MethodGet {
		data.Again = againAfter
		w.Header().Set("Refresh", strconv.Itoa(againAfter)) // needs no script
		w.Header().Set("Retry-After", strconv.Itoa(againAfter))
	}
	err = h.write(w, r, why.Code, view{name: "failure", title: why.Heading, data: data})
	if err != nil {
		http.Error(w, why.Sentence, why.Code)
	}
}
