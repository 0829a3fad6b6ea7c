package ui

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/verbs"
)

// A limitRow is an action with limits, pauses or weights.
type limitRow struct {
	stint.ActionLimits
	Link       string
	Rate       string
	RatePerKey string
	Full       bool
	Paused     []pausedKey
	PausedMore int
	Weighted   []weightedKey
	Offer      *offer // what can be done with the action
}

type pausedKey struct {
	Key   string
	Since time.Time
	Link  string
	Offer *offer
}

type weightedKey struct {
	Key    string
	Weight int
}

// keysMax is how many keys of an action are named.
const keysMax = 50

func newLimitRow(l *stint.ActionLimits) limitRow {
	row := limitRow{
		ActionLimits: *l, Link: show.Link("action", "name", l.Action),
		Rate: rateText(l.Limits.Rate), RatePerKey: rateText(l.Limits.RatePerKey),
		Full: l.Limits.Concurrency > 0 && l.InProgress >= l.Limits.Concurrency,
	}
	for _, key := range slices.Sorted(maps.Keys(l.PausedKeys)) {
		if len(row.Paused) == keysMax {
			row.PausedMore = len(l.PausedKeys) - keysMax
			break
		}
		row.Paused = append(row.Paused, pausedKey{
			Key: key, Since: l.PausedKeys[key],
			Link: show.Link("tasks", "action", l.Action, "key", key),
		})
	}
	for _, key := range slices.Sorted(maps.Keys(l.Weights)) {
		if len(row.Weighted) == keysMax {
			break
		}
		row.Weighted = append(row.Weighted, weightedKey{key, l.Weights[key]})
	}
	return row
}

// rateText says a rate in words.
func rateText(r stint.Rate) string {
	if r == (stint.Rate{}) {
		return ""
	}
	text := display.Number(int64(r.Tasks)) + " per "
	switch r.Per {
	case time.Second:
		text += "second"
	case time.Minute:
		text += "minute"
	case time.Hour:
		text += "hour"
	default:
		text += r.Per.String()
	}
	if r.Burst > 1 {
		text += ", " + display.Number(int64(r.Burst)) + " at once"
	}
	return text
}

type limitsData struct {
	Partly bool // as in [request]
	Limits []limitRow
	More   int
	Offers bool // something can be done
	Now    time.Time
}

// limitsPage lists limits and pauses.
func limitsPage(h *Handler, r *request) (view, error) {
	found, err := h.asked.Limits.Get(r.Context())
	if err != nil {
		return view{}, err
	}
	data := limitsData{Partly: r.partly, Now: r.now}
	if len(found) > actionsMax {
		found, data.More = found[:actionsMax], len(found)-actionsMax
	}
	for i := range found {
		row := newLimitRow(&found[i])
		h.offerLimits(r, &row)
		data.Offers = data.Offers || row.Offer != nil
		data.Limits = append(data.Limits, row)
	}
	return view{name: "limits", data: data}, nil
}

// offerLimits offers what can be done with an action and its keys.
func (h *Handler) offerLimits(r *request, row *limitRow) {
	of := func(key string) []field {
		return append(target{action: row.Action, key: key}.fields(), field{"back", here(r)})
	}
	changes := []string{pauseOr(row.PausedSince), "limit"}
	if row.Limits.Fair {
		changes = append(changes, "weigh")
	}
	row.Offer = h.offer(r, of(""), changes...)
	for i := 0; row.Offer != nil && i < len(row.Offer.Buttons); i++ {
		if b := &row.Offer.Buttons[i]; b.Do == "limit" {
			b.Text = "Limits…"
		}
	}
	for i := range row.Paused {
		row.Paused[i].Offer = h.offer(r, of(row.Paused[i].Key), "resume")
	}
}

// pauseOr is the end of a pause, if there is one.
func pauseOr(since time.Time) string {
	if since.IsZero() {
		return "pause"
	}
	return "resume"
}

// limitsNow are the limits of an action.
func (h *Handler) limitsNow(ctx context.Context, action string) (stint.ActionLimits, error) {
	by, ok := h.asked.Reader.(verbs.Limiter)
	if !ok {
		return stint.ActionLimits{}, refuse.ErrBadForm
	}
	found, err := by.ListLimits(ctx, action)
	if err != nil || len(found) == 0 {
		return stint.ActionLimits{}, err
	}
	return found[0], nil
}
