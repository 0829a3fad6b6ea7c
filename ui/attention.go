package ui

import (
	"context"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/notices"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// A noticeRow is something that needs attention, and what mends it.
type noticeRow struct {
	notices.Notice
	Offer *offer // nil if the pages do not mend it
}

// attention is what needs attention, the worst first.
func (h *Handler) attention(
	r *request, stats stint.Stats, found *ask.Troubles, actors []stint.ActorInfo,
) (rows []noticeRow, err error) {
	ctx := r.Context()
	var all []notices.Notice
	if h.asked.ShardCounts != nil {
		each, err := h.asked.ShardCounts.Get(ctx)
		if err != nil {
			return nil, err
		}
		all = append(notices.OfErrors(found),
			notices.OfShards(each, actors, h.answersFrom(), r.now)...)
	} else {
		silences := h.asked.Silences(ctx, stats, actors, notices.ReadyLong)
		all = notices.Of(stats, found, actors, silences, h.answersFrom(), r.partly, r.now)
		all = notices.WithPauses(all, h.notedPauses(r, stats), r.now)
		var schedules []stint.ScheduleInfo
		if h.asked.Schedules != nil {
			schedules, _ = h.asked.Schedules.Get(ctx) // their page says why there are none
		}
		if stats.Copy == "" { // where all is late, and the notice of the copy says why
			all = append(all, notices.OfMaintenance(
				found.Strays, found.Problems, schedules, r.now)...)
		}
		all = append(all, notices.OfSkipping(schedules, r.now)...)
		all = append(all, notices.OfUnwatched(found.Problems, r.now)...)
		all = append(all, notices.OfFar(found.Strays, r.now)...)
	}
	all = append(all, notices.OfHidden(found.Hidden(stats))...)
	all = append(all, notices.OfUntold(h.asked.Untold(ctx, stats, found))...)
	for _, n := range notices.WorstFirst(all) {
		row := noticeRow{Notice: n}
		if n.Of != "" {
			row.What = append(n.What, h.oneReady(ctx, n.Of)...)
		}
		if m := n.Mend; m.Do != "" {
			t := target{action: m.Action, key: m.LimitKey, schedule: m.Schedule}
			row.Offer = h.offer(r, append(t.fields(), field{"back", here(r)}), m.Do)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// oneReady names a ready task of an action, whose page says what it waits for: a parked one, if
// there is one.
func (h *Handler) oneReady(ctx context.Context, action string) show.Sentence {
	page, err := h.asked.List(ctx, stint.Filter{
		Actions: []string{action}, States: []stint.State{stint.StateReady}, Limit: 1,
	})
	if err != nil || len(page.Tasks) == 0 { // it is gone, or not for whoever asks
		return nil
	}
	id := string(page.Tasks[0].ID)
	one := show.Part{Text: show.Text(page.Tasks[0].ID), Link: show.Link("task", "id", id)}
	return show.Say(" See why ", one, " waits.")
}

// notedPauses are what is paused; of those that are named, by whom and why too.
func (h *Handler) notedPauses(r *request, stats stint.Stats) []ask.Pause {
	pauses := h.asked.Pauses(r.Context(), stats)
	for i := range pauses[:min(len(pauses), notices.Most+1)] {
		h.asked.NotePause(r.Context(), &pauses[i])
	}
	return pauses
}
