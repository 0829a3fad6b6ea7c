package ui

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/ui/internal/filters"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// serveChange makes a change that somebody has agreed to, and leads to the page that tells of it,
// so that to load that page again changes nothing.
func serveChange(h *Handler, w http.ResponseWriter, r *request) error {
	k, err := h.readForm(w, r)
	if err != nil {
		return err
	}
	if _, err := agreedAt(r); err != nil {
		return err
	}
	done, err := await(r.Context(), h.changing)
	if err != nil {
		return err
	}
	defer done()
	// Whoever closes the page now does not undo what he has agreed to, nor leave it unknown.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), changeTimeout)
	defer cancel()
	reason := clean(r.PostForm.Get("reason"), reasonMax)
	ctx = h.authored(ctx, r, reason)
	var m made
	switch k.name {
	case "limit":
		m, err = h.setLimits(ctx, r)
	case "weigh":
		m, err = h.setWeight(ctx, r)
	case "answer":
		m, err = h.answer(ctx, r)
	case "insert":
		m, err = h.insert(ctx, r)
	case "schedule":
		m, err = h.putSchedule(ctx, r)
	case "new-schedule":
		m, err = h.addSchedule(ctx, r)
	case "delete-schedule":
		m, err = h.deleteSchedule(ctx, r)
	case "trigger":
		m, err = h.trigger(ctx, r)
	case "pause", "resume":
		m, err = h.pause(ctx, r, &k)
	default:
		m, err = h.changeTasks(ctx, r, &k, reason)
	}
	var again *formError
	if errors.As(err, &again) { // nothing was changed: the form is shown with what is wrong
		if again.err != nil { // such as a guess at a key
			h.logChange(ctx, r, &k, reason, m, again.err)
		}
		data := again.data
		data.Reason, data.Next = reason, "change"
		data.Back = h.localLink(r.PostForm.Get("back"))
		data.Fields = h.agreed(r, &k, data.Fields...)
		code := http.StatusBadRequest
		if again.told {
			code = http.StatusOK
		}
		return h.write(w, r, code, view{
			name: "preview", title: data.Heading, data: data, still: true,
		})
	}
	h.logChange(ctx, r, &k, reason, m, err)
	h.forget()
	if err != nil {
		return outcomeOf(err)
	}
	m.told.Set("do", k.name)
	m.told.Set("back", h.shortLink(r))
	w.Header().Set("Location", "./changed?"+m.told.Encode())
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// logChange logs who changed what, and why.
func (h *Handler) logChange(
	ctx context.Context, r *request, k *kind, reason string, m made, err error,
) {
	attrs := append([]slog.Attr{
		slog.String("change", k.name), slog.String("by", h.who(r)), slog.String("reason", reason),
	}, m.what...)
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
		h.changes.LogAttrs(ctx, slog.LevelWarn, "a change by the web interface failed", attrs...)
		return
	}
	h.changes.LogAttrs(ctx, slog.LevelInfo, "the web interface changed something", attrs...)
}

// outcomeOf is the page for an error of a change.
func outcomeOf(err error) error {
	err = refuse.ToChange(err)
	if why := refuse.Of(err); why.Code < http.StatusInternalServerError {
		return err
	}
	return errors.Join(refuse.ErrUnknownOutcome, err)
}

// changeTasks changes the tasks of a form that still are as they were seen.
func (h *Handler) changeTasks(
	ctx context.Context, r *request, k *kind, reason string,
) (made, error) {
	form := r.PostForm
	m := made{told: url.Values{}}
	tasks, err := unpackTasks(form["task"])
	if err != nil {
		return m, err
	}
	if len(tasks) == 0 {
		return m, refuse.ErrBadForm
	}
	var inStates []stint.State
	for name := range strings.SplitSeq(form.Get("states"), ",") {
		if !slices.Contains(show.States(), stint.State(name)) {
			return m, refuse.ErrBadForm
		}
		inStates = append(inStates, stint.State(name))
	}
	m.what = append(m.what, slog.Int("asked", len(tasks)),
		slog.Any("first", bulk.IDs(tasks[:min(len(tasks), namedMax)])))
	others, err := readOthers(r)
	if err != nil {
		return m, err
	}
	with, ask, err := h.wantedOf(r, k)
	switch {
	case err != nil:
		return m, err
	case ask != nil:
		return m, refuse.ErrBadForm
	}
	with.status = statusOf(reason, h.who(r))
	m.what = append(m.what, attrsOf(with.to)...)
	change := k.change(with)
	affected, refused, err := h.changeAgreed(ctx, inStates, tasks, others, change)
	m.what = append(m.what, slog.Int("tasks", len(affected.Tasks)),
		slog.Int("in_progress", affected.InProgress), slog.Int("others", affected.Others))
	if err != nil {
		return m, err
	}
	number := func(name string, n int) {
		if n > 0 {
			m.told.Set(name, strconv.Itoa(n))
		}
	}
	if filter, err := url.ParseQuery(form.Get("filter")); err == nil && len(filter) > 0 &&
		filters.IsText(filter) && len(form.Get("filter")) < linkMax {
		m.told.Set("filter", filter.Encode())
	}
	m.told.Set("back", h.shortLink(r))
	number("tasks", len(affected.Tasks))
	number("in-progress", affected.InProgress)
	number("others", affected.Others)
	for _, left := range leftOuts(k, tasks, affected, refused) {
		number("left-"+left.word, left.Tasks+formInt(m.told, "left-"+left.word))
		m.name("left", left.IDs)
	}
	m.name("id", affected.Tasks[:min(len(affected.Tasks), namedMax)])
	return m, nil
}

// linkMax is how long each address may be, or filter, that the address of the page holds.
const linkMax = 500

// shortLink is the address to go back to, without its filter if that is long.
func (h *Handler) shortLink(r *request) string {
	back := h.localLink(r.PostForm.Get("back"))
	if len(back) <= linkMax {
		return back
	}
	name, _, _ := strings.Cut(back, "?")
	return belongsTo(name)
}
