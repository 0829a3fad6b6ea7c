package ui

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/notices"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/verbs"
)

// previewPause says what a pause, or the end of one, would do.
func (h *Handler) previewPause(r *request, k *kind) (previewData, error) {
	t, err := targetOf(r.PostForm)
	if err != nil {
		return previewData{}, err
	}
	data := previewData{
		Heading: k.text + " " + t.name() + "?", Fields: t.fields(), Button: k.text,
		Asks: "Reason, for those who ask later",
	}
	switch {
	case t.schedule != "" && k.name == "pause":
		data.Sentence = show.Say("It no longer occurs, until it is resumed. Tasks that it has " +
			"inserted stay.")
	case t.schedule != "":
		data.Sentence = show.Say("It occurs again from now on. What it was due for meanwhile is " +
			"left out.")
	case k.name == "pause":
		data.Sentence = show.Say("Its tasks are no longer fetched, until it is resumed. Those in " +
			"progress go on.")
	case t.key != "":
		data.Sentence = show.Say("Its tasks are fetched again, but not while its action is paused.")
	default:
		data.Sentence = show.Say("Its tasks are fetched again. Paused keys stay paused.")
	}
	since, err := h.pausedSince(r.Context(), t)
	if err != nil {
		return data, err
	}
	data.Details = h.doubtsOf(r, k, t, since)
	if k.name == "resume" && len(data.Details) > 0 { // or it would be told that it is resumed
		data.Heading, data.Button = "Nothing to resume", ""
		data.Sentence, data.Details = data.Details[0], nil
	}
	if !since.IsZero() {
		p := ask.Pause{Action: t.action, Key: t.key, Schedule: t.schedule, Since: since}
		h.asked.NotePause(r.Context(), &p)
		said := append([]any{"It was paused ", show.NewMoment(since, r.now)},
			notices.Noted(t.action, p.By, p.Reason)...)
		data.Details = append(data.Details, show.Say(append(said, ".")...))
	}
	if k.name == "resume" {
		data.Fields = append(data.Fields, field{"seen", microsOf(since)})
	}
	if stats, err := h.asked.Counts.Get(r.Context()); err == nil && t.key == "" {
		for i := range stats.Actions {
			if a := &stats.Actions[i]; a.Action == t.action {
				data.Details = append(data.Details, show.Say("Of its tasks, "+
					areOf(stats, stint.StateReady, a.Ready)+" ready, and "+
					areOf(stats, stint.StateInProgress, a.InProgress)+" in progress."))
			}
		}
	}
	return data, nil
}

// areOf is how many tasks are in a state, with a tilde if that is an estimate, and the verb.
func areOf(stats stint.Stats, state stint.State, tasks int64) string {
	number := display.Number(tasks) + plural(int(tasks), " is", " are")
	if slices.Contains(stats.Estimated, state) {
		return "~" + number
	}
	return number
}

// doubtsOf says that nothing has the name of what is paused, or that what is resumed is not paused.
func (h *Handler) doubtsOf(
	r *request, k *kind, t target, since time.Time,
) []show.Sentence {
	switch {
	case k.name == "pause" && t.schedule != "":
		return nil
	case k.name == "pause":
		return h.unknownNow(r, t.action, t.key)
	}
	now, err := h.limitsNow(r.Context(), t.action)
	if !since.IsZero() || t.schedule == "" && (err != nil || t.key != "" && now.KeysOrMore) {
		return nil
	}
	return []show.Sentence{show.Say("It is not paused now: there is nothing to resume.")}
}

// pausedSince is since when something is paused; zero if it is not.
func (h *Handler) pausedSince(ctx context.Context, t target) (since time.Time, err error) {
	if t.schedule != "" {
		by, ok := h.asked.Reader.(verbs.Scheduler)
		if !ok {
			return since, refuse.ErrBadForm
		}
		found, err := by.ListSchedules(ctx, t.schedule)
		if err == nil && len(found) > 0 {
			since = found[0].PausedSince
		}
		return since, err
	}
	now, err := h.limitsNow(ctx, t.action)
	if t.key != "" {
		return now.PausedKeys[t.key], err
	}
	return now.PausedSince, err
}

// microsOf is a time as forms have it.
func microsOf(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}

// pause pauses or resumes, but resumes nothing that was paused anew since it was seen.
func (h *Handler) pause(ctx context.Context, r *request, k *kind) (made, error) {
	t, err := targetOf(r.PostForm)
	if err != nil {
		return made{}, err
	}
	if k.name == "resume" {
		since, err := h.pausedSince(ctx, t)
		if err != nil {
			return t.made(), err
		}
		if !since.IsZero() && microsOf(since) != r.PostForm.Get("seen") {
			return t.made(), refuse.ErrPausedAnew
		}
	}
	if t.schedule != "" {
		by, ok := h.asked.Reader.(verbs.Scheduler)
		if !ok {
			return made{}, refuse.ErrBadForm
		}
		if k.name == "pause" {
			return t.made(), by.PauseSchedules(ctx, t.schedule)
		}
		return t.made(), by.ResumeSchedules(ctx, t.schedule)
	}
	by, ok := h.asked.Reader.(verbs.Limiter)
	switch {
	case !ok:
		return made{}, refuse.ErrBadForm
	case k.name == "pause" && t.key != "":
		err = by.PauseKeys(ctx, t.action, t.key)
	case k.name == "pause":
		err = by.Pause(ctx, t.action)
	case t.key != "":
		err = by.ResumeKeys(ctx, t.action, t.key)
	default:
		err = by.Resume(ctx, t.action)
	}
	return t.made(), err
}
