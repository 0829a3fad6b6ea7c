package ui

import (
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/filters"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// starts are when tasks may start, to choose from.
func starts() []filters.Choice {
	const day = 24 * time.Hour
	all := []filters.Choice{{Text: "as it is"}, {Value: "now", Text: "now"}}
	for _, after := range []struct {
		time time.Duration
		text string
	}{
		{10 * time.Minute, "in 10 minutes"},
		{time.Hour, "in an hour"},
		{6 * time.Hour, "in 6 hours"},
		{day, "in a day"},
		{7 * day, "in a week"},
	} {
		all = append(all, filters.Choice{Value: after.time.String(), Text: after.text})
	}
	return all
}

// wantedOf is what somebody wants of a change of tasks. Ask is not nil if he has yet to say so: the
// page with the form in which he does.
func (h *Handler) wantedOf(r *request, k *kind) (with wanted, ask *previewData, err error) {
	form := r.PostForm
	with.status = statusOf("", h.who(r))
	switch {
	case k.name == "run":
		with.to.StartNow = true
		return with, nil, nil
	case k.name != "change", form.Get("of") != "all" && len(form["task"]) == 0:
		return with, nil, nil
	}
	problem := ""
	if slices.ContainsFunc(append(waitingTyped(), waitingRead()...), form.Has) {
		if with.to, problem, err = readWaiting(form, r.now); problem == "" || err != nil {
			return with, nil, err
		}
	}
	ask = &previewData{
		Heading: "Change tasks that wait", Button: "Show what it would do", Next: "preview",
		Sentence: show.Say("What is left empty stays as it is, and so does what they wait for. " +
			"Tasks that are in progress, or have ended, are left out."),
		Waiting: &waitingForm{
			Start: form.Get(fieldStart), At: form.Get(fieldStartAt),
			Priority: form.Get(fieldPriority), MaxTries: form.Get(fieldTries),
			Key: form.Get(fieldKey), NoKey: form.Has(fieldNoKey),
			Starts: starts(), Problem: problem,
		},
	}
	for _, name := range []string{"of", "filter"} {
		if form.Has(name) {
			ask.Fields = append(ask.Fields, field{name, form.Get(name)})
		}
	}
	for _, task := range form["task"] {
		ask.Fields = append(ask.Fields, field{"task", task})
	}
	return with, ask, nil
}

// readWaiting reads how tasks are to wait from a form. The problem is empty if there is none.
func readWaiting(form url.Values, now time.Time) (to stint.TaskChanges, problem string, err error) {
	text := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	if to, problem = readStart(form, now); problem != "" {
		return to, problem, nil
	}
	if given := text(fieldPriority); given != "" {
		n, ok := wholeNumber(given, 16)
		if !ok {
			return to, "The priority must be a whole number from -32768 to 32767.", nil
		}
		to.Priority = new(int16(n)) //nolint:gosec // it has 16 bits
	}
	if given := text(fieldTries); given != "" {
		n, ok := wholeNumber(given, 32)
		if !ok || n < stint.UnlimitedTries || n == 0 {
			return to, "The tries must be a whole number, or -1 for any number.", nil
		}
		to.MaxTries = n
	}
	switch packed, isPacked := strings.CutPrefix(form.Get(fieldPacked), "="); {
	case isPacked:
		key, err := unpackText(packed)
		if err != nil {
			return to, "", err
		}
		to.Key = &key
	case form.Has(fieldNoKey) && form.Get(fieldKey) != "":
		return to, "Give a key, or none.", nil
	case form.Has(fieldNoKey):
		to.Key = new("")
	case slipIn("key", form.Get(fieldKey)) != "":
		return to, slipIn("key", form.Get(fieldKey)), nil
	case form.Get(fieldKey) != "":
		to.Key = new(form.Get(fieldKey))
	}
	const keyMax = 255
	switch {
	case to == stint.TaskChanges{}:
		return to, "Say what is to be changed.", nil
	case to.Key != nil && len(*to.Key) > keyMax:
		return to, "The key is too long.", nil
	}
	return to, "", nil
}

// wholeNumber reads a number of so many bits.
func wholeNumber(text string, bits int) (n int, ok bool) {
	number, err := strconv.ParseInt(text, 10, bits)
	return int(number), err == nil
}

// readStart reads when tasks are to start. What counts from now on is an instant from here on, so
// that a form that is sent again does not move them again.
func readStart(form url.Values, now time.Time) (to stint.TaskChanges, problem string) {
	start, at := form.Get(fieldStart), form.Get(fieldStartAt)
	switch {
	case form.Get(fieldExact) != "":
		exact, err := time.Parse(time.RFC3339Nano, form.Get(fieldExact))
		if err != nil {
			return to, "The time is none."
		}
		to.NotBefore = exact
	case start != "" && at != "":
		return to, "Choose a start, or give a time."
	case start == "now":
		to.StartNow = true
	case start != "":
		after, err := time.ParseDuration(start)
		if err != nil || after <= 0 {
			return to, "The start is none of those to choose from."
		}
		to.NotBefore = now.Add(after)
	case at != "":
		ok := false
		if to.NotBefore, ok = typedTime(at); !ok {
			return to, "The time must be a date and a time of day."
		}
	}
	return to, ""
}

// typedTime reads a time as browsers send it, which is in UTC.
func typedTime(text string) (at time.Time, ok bool) {
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if at, err := time.Parse(layout, text); err == nil && at.Year() > 0 {
			return at, true
		}
	}
	return at, false
}

// fieldsOf are the fields of a form by which somebody agrees to a change of how tasks wait: empty
// ones for what stays as it is.
func fieldsOf(to stint.TaskChanges) []field {
	if to == (stint.TaskChanges{}) {
		return nil
	}
	values := map[string]string{}
	if to.StartNow {
		values[fieldStart] = "now"
	}
	if !to.NotBefore.IsZero() {
		values[fieldExact] = to.NotBefore.UTC().Format(time.RFC3339Nano)
	}
	if to.Priority != nil {
		values[fieldPriority] = strconv.Itoa(int(*to.Priority))
	}
	if to.MaxTries != 0 {
		values[fieldTries] = strconv.Itoa(to.MaxTries)
	}
	if to.Key != nil {
		values[fieldPacked] = "=" + packText(*to.Key)
	}
	var fields []field
	for _, name := range waitingRead() {
		fields = append(fields, field{name, values[name]})
	}
	return fields
}

// detailsOf says how tasks wait from now on.
func detailsOf(k *kind, to stint.TaskChanges, now time.Time) (details []show.Sentence) {
	add := func(pieces ...any) { details = append(details, show.Say(pieces...)) }
	switch {
	case k.needs != Change:
		return nil
	case to.StartNow || !to.NotBefore.IsZero() && !to.NotBefore.After(now):
		add("They may begin at once: those that wait for other tasks, when these have ended.")
	case !to.NotBefore.IsZero():
		add("They begin ", show.NewMoment(to.NotBefore, now), " at the earliest.")
	}
	if to.Priority != nil {
		add("Their priority is " + display.Number(int64(*to.Priority)) + ".")
	}
	if to.Key != nil && *to.Key == "" {
		add("They have no key.")
	} else if to.Key != nil {
		add("Their key is ", display.Text(*to.Key), ".")
	}
	switch {
	case to.MaxTries == stint.UnlimitedTries:
		add("They are tried any number of times.")
	case to.MaxTries > 0:
		add("They are tried " + display.Count(int64(to.MaxTries), "time") + " at most; one that " +
			"has had as many tries has one left.")
	}
	return details
}

// flagsOf are the flags of the command that does the same, unless nobody can type them.
func flagsOf(to stint.TaskChanges) (flags string, ok bool) {
	if to.StartNow {
		flags += " --start-now"
	}
	if !to.NotBefore.IsZero() {
		flags += " --start-at=" + to.NotBefore.UTC().Format(time.RFC3339Nano)
	}
	if to.Priority != nil {
		flags += " --set-priority=" + strconv.Itoa(int(*to.Priority))
	}
	if to.Key != nil {
		if display.Text(*to.Key) != *to.Key {
			return "", false
		}
		flags += " --set-key=" + display.Word(*to.Key)
	}
	if to.MaxTries != 0 {
		flags += " --set-max-tries=" + strconv.Itoa(to.MaxTries)
	}
	return flags, true
}

// attrsOf are what is logged of a change of how tasks wait.
func attrsOf(to stint.TaskChanges) (attrs []slog.Attr) {
	for _, f := range fieldsOf(to) {
		if f.Value == "" {
			continue
		}
		attrs = append(attrs, slog.String(f.Name, f.Value))
	}
	return attrs
}
