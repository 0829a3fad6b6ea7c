package ui

import (
	"context"
	"strconv"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/verbs"
)

// weightMost is the largest weight of a key.
const weightMost = 1000

// readWeight reads the weight of a key from a form.
func readWeight(text string) (weight int, ok bool) {
	weight, ok = wholeNumber(strings.TrimSpace(text), 32)
	return weight, ok && weight >= 1 && weight <= weightMost
}

// weightOf is the weight of a key as it is now.
func weightOf(now *stint.ActionLimits, key string) int {
	if weight, ok := now.Weights[key]; ok {
		return weight
	}
	return 1
}

// previewWeight is the form of the weight of a key of an action or, when that was filled in, what
// it would do.
func (h *Handler) previewWeight(r *request) (data previewData, err error) {
	form := r.PostForm
	t, err := targetOf(form)
	if err != nil {
		return data, err
	}
	if t.action == "" {
		return data, refuse.ErrBadForm
	}
	now, err := h.limitsNow(r.Context(), t.action)
	if err != nil {
		return data, err
	}
	weight, ok := readWeight(form.Get(fieldWeight))
	if !ok {
		data = previewData{
			Heading: "Weight of a key of " + display.Text(t.action),
			Button:  "Show what it would do", Next: "preview",
			Sentence: show.Say("Of a key with weight 3, three times as many tasks are fetched " +
				"as of one with weight 1, as long as both have some that are ready."),
			Fields: []field{{"what", "key"}, {"action", packText(t.action)}},
			Weight: &weightForm{Key: form.Get("typed"), Weight: form.Get(fieldWeight)},
		}
		if form.Has(fieldWeight) {
			data.Weight.Problem = "The weight must be a whole number from 1 to " +
				display.Number(weightMost) + "."
		}
	} else {
		number := strconv.Itoa(weight)
		data = previewData{
			Heading: "Set the weight of " + t.name() + " to " + number + "?",
			Button:  "Set the weight", Asks: "Reason, for those who ask later",
			Sentence: show.Say("It is " + strconv.Itoa(weightOf(&now, t.key)) + " now."),
			Details:  h.unknownNow(r, t.action, t.key),
			Fields:   append(t.fields(), field{fieldWeight, number}),
		}
	}
	if !now.Limits.Fair {
		data.Details = append(data.Details, show.Say("Its keys do not take turns now: until its "+
			"limits say so, weights have no effect."))
	}
	return data, nil
}

// setWeight sets the weight of a key.
func (h *Handler) setWeight(ctx context.Context, r *request) (made, error) {
	t, err := targetOf(r.PostForm)
	if err != nil {
		return made{}, err
	}
	weight, ok := readWeight(r.PostForm.Get(fieldWeight))
	by, can := h.asked.Reader.(verbs.Limiter)
	if !ok || !can || t.key == "" {
		return made{}, refuse.ErrBadForm
	}
	return t.made(), by.SetWeights(ctx, t.action, map[string]int{t.key: weight})
}
