package ui

import (
	"log/slog"
	"net/url"

	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/refuse"
)

// A target is what is paused or resumed: an action, a key of it, or a schedule.
type target struct{ action, key, schedule string }

// targetOf reads what a form is about. Somebody may have typed the key.
func targetOf(form url.Values) (t target, err error) {
	if t.action, err = unpackText(form.Get("action")); err != nil {
		return t, err
	}
	if t.key, err = unpackText(form.Get("key")); err != nil {
		return t, err
	}
	if t.schedule, err = unpackText(form.Get("schedule")); err != nil {
		return t, err
	}
	if typed := form.Get("typed"); typed != "" {
		if err := badName("key", typed); err != nil {
			return t, err
		}
		t.key = typed
	}
	if (t.action == "") == (t.schedule == "") || form.Get("what") == "key" && t.key == "" {
		return t, refuse.ErrNothingNamed
	}
	return t, nil
}

// fields are those of a form that is about it. What it is about is said by a field of its own, so
// that a form that has lost its key is not about the whole action.
func (t target) fields() []field {
	switch {
	case t.schedule != "":
		return []field{{"what", "schedule"}, {"schedule", packText(t.schedule)}}
	case t.key != "":
		return []field{
			{"what", "key"}, {"action", packText(t.action)}, {"key", packText(t.key)},
		}
	}
	return []field{{"what", "action"}, {"action", packText(t.action)}}
}

func (t target) name() string {
	switch {
	case t.schedule != "":
		return "the schedule " + display.Text(t.schedule)
	case t.key != "":
		return "the key " + display.Text(t.key) + " of " + display.Text(t.action)
	}
	return "the action " + display.Text(t.action)
}

func (t target) made() made {
	m := made{told: url.Values{}}
	for _, f := range []field{
		{"action", t.action}, {"key", t.key}, {"schedule", t.schedule},
	} {
		if f.Value != "" {
			m.told.Set(f.Name, f.Value)
			m.what = append(m.what, slog.String(f.Name, f.Value))
		}
	}
	return m
}
