package ui

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/filters"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/verbs"
)

// catchUps and overlaps are to choose from; their values are the numbers of the store.
func catchUps() []filters.Choice {
	return []filters.Choice{
		{Value: numbered(stint.CatchUpLast), Text: "insert the newest"},
		{Value: numbered(stint.CatchUpSkip), Text: "insert none"},
		{Value: numbered(stint.CatchUpAll), Text: "insert all"},
	}
}

func overlaps() []filters.Choice {
	return []filters.Choice{
		{Value: numbered(stint.OverlapAllow), Text: "insert the next ones"},
		{Value: numbered(stint.OverlapSkip), Text: "leave the next ones out"},
		{Value: numbered(stint.OverlapWait), Text: "have the next ones wait for them"},
		{Value: numbered(stint.OverlapAbort), Text: "abort them"},
	}
}

func numbered[N ~int16](n N) string { return strconv.Itoa(int(n)) }

// scheduleOf is a schedule of a form as it is now.
func (h *Handler) scheduleOf(
	ctx context.Context, r *request,
) (t target, by verbs.Scheduler, now stint.ScheduleInfo, err error) {
	if t, err = targetOf(r.PostForm); err != nil {
		return t, nil, now, err
	}
	by, ok := h.asked.Reader.(verbs.Scheduler)
	if !ok || t.schedule == "" {
		return t, nil, now, refuse.ErrBadForm
	}
	found, err := by.ListSchedules(ctx, t.schedule)
	switch {
	case err != nil:
		return t, by, now, err
	case len(found) == 0:
		return t, by, now, refuse.ErrNoSchedule
	}
	return t, by, found[0], nil
}

// scheduleNow is a schedule of a form as it is now, with the bodies of its tasks.
func (h *Handler) scheduleNow(
	ctx context.Context, r *request,
) (t target, by verbs.Scheduler, now stint.ScheduleInfo, err error) {
	t, by, now, err = h.scheduleOf(ctx, r)
	if err == nil && now.Hidden { // to put it again would empty the bodies that are left out
		err = refuse.ErrHiddenBodies
	}
	return t, by, now, err
}

// previewSchedule is the form with when a schedule occurs or, when that was filled in, when it
// would occur.
func (h *Handler) previewSchedule(r *request) (data previewData, err error) {
	t, _, now, err := h.scheduleNow(r.Context(), r)
	if err != nil {
		return data, err
	}
	page := func(values url.Values, problem string) previewData {
		return previewData{
			Heading: "Edit " + t.name(), Button: "Show what it would do", Next: "preview",
			Sentence: show.Say("The tasks that it inserts stay as they are. Your program and the " +
				"command can change these too."),
			Fields: append(t.fields(), field{"seen", microsOf(now.ChangedAt)}),
			Timing: timingFormOf(values, problem),
		}
	}
	form := r.PostForm
	if !form.Has(fieldSpec) {
		return page(timingOf(&now.Schedule), ""), nil
	}
	wanted, problem := readTiming(form, &now.Schedule)
	var next []time.Time
	if problem == "" {
		if next, err = wanted.Next(r.now, nextMax); err != nil {
			problem = problemOf(err)
		}
	}
	if problem != "" {
		return page(form, problem), nil
	}
	data = previewData{
		Heading: "Change " + t.name() + "?", Button: "Change",
		Asks:     "Reason, for those who ask later",
		Sentence: occurs("It occurs next ", next, r.now),
		Fields:   append(t.fields(), field{"seen", form.Get("seen")}),
	}
	if before, err := now.Next(r.now, nextMax); err == nil {
		data.Details = append(data.Details, occurs("As it is now, that is ", before, r.now))
	}
	if !now.PausedSince.IsZero() {
		data.Details = append(data.Details, show.Say("It stays paused, and does not occur until "+
			"it is resumed."))
	}
	data.Fields = append(data.Fields, timingFields(form)...)
	return data, nil
}

// timingFields are those of when a schedule occurs, as they were filled in.
func timingFields(form url.Values) (fields []field) {
	for _, name := range append(timingTyped(), fieldExpire) {
		if form.Has(name) {
			fields = append(fields, field{name, form.Get(name)})
		}
	}
	return fields
}

// putSchedule changes when a schedule occurs, unless somebody has changed it since it was seen.
func (h *Handler) putSchedule(ctx context.Context, r *request) (made, error) {
	t, by, now, err := h.scheduleNow(ctx, r)
	if err != nil {
		return made{}, err
	}
	wanted, problem := readTiming(r.PostForm, &now.Schedule)
	switch {
	case problem != "":
		return t.made(), refuse.NotUnderstood(problem + " Nothing was changed.")
	case sameTiming(&wanted, &now.Schedule): // by the same form, perhaps
		return t.made(), nil
	case microsOf(now.ChangedAt) != r.PostForm.Get("seen"):
		return t.made(), refuse.ErrScheduleChanged
	}
	return t.made(), by.PutSchedules(ctx, []stint.Schedule{wanted})
}

// occurs says when a schedule occurs.
func occurs(said string, next []time.Time, now time.Time) show.Sentence {
	if len(next) == 0 {
		return show.Say(said, "never.")
	}
	pieces := []any{said}
	for i, at := range next {
		if i > 0 {
			pieces = append(pieces, ", ")
		}
		pieces = append(pieces, show.NewMoment(at, now), " ("+show.Exact(at)[:16]+" UTC)")
	}
	return show.Say(append(pieces, ".")...)
}

// timingOf is when a schedule occurs as a form sends it.
func timingOf(s *stint.Schedule) url.Values {
	values := url.Values{
		fieldSpec: {s.Spec}, fieldZone: {s.Zone}, fieldJitter: {spanOf(s.Jitter)},
		fieldCatchUp: {numbered(s.CatchUp)}, fieldWindow: {spanOf(s.Window)},
		fieldOverlap: {numbered(s.Overlap)},
	}
	if s.Expire {
		values.Set(fieldExpire, "true")
	}
	return values
}

func spanOf(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func timingFormOf(values url.Values, problem string) *timingForm {
	return &timingForm{
		Spec: values.Get(fieldSpec), Zone: values.Get(fieldZone), Jitter: values.Get(fieldJitter),
		CatchUp: values.Get(fieldCatchUp), Window: values.Get(fieldWindow),
		Overlap: values.Get(fieldOverlap), Expire: values.Has(fieldExpire),
		CatchUps: catchUps(), Overlaps: overlaps(), Problem: problem,
	}
}

// readTiming reads when a schedule is to occur. The problem is empty if there is none.
func readTiming(form url.Values, now *stint.Schedule) (s stint.Schedule, problem string) {
	s = *now
	s.Spec, s.Zone = strings.TrimSpace(form.Get(fieldSpec)), strings.TrimSpace(form.Get(fieldZone))
	s.Expire = form.Has(fieldExpire)
	span := func(name, label string) time.Duration {
		text := strings.TrimSpace(form.Get(name))
		if text == "" {
			return 0
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			problem = label + " must be a length of time, such as 90s or 24h."
		}
		return d
	}
	choice := func(name string, choices []filters.Choice) int16 {
		for i, c := range choices {
			if c.Value == form.Get(name) {
				return int16(i) // they are in the order of their numbers
			}
		}
		problem = "Choose one of those to choose from."
		return 0
	}
	s.Jitter = span(fieldJitter, "How much later")
	s.Window = span(fieldWindow, "How long ago")
	s.CatchUp = stint.CatchUp(choice(fieldCatchUp, catchUps()))
	s.Overlap = stint.Overlap(choice(fieldOverlap, overlaps()))
	return s, problem
}

// sameTiming reports whether a schedule occurs as somebody wants it.
func sameTiming(a, b *stint.Schedule) bool {
	return timingOf(a).Encode() == timingOf(b).Encode()
}

// problemOf is what is wrong with a value that the store refuses.
func problemOf(err error) string {
	var wrong *stint.ArgumentError
	if errors.As(err, &wrong) {
		return wrong.Argument + " " + wrong.Problem + "."
	}
	return refuse.Of(err).Sentence
}
