package notices

import (
	"cmp"
	"slices"
	"time"

	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// pausedLong is for how long something may be paused before that may be a mistake.
const pausedLong = 24 * time.Hour

// ofPauses says what is paused since when, by whom and why. It names the first ones.
func ofPauses(pauses []ask.Pause, now time.Time) []Notice {
	var all []Notice
	for i := range pauses {
		p := &pauses[i]
		where := show.Link("action", "name", p.Action)
		if p.Schedule != "" {
			where = "schedules"
		}
		all = append(all, Notice{
			Bad: now.Sub(p.Since) > pausedLong, Where: where, Key: pauseKey(p),
			What: ofPause(p, now), Mend: Mend{"resume", p.Action, p.Key, p.Schedule},
		})
	}
	rest := "limits"
	if len(pauses) > Most && slices.IndexFunc(pauses[Most:], func(p ask.Pause) bool {
		return p.Schedule == ""
	}) < 0 {
		rest = "schedules"
	}
	return atMost(all, "pauses", rest)
}

func pauseKey(p *ask.Pause) string {
	switch {
	case p.Schedule != "":
		return "paused schedule " + p.Schedule
	case p.Key != "":
		return "paused key " + p.Action + " " + p.Key
	}
	return "paused " + p.Action
}

func ofPause(p *ask.Pause, now time.Time) show.Sentence {
	var said []any
	switch {
	case p.Schedule != "":
		said = append(said, "The schedule "+display.Text(p.Schedule))
	case p.Key != "":
		said = append(said, "The key "+display.Text(p.Key)+" of ", show.Action(p.Action))
	default:
		said = append(said, show.Action(p.Action))
	}
	said = append(said, " was paused ", show.NewMoment(p.Since, now))
	said = append(said, Noted(p.Action, p.By, p.Reason)...)
	if p.Key == "" && p.Schedule == "" {
		said = append(said, ": "+display.Count(p.Ready, "task")+" ready")
	}
	return show.Say(append(said, ".")...)
}

// Noted says who has changed something of an action and why, with a link to the note of it; nothing
// if nobody noted that.
func Noted(action, by, reason string) (said []any) {
	if by == "" && reason == "" {
		return nil
	}
	said = []any{" ", show.Part{
		Text: "by " + cmp.Or(display.Text(by), "somebody"),
		Link: show.Link("changes", "action", action),
	}}
	if reason != "" {
		said = append(said, " (“"+display.Text(show.FirstWords(reason))+"”)")
	}
	return said
}

// WithPauses are notices with those of pauses, which tell more, in the place of the ones that the
// counts of actions gave.
func WithPauses(all []Notice, pauses []ask.Pause, now time.Time) []Notice {
	told := map[string]bool{}
	for i := range pauses {
		told[pauseKey(&pauses[i])] = true
	}
	if slices.ContainsFunc(pauses, func(p ask.Pause) bool { return p.Key+p.Schedule == "" }) {
		told["more "+morePaused] = true
	}
	all = slices.DeleteFunc(all, func(n Notice) bool { return told[n.Key] })
	return append(all, ofPauses(pauses, now)...)
}
