package ui

import (
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// goneBy says who has changed a task last that is not there; empty if that is not known.
func (h *Handler) goneBy(r *request, id stint.TaskID) show.Sentence {
	if !r.may(Read) {
		return nil
	}
	found := h.asked.ChangesOf(r.Context(), id).Changes
	if len(found) == 0 {
		return nil
	}
	c := &found[0]
	gone := show.Say(changedBy(c, withOthers(c))+", ", show.NewMoment(c.At, r.now))
	if c.Reason != "" {
		gone = append(gone, show.Part{Text: ": " + display.Text(c.Reason)})
	}
	return gone
}

// changedBy says what a change did, and who did it.
func changedBy(c *stint.Change, more string) string {
	done := display.Done(c)
	text := strings.ToUpper(done[:1]) + done[1:] + more
	if c.By != "" {
		text += " by " + display.Text(c.By)
	}
	return text
}

func withOthers(c *stint.Change) string {
	if n := c.Items - 1 + c.Others; n > 0 {
		return " with " + display.Count(int64(n), "other")
	}
	return ""
}
