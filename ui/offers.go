package ui

import (
	"slices"

	"github.com/stint-tasks/stint/verbs"
)

// can reports whether the store has the verbs of a change: one that lacks them does not offer it.
func (h *Handler) can(k *kind) bool {
	ok := false
	switch k.name {
	case "pause", "resume", "limit", "weigh":
		_, ok = h.asked.Reader.(verbs.Limiter)
	case "insert":
		_, ok = h.asked.Reader.(verbs.Inserter)
		ok = ok && !h.ofShards() // which say themselves where a task belongs
	case "trigger", "schedule", "delete-schedule":
		_, ok = h.asked.Reader.(verbs.Scheduler)
	case "new-schedule":
		_, ok = h.asked.Reader.(verbs.Scheduler)
		ok = ok && !h.ofShards()
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
	return ok && h.can(&k) && k.isFor(r)
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

// here is the address of the page that is asked for, as one of the handler's.
func here(r *request) string {
	query := r.URL.Query()
	if len(query) == 0 {
		return r.page.Name()
	}
	return r.page.Name() + "?" + query.Encode()
}
