package ui

import (
	"cmp"
	"context"
	"strings"

	"github.com/stint-tasks/stint"
)

const (
	whoMax    = 200     // bytes of a name
	reasonMax = 4 << 10 // bytes of a reason
)

// who is the name of whoever sent a request; empty if the program does not know.
func (h *Handler) who(r *request) string {
	if h.options.User == nil {
		return ""
	}
	return clean(h.options.User(r.Request), whoMax)
}

// authored returns a context in which what is changed is noted with whoever sent a request.
func (h *Handler) authored(ctx context.Context, r *request, reason string) context.Context {
	return stint.WithAuthor(ctx, stint.Author{
		Name: cmp.Or(h.who(r), "the web interface"), Reason: reason,
	})
}

// clean is text as the store takes it, cut.
func clean(text string, most int) string {
	text = strings.ReplaceAll(text, "\x00", "")
	text = strings.ToValidUTF8(text[:min(len(text), most)], "")
	return strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
}

// statusOf is what a task says that was aborted by a page: why, and by whom.
func statusOf(reason, who string) string {
	by := "aborted by the web interface"
	if who != "" {
		by = "aborted by " + who + " in the web interface"
	}
	if reason == "" {
		return by
	}
	return reason + " (" + by + ")"
}
