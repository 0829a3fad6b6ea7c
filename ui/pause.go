package ui

import (
	"context"

	"github.com/stint-tasks/stint/internal/display"
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
	if _, ok := h.asked.Reader.(verbs.Scheduler); t.schedule != "" && !ok {
		return data, refuse.ErrBadForm
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
	default:
		data.Sentence = show.Say("Its tasks are fetched again.")
	}
	data.Details = h.doubtsOf(r, k, t)
	if stats, err := h.asked.Counts.Get(r.Context()); err == nil && t.key == "" {
		for i := range stats.Actions {
			if a := &stats.Actions[i]; a.Action == t.action {
				data.Details = append(data.Details, show.Say("Of its tasks, "+
					display.Number(a.Ready)+" are ready, and "+display.Number(a.InProgress)+
					" in progress."))
			}
		}
	}
	return data, nil
}

// doubtsOf says that nothing has the name of what is paused, or that what is resumed is not paused.
func (h *Handler) doubtsOf(r *request, k *kind, t target) []show.Sentence {
	switch {
	case t.schedule != "":
		return nil
	case k.name == "pause":
		return h.unknownNow(r, t.action, t.key)
	}
	now, err := h.limitsNow(r.Context(), t.action)
	paused := !now.PausedSince.IsZero()
	if t.key != "" {
		paused = now.KeysOrMore || !now.PausedKeys[t.key].IsZero()
	}
	if err != nil || paused {
		return nil
	}
	return []show.Sentence{show.Say("It is not paused now: there is nothing to resume.")}
}

// pause pauses or resumes.
func (h *Handler) pause(ctx context.Context, r *request, k *kind) (made, error) {
	t, err := targetOf(r.PostForm)
	if err != nil {
		return made{}, err
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
