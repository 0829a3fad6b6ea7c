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
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/filters"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/ui/internal/why"
)

// A made change is what a request has changed: the address of the page that tells of it, and what
// is logged.
type made struct {
	told url.Values
	what []slog.Attr
}

// change makes a change that somebody has agreed to, and leads to the page that tells of it, so
// that to load that page again changes nothing.
func change(h *Handler, w http.ResponseWriter, r *request) error {
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
	case "answer":
		m, err = h.answer(ctx, r)
	case "trigger":
		m, err = h.trigger(ctx, r)
	case "pause", "resume":
		m, err = h.pause(ctx, r, &k)
	default:
		m, err = h.changeTasks(ctx, r, &k, reason)
	}
	var again *formError
	if errors.As(err, &again) { // nothing was changed: the form is shown with what is wrong
		data := again.data
		data.Reason = reason
		data.Back = h.localLink(r.PostForm.Get("back"))
		data.Fields = h.agreed(r, &k, data.Fields...)
		return h.write(w, r, http.StatusBadRequest, view{
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
	affected, refused, err := h.asked.LeavingOut(ctx, tasks,
		func(ctx context.Context, tasks []bulk.Task) (stint.Affected, error) {
			return h.asked.Change(ctx, inStates, tasks, false, change)
		})
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

const (
	// toldMax is how long the address of the page may become by the names of tasks. Proxies take
	// some 4 KiB of headers.
	toldMax = 2500
	// linkMax is how long each address may be, or filter, that it holds.
	linkMax = 500
)

// shortLink is the address to go back to, without its filter if that is long.
func (h *Handler) shortLink(r *request) string {
	back := h.localLink(r.PostForm.Get("back"))
	if len(back) <= linkMax {
		return back
	}
	name, _, _ := strings.Cut(back, "?")
	return belongsTo(name)
}

// name adds tasks to the address of the page that tells of a change, as far as there is room.
func (m *made) name(as string, ids []stint.TaskID) {
	for _, id := range ids {
		if len(m.told.Encode())+len(url.QueryEscape(string(id))) > toldMax {
			return
		}
		m.told.Add(as, string(id))
	}
}

func formInt(values url.Values, name string) int {
	const most = 1_000_000_000
	n, err := strconv.Atoi(values.Get(name))
	if err != nil || n < 0 || n > most {
		return 0
	}
	return n
}

// A changedData is what a page tells of a change.
type changedData struct {
	Sentence  show.Sentence
	Details   []show.Sentence
	Left      []leftOut
	LeftNamed []stint.TaskID
	State     show.Sentence  // that of the task, if it was one
	Changed   int            // how many tasks were changed
	Tasks     []stint.TaskID // the first of them
	More      int
	GoOn      *offer
	Back      string
}

// changed tells of a change what its address says.
func changed(h *Handler, r *request) (view, error) {
	query := r.URL.Query()
	k, ok := kindNamed(query.Get("do"))
	// No link of another site tells people what they have not done.
	from := r.Header.Get("Sec-Fetch-Site")
	if !ok || from == "cross-site" || from == "same-site" {
		return view{}, refuse.ErrNoPage
	}
	if !r.may(k.needs) {
		return view{}, refuse.ErrForbidden
	}
	data := changedData{Back: h.localLink(query.Get("back"))}
	if k.isOfTasks() {
		h.tellTasks(r, &k, query, &data)
	} else {
		tellOther(&k, query, &data)
	}
	return view{name: "changed", title: k.done, data: data}, nil
}

// tellTasks tells of tasks that were changed.
func (h *Handler) tellTasks(r *request, k *kind, query url.Values, data *changedData) {
	affected := stint.Affected{
		Tasks:  make([]stint.TaskID, min(formInt(query, "tasks"), tasksAtOnce)),
		Others: formInt(query, "others"), InProgress: formInt(query, "in-progress"),
	}
	data.Sentence = show.Say(k.done + " " + countOf(k, affected) + ".")
	if len(affected.Tasks) == 0 {
		data.Sentence = show.Say("Nothing was changed.")
	}
	for _, word := range leftWords() {
		if n := formInt(query, "left-"+word); n > 0 {
			data.Left = append(data.Left, leftOut{Tasks: n, Why: whyLeft(word)})
		}
	}
	if formInt(query, "left-changed") > 0 {
		data.Details = append(data.Details, show.Say("What was changed by the same form before, "+
			"such as by a second click, counts as changed since."))
	}
	if formInt(query, "left-silent") > 0 {
		data.Details = append(data.Details, show.Say("A shard that did not answer may have "+
			"changed its part, or not: look when it is back. What it has changed is not changed "+
			"again if you send the same form once more."))
	}
	data.LeftNamed = idsOf(query["left"])
	data.Tasks = idsOf(query["id"])
	data.Changed = len(affected.Tasks)
	data.More = max(data.Changed-len(data.Tasks), 0)
	if len(affected.Tasks) == 1 && len(data.Tasks) == 1 && k.name != "delete" {
		if now, err := h.asked.Task(r.Context(), data.Tasks[0]); err == nil {
			data.State = why.Of(&now.Why).Headline
		}
	}
	if filter := query.Get("filter"); filter != "" {
		data.GoOn = h.offer(r, []field{
			{"of", "all"}, {"filter", filter}, {"back", data.Back},
		}, k.name).called("Go on with the next")
	}
}

func idsOf(texts []string) []stint.TaskID {
	texts = texts[:min(len(texts), namedMax)]
	ids := make([]stint.TaskID, len(texts))
	for i := range texts {
		ids[i] = stint.TaskID(texts[i])
	}
	return ids
}

// tellOther tells of a change of anything else.
func tellOther(k *kind, query url.Values, data *changedData) {
	of := show.Action(query.Get("action"))
	switch {
	case query.Get("schedule") != "" && k.name == "trigger":
		id := query.Get("id")
		data.Sentence = show.Say("Triggered the schedule ", display.Text(query.Get("schedule")),
			": it has inserted ",
			show.Part{Text: display.Text(id), Link: show.Link("tasks", "prefix", id)}, ".")
	case query.Get("schedule") != "":
		data.Sentence = show.Say(k.done, " the schedule ", display.Text(query.Get("schedule")), ".")
	case k.name == "answer":
		id := query.Get("id")
		data.Sentence = show.Say(
			show.Part{Text: display.Text(id), Link: show.Link("task", "id", id)}, " is answered.")
	case query.Get("key") != "":
		data.Sentence = show.Say(
			k.done, " the key ", display.Text(query.Get("key")), " of ", of, ".")
	case k.name == "limit":
		data.Sentence = show.Say(k.done, " ", of, ".")
	default:
		data.Sentence = show.Say(k.done, " the action ", of, ".")
	}
}
