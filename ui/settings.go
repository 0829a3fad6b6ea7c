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

// A target is what is paused or resumed: an action, a key of it, or a schedule.
type target struct{ action, key, schedule string }

// targetOf reads what a form is about. Somebody may have typed the key.
func targetOf(form url.Values) (t target, err error) {
	if t.action, err = unpackText(form.Get("action")); err != nil {
		return t, err
	}
	if t.key, err = unpackText(form.Get("key")); err != nil {
		return t, err
	}
	if t.schedule, err = unpackText(form.Get("schedule")); err != nil {
		return t, err
	}
	if typed := form.Get("typed"); typed != "" {
		if err := badName("key", typed); err != nil {
			return t, err
		}
		t.key = typed
	}
	if (t.action == "") == (t.schedule == "") || form.Get("what") == "key" && t.key == "" {
		return t, refuse.ErrNothingNamed
	}
	return t, nil
}

// fields are those of a form that is about it. What it is about is said by a field of its own, so
// that a form that has lost its key is not about the whole action.
func (t target) fields() []field {
	switch {
	case t.schedule != "":
		return []field{{"what", "schedule"}, {"schedule", packText(t.schedule)}}
	case t.key != "":
		return []field{
			{"what", "key"}, {"action", packText(t.action)}, {"key", packText(t.key)},
		}
	}
	return []field{{"what", "action"}, {"action", packText(t.action)}}
}

// targetFields are the names of the fields of a form about a target.
func targetFields(form url.Values) []string {
	switch what := form.Get("what"); {
	case what == "schedule":
		return []string{"what", "schedule"}
	case what == "key" && form.Has("typed"):
		return []string{"what", "action", "typed"}
	case what == "key":
		return []string{"what", "action", "key"}
	}
	return []string{"what", "action"}
}

func (t target) name() string {
	switch {
	case t.schedule != "":
		return "the schedule " + display.Text(t.schedule)
	case t.key != "":
		return "the key " + display.Text(t.key) + " of " + display.Text(t.action)
	}
	return "the action " + display.Text(t.action)
}

func (t target) made() made {
	m := made{told: url.Values{}}
	for _, f := range []field{
		{"action", t.action}, {"key", t.key}, {"schedule", t.schedule},
	} {
		if f.Value != "" {
			m.told.Set(f.Name, f.Value)
			m.what = append(m.what, slog.String(f.Name, f.Value))
		}
	}
	return m
}

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

// previewTrigger says what a schedule would insert.
func (h *Handler) previewTrigger(r *request) (data previewData, err error) {
	t, err := targetOf(r.PostForm)
	if err != nil {
		return data, err
	}
	by, ok := h.asked.Reader.(verbs.Scheduler)
	if !ok || t.schedule == "" {
		return data, refuse.ErrBadForm
	}
	found, err := by.ListSchedules(r.Context(), t.schedule)
	if err != nil {
		return data, err
	}
	if len(found) == 0 {
		return data, refuse.ErrNoSchedule
	}
	h.learnClock(r.Context())
	at := h.asked.Clock.Now(r.Context())
	last, err := h.lastTriggered(r.Context(), t.schedule, at)
	if err != nil {
		return data, err
	}
	var actions []string
	for i := range found[0].Tasks {
		if action := show.Text(found[0].Tasks[i].Action); !slices.Contains(actions, action) &&
			len(actions) < namedMax {
			actions = append(actions, action)
		}
	}
	return previewData{
		Heading: "Trigger " + t.name() + "?", Button: "Trigger",
		Asks: "Reason, for those who ask later",
		Sentence: show.Say("Inserts " + display.Count(int64(len(found[0].Tasks)), "task") +
			" now, besides its occurrences."),
		Details: []show.Sentence{show.Say("Of the actions: " + strings.Join(actions, ", ") + ".")},
		Fields: append(t.fields(), field{"last", last},
			field{"since", strconv.FormatInt(at.UnixMicro(), 10)}),
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

// A limitForm is the limits of an action as a form has them.
type limitForm struct {
	InProgress int
	Counted    bool
	Fair       bool
	FairGroup  string
	Ordered    bool
	Numbers    []numberField
	Problem    string
}

// A numberField is a number of a form, empty if it is none, and the time that it is of.
type numberField struct {
	Name, Label, Value, Hint string
	Per                      *perField
}

type perField struct {
	Name, Value string
	Choices     []filters.Choice
}

// A formError is that of a form with a value that the store does not take.
type formError struct{ data previewData }

// Error is for nobody: the form is shown again.
func (*formError) Error() string { return "the form has a value that is refused" }

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
	page := limitsPage(t.action, &now, url.Values{
		"concurrency": {numberOf(l.Concurrency)}, "per-key": {numberOf(l.ConcurrencyPerKey)},
		"rate": {numberOf(l.Rate.Tasks)}, "burst": {numberOf(l.Rate.Burst)},
		"rate-per": {perOf(l.Rate)}, "rate-key": {numberOf(l.RatePerKey.Tasks)},
		"burst-key": {numberOf(l.RatePerKey.Burst)}, "rate-key-per": {perOf(l.RatePerKey)},
		"fair": {strconv.FormatBool(l.Fair)}, "fair-group": {l.FairGroup},
		"ordered": {strconv.FormatBool(l.Ordered)}, "seen": {limitsText(l)},
	})
	page.Details = h.unknownNow(r, t.action, "")
	return page, nil
}

// limitsPage is the page with the form.
func limitsPage(action string, now *stint.ActionLimits, values url.Values) previewData {
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
			"keep what they own."),
		Fields: append(target{action: action}.fields(), field{"seen", values.Get("seen")}),
		Limits: &limitForm{
			InProgress: now.InProgress,
			Counted:    now.Limits.Concurrency > 0 || now.Limits.ConcurrencyPerKey > 0,
			Fair:       values.Get("fair") == "true",
			FairGroup:  values.Get("fair-group"),
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
		FairGroup:         form.Get("fair-group"),
	}
	if slip := slipIn("group", l.FairGroup); slip != "" {
		problem = slip
	}
	if l.FairGroup != "" && !l.Fair {
		problem = "A group is of actions whose keys take turns: choose that, too, or no group."
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
	case problem == "":
		err = by.SetLimits(ctx, t.action, wanted)
		var wrong *stint.ArgumentError
		if !errors.As(err, &wrong) {
			return m, err
		}
		problem = wrong.Argument + " " + wrong.Problem + "."
	}
	page := limitsPage(t.action, &now, form)
	page.Limits.Problem = problem
	return m, &formError{page}
}

// alike reports whether limits are what somebody wants. The store fills in a burst that is left
// out, and that one task of a key in strict order is in progress at a time.
func alike(now, wanted stint.Limits) bool {
	if wanted.Ordered && wanted.ConcurrencyPerKey == 0 {
		now.ConcurrencyPerKey = 0
	}
	if wanted.Rate.Burst == 0 {
		now.Rate.Burst = 0
	}
	if wanted.RatePerKey.Burst == 0 {
		now.RatePerKey.Burst = 0
	}
	return now == wanted
}
