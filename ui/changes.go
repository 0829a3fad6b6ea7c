package ui

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/verbs"
)

// A kind is a change that pages offer, by the name that forms have for it.
type kind struct {
	name  string
	needs Verb

	text, will, done string // Abort, aborts, aborted
	// states are those of tasks that it is for, and change is what it does to them. Both are nil if
	// it is not about tasks.
	states  []stint.State
	change  func(with wanted) bulk.Change
	others  string // the dependents that it changes, too
	removes bool   // it ends something
}

// wanted is what somebody wants of a change: the status of tasks that it aborts, or how others
// wait from now on.
type wanted struct {
	status string
	to     stint.TaskChanges
}

func kinds() []kind {
	return []kind{
		{
			name: "abort", needs: Abort, text: "Abort", will: "Aborts", done: "Aborted",
			states: bulk.Abortable(), removes: true, others: "that depend on them",
			change: func(with wanted) bulk.Change {
				return func(
					ctx context.Context, by verbs.Changer, ids []stint.TaskID,
				) (stint.Affected, error) {
					return by.AbortTasks(ctx, ids, with.status)
				}
			},
		},
		{
			name: "retry", needs: Retry, text: "Retry", will: "Retries", done: "Retried",
			states: bulk.Retryable(), others: "that were aborted because of them",
			change: func(wanted) bulk.Change {
				return func(
					ctx context.Context, by verbs.Changer, ids []stint.TaskID,
				) (stint.Affected, error) {
					return by.RetryTasks(ctx, ids)
				}
			},
		},
		{
			name: "delete", needs: Delete, text: "Delete", will: "Deletes", done: "Deleted",
			states: bulk.Deletable(), removes: true,
			others: "that would have nothing left to wait for",
			change: func(wanted) bulk.Change {
				return func(
					ctx context.Context, by verbs.Changer, ids []stint.TaskID,
				) (stint.Affected, error) {
					return by.DeleteTasks(ctx, ids)
				}
			},
		},
		{
			name: "run", needs: Change, text: "Run now", will: "Starts", done: "Started",
			states: []stint.State{stint.StateScheduled}, change: changeWaiting,
		},
		{
			name: "change", needs: Change, text: "Change", will: "Changes", done: "Changed",
			states: bulk.Changeable(), change: changeWaiting,
		},
		{name: "pause", needs: Pause, text: "Pause", done: "Paused"},
		{name: "resume", needs: Pause, text: "Resume", done: "Resumed"},
		{name: "limit", needs: Limit, text: "Set the limits of", done: "Set the limits of"},
		{name: "trigger", needs: Trigger, text: "Trigger", done: "Triggered"},
		{name: "answer", needs: Answer, text: "Answer", done: "Answered"},
	}
}

// kindNamed returns a kind by its name.
func kindNamed(name string) (kind, bool) {
	all := kinds()
	i := slices.IndexFunc(all, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return all[i], true
}

// isOfTasks reports whether a change is one of tasks, such as an abort.
func (k *kind) isOfTasks() bool { return k.change != nil }

// can reports whether the store has the verbs of a change: one that lacks them does not offer it.
func (h *Handler) can(k *kind) bool {
	ok := false
	switch k.name {
	case "pause", "resume", "limit":
		_, ok = h.asked.Reader.(verbs.Limiter)
	case "trigger":
		_, ok = h.asked.Reader.(verbs.Scheduler)
	case "answer":
		_, ok = h.asked.Reader.(verbs.Answerer)
	default:
		ok = h.asked.Change != nil
	}
	return ok
}

// offers reports whether a page offers a change to whoever sent a request.
func (h *Handler) offers(r *request, name string) bool {
	k, ok := kindNamed(name)
	return ok && h.can(&k) && r.may(k.needs)
}

// mayChange reports whether whoever sent a request may change anything.
func mayChange(r *request) bool {
	return slices.ContainsFunc(kinds(), func(k kind) bool { return r.may(k.needs) })
}

// An offer is a form that leads to what changes would do.
type offer struct {
	Fields  []field
	Buttons []button
}

type (
	field  struct{ Name, Value string }
	button struct{ Do, Text string }
)

// offer is a form with those of the changes that are offered; nil if there are none.
func (h *Handler) offer(r *request, fields []field, names ...string) *offer {
	o := offer{Fields: fields}
	for _, name := range names {
		if h.offers(r, name) {
			k, _ := kindNamed(name)
			o.Buttons = append(o.Buttons, button{name, k.text + "…"})
		}
	}
	if len(o.Buttons) == 0 {
		return nil
	}
	return &o
}

// called is the same offer with other words on its only button.
func (o *offer) called(text string) *offer {
	if o != nil {
		o.Buttons[0].Text = text + "…"
	}
	return o
}

const (
	// changeTimeout is how long a change may take, and what would become of it.
	changeTimeout = time.Minute
	// changesMax is how many changes are under way at once, and how many previews.
	changesMax = 2
)

// await waits until a change, or a preview, may begin that takes a place among others. Done says
// that it has ended.
func await(ctx context.Context, places chan struct{}) (done func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

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
