package ui

import (
	"net/http"
	"strconv"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/kept"
	"github.com/stint-tasks/stint/ui/internal/refuse"
)

// savingMax is how long it may take to send a value whole.
const savingMax = time.Minute

// serveValue sends a body or a result as a file.
func serveValue(h *Handler, w http.ResponseWriter, r *request) error {
	query := r.URL.Query()
	done, err := ask.AwaitSending(r.Context())
	if err != nil {
		return err
	}
	defer done()
	found, err := h.asked.GetTasks(r.Context(), []stint.TaskID{stint.TaskID(query.Get("id"))})
	if err != nil {
		return err
	}
	if found[0].Hidden {
		return refuse.ErrForbidden
	}
	name, content := "body", found[0].Body
	if query.Get("of") == "result" {
		name, content = "result", found[0].Result
	}
	// Whoever reads slowly must not keep others from reading. Not every server has deadlines.
	_ = http.NewResponseController(w).SetWriteDeadline(kept.Now().Add(savingMax))
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", "attachment; filename="+name)
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	header.Set("Content-Length", strconv.Itoa(len(content)))
	// Whoever has gone needs no answer.
	_, _ = w.Write(content) //nolint:gosec // browsers save it, and run nothing of it
	return nil
}
