package ui

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/verbs"
)

// previewTrigger says what a schedule would insert.
func (h *Handler) previewTrigger(r *request) (data previewData, err error) {
	t, _, now, err := h.scheduleOf(r.Context(), r)
	if err != nil {
		return data, err
	}
	h.learnClock(r.Context())
	at := h.asked.Clock.Now(r.Context())
	last, err := h.lastTriggered(r.Context(), t.schedule, at)
	if err != nil {
		return data, err
	}
	return previewData{
		Heading: "Trigger " + t.name() + "?", Button: "Trigger",
		Asks: "Reason, for those who ask later",
		Sentence: show.Say("Inserts " + display.Count(int64(len(now.Tasks)), "task") +
			" now, besides its occurrences."),
		Details: []show.Sentence{
			show.Say("Of the actions: " + show.Text(actionsOf(now.Tasks, namedMax)) + "."),
		},
		Fields: append(t.fields(), field{"last", last},
			field{"since", strconv.FormatInt(at.UnixMicro(), 10)},
			field{"seen", microsOf(now.ChangedAt)}),
	}, nil
}

// learnClock learns the time of the database, if nobody tells it, from whatever task there is.
func (h *Handler) learnClock(ctx context.Context) {
	if h.options.Clock != nil {
		return
	}
	page, err := h.asked.ListTasks(ctx, stint.Filter{NewestFirst: true, Limit: 1})
	if err == nil && len(page.Tasks) > 0 {
		_, _ = h.asked.Task(ctx, page.Tasks[0].ID) // otherwise it is as it was
	}
}

// trigger inserts the tasks of a schedule, unless somebody has triggered it since the preview: a
// second click would insert them twice.
func (h *Handler) trigger(ctx context.Context, r *request) (made, error) {
	t, err := targetOf(r.PostForm)
	if err != nil {
		return made{}, err
	}
	by, ok := h.asked.Reader.(verbs.Scheduler)
	if !ok || t.schedule == "" {
		return made{}, refuse.ErrBadForm
	}
	micros, err := strconv.ParseInt(r.PostForm.Get("since"), 10, 64)
	at := time.UnixMicro(micros)
	if err != nil || at.Before(r.now.Add(-2*previewMax)) {
		return made{}, refuse.ErrBadForm
	}
	h.triggering.Lock()
	defer h.triggering.Unlock()
	last, err := h.lastTriggered(ctx, t.schedule, at)
	if err != nil {
		return made{}, err
	}
	if last > r.PostForm.Get("last") {
		return t.made(), refuse.ErrTriggered
	}
	found, err := by.ListSchedules(ctx, t.schedule)
	if err != nil {
		return t.made(), err
	}
	if len(found) == 1 && microsOf(found[0].ChangedAt) != r.PostForm.Get("seen") {
		return t.made(), refuse.ErrScheduleChanged
	}
	id, err := by.TriggerSchedule(ctx, t.schedule)
	m := t.made()
	m.told.Set("id", string(id))
	return m, err
}

// lastTriggered is when somebody has triggered a schedule last, as the IDs of its tasks have it;
// empty if nobody has since shortly before a time.
func (h *Handler) lastTriggered(
	ctx context.Context, schedule string, since time.Time,
) (last string, err error) {
	// The times of a page and of the database may differ by that much.
	const slack, form, pagesMax = time.Minute, "2006-01-02T15:04:05", 20
	from := since.Add(-slack).UTC().Format(form)
	to := h.asked.Clock.Now(ctx).Add(slack).UTC().Format(form)
	same := 0
	for same < len(from) && from[same] == to[same] {
		same++
	}
	filter := stint.Filter{
		IDPrefix: schedule + "/" + from[:same], Limit: 1000,
	}
	for range pagesMax {
		page, err := h.asked.ListTasks(ctx, filter)
		if err != nil {
			return "", err
		}
		for i := range page.Tasks {
			stamp, rest, _ := strings.Cut(string(page.Tasks[i].ID)[len(schedule)+1:], "/")
			manual := rest == "manual" || strings.HasPrefix(rest, "manual/")
			if manual && stamp >= from {
				last = max(last, stamp)
			}
		}
		if page.Next == "" {
			return last, nil
		}
		filter.After = page.Next
	}
	return "", refuse.ErrManyTriggered
}
