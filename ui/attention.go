package ui

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/views"
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
	all := notices.OfErrors(found)
	if h.asked.ShardCounts != nil {
		each, err := h.asked.ShardCounts.Get(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, h.onShards(ctx, each, found.Slow, r.now)...)
	} else {
		all = append(all, h.waiting(ctx, stats, found.Slow, actors, r.now)...)
	}
	all = append(all, notices.OfUnwatched(found.Problems, r.now)...)
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

// waiting says what does not go on, apart from errors, as far as counts tell, and what was asked
// for besides: pauses, schedules and scheduled tasks.
func (h *Handler) waiting(
	ctx context.Context, stats stint.Stats, slow []stint.TaskInfo, actors []stint.ActorInfo,
	now time.Time,
) []notices.Notice {
	silences := h.asked.Silences(ctx, stats, actors, notices.ReadyLong)
	all := notices.Of(
		stats, slow, actors, silences, h.answersFrom(), h.asked.Partly(ctx), now)
	all = notices.WithPauses(all, h.notedPauses(ctx, stats), now)
	strays, _ := h.asked.Strays.Get(ctx) // the rest of the page is worth showing
	var schedules []stint.ScheduleInfo
	if h.asked.Schedules != nil {
		schedules, _ = h.asked.Schedules.Get(ctx) // their page says why there are none
	}
	if stats.Copy == "" { // where all is late, and the notice of the copy says why
		all = append(all, notices.OfMaintenance(strays, slow, schedules, now)...)
	}
	all = append(all, notices.OfSkipping(schedules, now)...)
	return append(all, notices.OfFar(strays, now)...)
}

// onShards says of each shard that answers what does not go on there. The shards are asked at once,
// for what the pages of all do not know.
func (h *Handler) onShards(
	ctx context.Context, each []views.Stats, slow []stint.TaskInfo, now time.Time,
) []notices.Notice {
	said := make([][]notices.Notice, len(each))
	var asking sync.WaitGroup
	for i := range each {
		if each[i].Err == nil { // else the page says that it is away
			asking.Go(func() { said[i] = h.onShard(ctx, &each[i], slow, now) })
		}
	}
	asking.Wait()
	return slices.Concat(said...)
}

func (h *Handler) onShard(
	ctx context.Context, of *views.Stats, slow []stint.TaskInfo, now time.Time,
) (said []notices.Notice) {
	defer func() {
		if cause := recover(); cause != nil { // here it would end the process
			h.options.Logger.ErrorContext(ctx, "the notices of a shard panicked",
				slog.String("shard", of.Shard), slog.Any("panic", cause))
		}
	}()
	pages, err := h.pagesOf(ctx, of.Shard)
	if err != nil { // the log says why
		return nil
	}
	actors, err := pages.asked.Actors.Get(ctx)
	if err != nil { // all actions would seem to have none
		return nil
	}
	slow = slices.DeleteFunc(slices.Clone(slow), func(task stint.TaskInfo) bool {
		return h.asked.ShardOf(task.ID) != of.Shard
	})
	return notices.OnShard(of.Shard, pages.waiting(ctx, of.Stats, slow, actors, now))
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
func (h *Handler) notedPauses(ctx context.Context, stats stint.Stats) []ask.Pause {
	pauses := h.asked.Pauses(ctx, stats)
	for i := range pauses[:min(len(pauses), notices.Most+1)] {
		h.asked.NotePause(ctx, &pauses[i])
	}
	return pauses
}
