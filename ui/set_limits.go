package ui

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/filters"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/verbs"
)

// previewLimits is the form with the limits of an action.
func (h *Handler) previewLimits(r *request) (previewData, error) {
	t, err := targetOf(r.PostForm)
	if err != nil {
		return previewData{}, err
	}
	if t.action == "" {
		return previewData{}, refuse.ErrBadForm
	}
	now, err := h.limitsNow(r.Context(), t.action)
	if err != nil {
		return previewData{}, err
	}
	l := now.Limits
	page := limitsFormOf(t.action, &now, url.Values{
		"concurrency": {numberOf(l.Concurrency)}, "per-key": {numberOf(l.ConcurrencyPerKey)},
		"rate": {numberOf(l.Rate.Tasks)}, "burst": {burstOf(l.Rate)},
		"rate-per": {perOf(l.Rate)}, "rate-key": {numberOf(l.RatePerKey.Tasks)},
		"burst-key": {burstOf(l.RatePerKey)}, "rate-key-per": {perOf(l.RatePerKey)},
		"fair": {strconv.FormatBool(l.Fair)}, "fair-group": {l.FairGroup},
		"ordered": {strconv.FormatBool(l.Ordered)}, "by-cost": {strconv.FormatBool(l.ByCost)},
		"seen": {limitsText(l)},
	})
	page.Details = h.unknownNow(r, t.action, "")
	return page, nil
}

// limitsFormOf is the page with the form.
func limitsFormOf(action string, now *stint.ActionLimits, values url.Values) previewData {
	number := func(name, label string) numberField {
		return numberField{Name: name, Label: label, Value: values.Get(name), Hint: "any number"}
	}
	rate := func(name, label string) numberField {
		n, per := number(name, label), values.Get(name+"-per")
		n.Per = &perField{name + "-per", per, pers(per)}
		return n
	}
	burst := func(name string) numberField {
		n := number(name, "Burst, after a quiet time")
		n.Hint = "what comes in a second"
		return n
	}
	return previewData{
		Heading: "Limits of " + display.Text(action), Button: "Set the limits",
		Asks: "Reason, for those who ask later",
		Sentence: show.Say("They hold for all workers at once, from the next fetch on. Owners " +
			"keep what they own. If they hold tasks up, you are told before."),
		Fields: append(target{action: action}.fields(), field{"seen", values.Get("seen")},
			field{"told", ""}),
		Limits: &limitForm{
			InProgress: now.InProgress,
			Counted:    now.Limits.Concurrency > 0 || now.Limits.ConcurrencyPerKey > 0,
			Fair:       values.Get("fair") == "true",
			FairGroup:  values.Get("fair-group"),
			ByCost:     values.Get("by-cost") == "true",
			Ordered:    values.Get("ordered") == "true",
			Numbers: []numberField{
				number("concurrency", "In progress at once"),
				number("per-key", "In progress at once, of each key"),
				rate("rate", "Rate"), burst("burst"),
				rate("rate-key", "Rate of each key"), burst("burst-key"),
			},
		},
	}
}

// pers are the times of a rate to choose from.
func pers(present string) []filters.Choice {
	const day = 24 * time.Hour
	all := []filters.Choice{
		{Value: time.Second.String(), Text: "per second"},
		{Value: time.Minute.String(), Text: "per minute"},
		{Value: time.Hour.String(), Text: "per hour"},
		{Value: day.String(), Text: "per day"},
	}
	isPresent := func(c filters.Choice) bool { return c.Value == present }
	if present != "" && !slices.ContainsFunc(all, isPresent) {
		all = append(all, filters.Choice{Value: present, Text: "per " + present})
	}
	return all
}

func perOf(r stint.Rate) string {
	if r.Per == 0 {
		return time.Second.String()
	}
	return r.Per.String()
}

func numberOf(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// burstOf is empty for what comes in a second, which the store fills in, so that whoever takes the
// rate away or raises it need not do so with that, too.
func burstOf(r stint.Rate) string {
	if r.Per > 0 && r.Burst == max(1, int(float64(r.Tasks)*float64(time.Second)/float64(r.Per))) {
		return ""
	}
	return numberOf(r.Burst)
}

// limitsText tells limits from others.
func limitsText(l stint.Limits) string { return fmt.Sprintf("%v", l) }

// readLimits reads limits from a form. The problem is empty if there is none.
func readLimits(form url.Values) (l stint.Limits, problem string) {
	number := func(name, label string) int {
		text := strings.TrimSpace(form.Get(name))
		if text == "" {
			return 0
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			problem = label + " must be a whole number, or empty."
		}
		return n
	}
	rate := func(name, burst, label string) (r stint.Rate) {
		per, err := time.ParseDuration(form.Get(name + "-per"))
		if err != nil {
			problem = label + " must be in a time."
		}
		r.Tasks, r.Burst = number(name, label), number(burst, label)
		if r.Tasks > 0 {
			r.Per = per
		} else if r.Burst > 0 {
			problem = label + ": what may come at once needs a rate."
		}
		return r
	}
	l = stint.Limits{
		Concurrency:       number("concurrency", "In progress at once"),
		ConcurrencyPerKey: number("per-key", "In progress at once, of each key,"),
		Rate:              rate("rate", "burst", "The fetches"),
		RatePerKey:        rate("rate-key", "burst-key", "The fetches of each key"),
		Fair:              form.Get("fair") == "true",
		Ordered:           form.Get("ordered") == "true",
		ByCost:            form.Get("by-cost") == "true",
		FairGroup:         form.Get("fair-group"),
	}
	if slip := slipIn("group", l.FairGroup); slip != "" {
		problem = slip
	}
	if l.FairGroup != "" && !l.Fair {
		problem = "A group is of actions whose keys take turns: choose that, too, or no group."
	}
	if l.ByCost && !l.Fair && l.Rate.Tasks+l.RatePerKey.Tasks == 0 {
		problem = "What tasks cost counts for a rate, or for turns: choose one of them, too."
	}
	return l, problem
}

// setLimits sets the limits of an action, unless somebody has changed them since they were seen.
func (h *Handler) setLimits(ctx context.Context, r *request) (made, error) {
	form := r.PostForm
	t, err := targetOf(form)
	if err != nil {
		return made{}, err
	}
	by, ok := h.asked.Reader.(verbs.Limiter)
	if !ok || t.action == "" {
		return made{}, refuse.ErrBadForm
	}
	now, err := h.limitsNow(ctx, t.action)
	if err != nil {
		return made{}, err
	}
	wanted, problem := readLimits(form)
	m := t.made()
	m.what = append(m.what, slog.String("before", limitsText(now.Limits)),
		slog.String("after", limitsText(wanted)))
	switch {
	case problem == "" && alike(now.Limits, wanted): // by the same form, perhaps
		return m, nil
	case problem == "" && limitsText(now.Limits) != form.Get("seen"):
		return m, refuse.ErrLimitsChanged
	}
	if problem == "" && form.Get("told") != limitsText(wanted) {
		if held := h.heldUp(ctx, &now, t.action, wanted); len(held) > 0 {
			page := limitsFormOf(t.action, &now, form)
			page.Heading = "Hold up " + display.Text(t.action) + "?"
			page.Sentence, page.Details = held[0], held[1:]
			page.Fields[len(page.Fields)-1].Value = limitsText(wanted)
			return m, &formError{data: page, told: true}
		}
	}
	if problem == "" {
		err = by.SetLimits(ctx, t.action, wanted)
		var wrong *stint.ArgumentError
		if !errors.As(err, &wrong) {
			return m, err
		}
		problem = wrong.Argument + " " + wrong.Problem + "."
	}
	page := limitsFormOf(t.action, &now, form)
	page.Limits.Problem = problem
	return m, &formError{data: page}
}

// heldUp says what limits hold up that are stricter than those of now; nothing if that is nothing,
// or not known.
func (h *Handler) heldUp(
	ctx context.Context, now *stint.ActionLimits, action string, wanted stint.Limits,
) (said []show.Sentence) {
	h.asked.Counts.Forget()
	stats, err := h.asked.Counts.Get(ctx)
	i := slices.IndexFunc(stats.Actions, func(a stint.ActionStats) bool {
		return a.Action == action
	})
	if err != nil || i < 0 {
		return nil
	}
	of := &stats.Actions[i]
	was, most := now.Limits.Concurrency, wanted.Concurrency
	if most > 0 && (was == 0 || most < was) && of.InProgress >= int64(most) {
		over := of.InProgress - int64(most) + 1
		said = append(said, show.Say(display.Count(of.InProgress, "task")+" "+
			plural(int(of.InProgress), "is", "are")+" in progress, and "+
			display.Number(int64(most))+" may be: none is fetched until "+display.Number(over)+
			" of these "+plural(int(over), "has", "have")+" ended."))
	}
	if rate := wanted.Rate; rate.Per > 0 && !wanted.ByCost && isSlower(rate, now.Limits.Rate) {
		behind := float64(of.Ready-int64(rate.Burst)) / float64(rate.Tasks) * rate.Per.Seconds()
		takes := show.Old(time.Duration(min(behind, heldUpMost.Seconds())) * time.Second)
		if behind > heldUpMost.Seconds() {
			takes = "more than " + takes
		}
		if behind >= heldUpLeast.Seconds() {
			said = append(said, show.Say("At this rate, the "+display.Count(of.Ready, "task")+
				" that are ready take "+takes+"."))
		}
	}
	return said
}

// heldUpLeast is for how long a rate holds up the tasks of which somebody is told; more than
// heldUpMost is not told apart.
const heldUpLeast, heldUpMost = time.Minute, 10 * 365 * 24 * time.Hour

// isSlower reports whether fewer tasks begin by a rate than by the one before.
func isSlower(rate, before stint.Rate) bool {
	return before.Tasks == 0 || float64(rate.Tasks)/rate.Per.Seconds() <
		float64(before.Tasks)/before.Per.Seconds()
}

// alike reports whether limits are what somebody wants. The store fills in a burst that is left
// out, and that one task of a key in strict order is in progress at a time.
func alike(now, wanted stint.Limits) bool {
	if wanted.Ordered && wanted.ConcurrencyPerKey == 0 {
		now.ConcurrencyPerKey = 0
	}
	if wanted.Rate.Burst == 0 && burstOf(now.Rate) == "" {
		now.Rate.Burst = 0
	}
	if wanted.RatePerKey.Burst == 0 && burstOf(now.RatePerKey) == "" {
		now.RatePerKey.Burst = 0
	}
	return now == wanted
}
