package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/verbs"
)

// A newTask is a task that somebody agrees to insert.
type newTask struct {
	stint.Task

	SameBody bool
}

// previewInsert is the form of a task that is new, or a copy of another one, or, when that was
// filled in, what would be inserted.
func (h *Handler) previewInsert(r *request) (data previewData, err error) {
	source, err := h.sourceOf(r)
	if err != nil {
		return data, err
	}
	form := &insertForm{Starts: starts(), Actions: h.actionNames(r, r.PostForm.Get(fieldNewAction))}
	form.Starts[0].Text = "at once, or when it waits for nothing"
	form.Starts = slices.Delete(form.Starts, 1, 2)
	var task newTask
	notRead := "" // of the conditions
	if r.PostForm.Has(fieldNewAction) {
		form.read(r.PostForm)
		task, form.Problem = readTask(r, source)
		form.WhenProblem = form.readConditions(&task.Task)
		if form.Problem == "" && form.WhenProblem == "" {
			form.Problem, form.WhenProblem = h.missingFor(r.Context(), &task.Task)
		}
		if form.Problem == "" && form.WhenProblem == "" {
			return h.previewTask(r, source, &task), nil
		}
	} else if source != nil {
		form.copyOf(source)
		notRead = h.copyConditions(r, form, source.ID)
	}
	if source != nil && source.Body != nil {
		form.CopiedBody = len(source.Body)
	}
	data = previewData{
		Heading: "Insert a task", Button: "Show what it would do", Next: "preview", Insert: form,
		Sentence: show.Say("It is inserted as it is here."),
	}
	if source != nil {
		data.Heading = "Insert a copy of " + show.Text(source.ID)
		data.Sentence = show.Say("It is inserted as it is here. " + notCopied)
		if source.Hidden {
			data.Details = append(data.Details,
				show.Say("You may not read its body: the copy has the one that you type."))
		}
		if notRead != "" {
			data.Details = append(data.Details, show.Say(notRead))
		}
		data.Fields = []field{{"task", bulk.Pack(bulk.NewTask(source))}}
	}
	return data, nil
}

const notCopied = "A deadline, fail-fast, a key of the answer, what waits for the task, what it " +
	"waits for without a condition, and conditions about tasks that are gone are not copied."

// sourceOf is the task that is copied, as it was seen, with its body if whoever copies it may read
// that; nil if none is.
func (h *Handler) sourceOf(r *request) (*stint.TaskInfo, error) {
	if !r.PostForm.Has("task") {
		return nil, nil //nolint:nilnil // as the comment says
	}
	tasks, err := unpackTasks(r.PostForm["task"])
	if err != nil || len(tasks) != 1 {
		return nil, refuse.ErrBadForm
	}
	done, err := ask.AwaitReading(r.Context())
	if err != nil {
		return nil, err
	}
	defer done()
	found, err := h.asked.GetTasks(r.Context(), bulk.IDs(tasks))
	if err != nil {
		return nil, err
	}
	if !found[0].InsertedAt.Equal(tasks[0].Inserted) {
		return nil, refuse.ErrCopied
	}
	if !r.may(ReadBodies) {
		found[0].Body, found[0].Hidden = nil, true
	}
	return &found[0], nil
}

// copyOf fills a form in with what a task has.
func (f *insertForm) copyOf(of *stint.TaskInfo) {
	f.Action, f.Key = of.Action, of.Key
	if of.Priority != 0 {
		f.Priority = strconv.Itoa(int(of.Priority))
	}
	if of.MaxTries != 0 {
		f.MaxTries = strconv.Itoa(of.MaxTries)
	}
	if of.Cost != 0 {
		f.Cost = strconv.Itoa(of.Cost)
	}
	for _, name := range slices.Sorted(maps.Keys(of.Headers)) {
		f.Headers += name + "=" + of.Headers[name] + "\n"
	}
	isTyped := len(of.Body) <= resultMax && utf8.Valid(of.Body) &&
		!strings.ContainsAny(string(of.Body), "\x00\r")
	if f.SameBody = len(of.Body) > 0 && !isTyped; !f.SameBody {
		f.Body = string(of.Body)
	}
}

// read takes what somebody has typed.
func (f *insertForm) read(form url.Values) {
	f.ID, f.Action = form.Get(fieldNewID), form.Get(fieldNewAction)
	f.Key, f.Body = form.Get(fieldNewKey), lines(form.Get(fieldNewBody))
	f.Priority, f.MaxTries = form.Get(fieldNewPriority), form.Get(fieldNewTries)
	f.After, f.Headers = lines(form.Get(fieldNewAfter)), lines(form.Get(fieldNewHeaders))
	f.Start, f.At = form.Get(fieldStart), form.Get(fieldStartAt)
	f.Cost, f.Deadline = form.Get(fieldNewCost), form.Get(fieldNewDeadline)
	f.SameBody = form.Has(fieldSameBody)
	f.When, f.AnyOf = lines(form.Get(fieldNewWhen)), form.Has(fieldAnyOf)
}

// lines is text as it was typed: browsers send other line ends.
func lines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// readTask reads a task from a form. The problem is empty if there is none.
func readTask(r *request, source *stint.TaskInfo) (task newTask, problem string) {
	var f insertForm
	f.read(r.PostForm)
	task.ID, task.Action, task.Key = stint.TaskID(f.ID), f.Action, f.Key
	if f.Body != "" {
		task.Body = []byte(f.Body)
	}
	if task.SameBody = f.SameBody; f.SameBody && (f.Body != "" || source == nil) {
		return task, "Give a body, or keep that of the task that is copied."
	}
	if f.SameBody && source.Hidden {
		return task, "You may not read the body of the task that is copied: give one."
	}
	if source != nil {
		task.PostResult, task.OnAbort = source.PostResult, source.OnAbort
	}
	number := func(text, label string, bits int) (n int) {
		if text = strings.TrimSpace(text); text != "" && problem == "" {
			var ok bool
			if n, ok = wholeNumber(text, bits); !ok {
				problem = label
			}
		}
		return n
	}
	task.Priority = int16(number(f.Priority, //nolint:gosec // it has 16 bits
		"The priority must be a whole number from -32768 to 32767.", 16))
	task.MaxTries = number(f.MaxTries,
		"The tries must be a whole number, or -1 for any number.", 32)
	task.Cost = number(f.Cost, "The cost must be a whole number.", 32)
	if task.Cost < 0 {
		problem = cmp.Or(problem, "The cost must not be negative.")
	}
	if f.Deadline != "" {
		ok := false
		if task.Deadline, ok = typedTime(f.Deadline); !ok {
			problem = cmp.Or(problem, "The deadline must be a date and a time of day.")
		} else if !task.Deadline.After(r.now) {
			problem = cmp.Or(problem, "The deadline has passed.")
		}
	}
	to, startProblem := readStart(r.PostForm, r.now)
	task.NotBefore = to.NotBefore
	for _, slip := range []string{
		startProblem, slipIn("ID", f.ID), slipIn("action", f.Action), slipIn("key", f.Key),
	} {
		problem = cmp.Or(problem, slip)
	}
	headers, slip := readHeaders(f.Headers)
	task.Headers, problem = headers, cmp.Or(problem, slip)
	for line := range strings.Lines(f.After) {
		if id := strings.TrimSpace(line); id != "" {
			task.After = append(task.After, stint.TaskID(id))
		}
	}
	if problem == "" && task.ID == "" {
		if id, err := uuid.NewV7(); err == nil { // a form that is sent again has the same
			task.ID = stint.TaskID(id.String())
		}
	}
	return task, problem
}

// readHeaders reads headers, one on each line. The problem is empty if there is none.
func readHeaders(text string) (headers map[string]string, problem string) {
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		switch {
		case strings.TrimSpace(line) == "":
			continue
		case !ok:
			return nil, "A header is a name and a value, with = between them."
		case headers == nil:
			headers = map[string]string{}
		}
		headers[name] = value
	}
	return headers, ""
}

// waitedMost is for how many others a task that is inserted by the form can wait.
const waitedMost = 100

// missingFor says that a task is there already, or that one is not that it is to wait for, by
// itself or by a condition.
func (h *Handler) missingFor(
	ctx context.Context, task *stint.Task,
) (problem, whenProblem string) {
	ids := slices.Clone(task.After)
	for _, c := range slices.Concat(task.When, task.WhenAny) {
		ids = append(ids, c.After)
	}
	if len(ids) > waitedMost {
		return "A task that is inserted here can wait for at most " +
			strconv.Itoa(waitedMost) + " others.", ""
	}
	found, err := h.asked.GetShortTasks(ctx, append(ids, task.ID))
	var named *stint.TaskError
	missing := map[stint.TaskID]bool{}
	switch {
	case errors.Is(err, stint.ErrTaskNotFound) && errors.As(err, &named):
		for _, id := range named.IDs {
			missing[id] = true
		}
	case err != nil && !errors.Is(err, stint.ErrRefused):
		return refuse.Of(err).Sentence, ""
	case len(found) == 0:
		return "", "" // the insert tells
	}
	if !missing[task.ID] {
		return "There is a task " + show.Text(task.ID) + " already.", ""
	}
	for i, id := range ids {
		if !missing[id] {
			continue
		}
		said := "There is no task " + show.Text(id) + " to wait for."
		if i < len(task.After) {
			return said, ""
		}
		return "", said
	}
	return "", ""
}

// previewTask says what would be inserted.
func (h *Handler) previewTask(
	r *request, source *stint.TaskInfo, task *newTask,
) previewData {
	data := previewData{
		Heading: "Insert " + show.Text(task.ID) + "?", Button: "Insert",
		Details: h.unknownNow(r, task.Action, task.Key),
	}
	say := func(pieces ...any) { data.Details = append(data.Details, show.Say(pieces...)) }
	when := " It may begin at once."
	switch {
	case len(task.WhenAny) > 0:
		when = " It begins as soon as one condition is met."
	case len(task.When) > 0:
		when = " It begins when all conditions are met, and is skipped if one cannot be."
	case len(task.After) > 0:
		when = " It begins after the end of " + display.Count(int64(len(task.After)), "task") + "."
	case task.Action == stint.External:
		when = " It waits for an answer."
	case !task.NotBefore.IsZero():
		when = ""
	}
	data.Sentence = show.Say("Inserts a task of the action "+display.Text(task.Action)+".", when)
	if !task.NotBefore.IsZero() {
		say("It begins ", show.NewMoment(task.NotBefore, r.now), " at the earliest.")
	}
	data.Details = append(data.Details, sayConditions(&task.Task)...)
	bytes := len(task.Body)
	if task.SameBody {
		bytes = len(source.Body)
	}
	say("Its body has " + display.Count(int64(bytes), "byte") + ".")
	if task.Cost > 1 {
		say("It costs " + display.Number(int64(task.Cost)) + ", where costs count.")
	}
	if !task.Deadline.IsZero() {
		say("It is aborted ", show.NewMoment(task.Deadline, r.now), " if it has not ended by then.")
	}
	if len(task.Headers) > 0 {
		say("It has " + display.Count(int64(len(task.Headers)), "header") + ".")
	}
	packed, err := json.Marshal(task)
	if err != nil {
		return data
	}
	data.Fields = []field{{fieldNewTask, string(packed)}}
	if source != nil {
		say(notCopied)
		data.Fields = append(data.Fields, field{"task", bulk.Pack(bulk.NewTask(source))})
	}
	return data
}

// insert inserts a task that somebody has agreed to.
func (h *Handler) insert(ctx context.Context, r *request) (made, error) {
	var task newTask
	by, ok := h.asked.Reader.(verbs.Inserter)
	decoder := json.NewDecoder(strings.NewReader(r.PostForm.Get(fieldNewTask)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&task); err != nil || !ok || task.ID == "" {
		return made{}, refuse.ErrBadForm
	}
	m := made{told: url.Values{"id": {string(task.ID)}}, what: []slog.Attr{
		slog.String("task", string(task.ID)), slog.String("action", task.Action),
	}}
	source, err := h.sourceOf(r)
	if err != nil {
		return m, err
	}
	if task.SameBody {
		if source == nil {
			return m, refuse.ErrBadForm
		}
		task.Body = source.Body
	}
	err = by.InsertTasks(ctx, []stint.Task{task.Task})
	if errors.Is(err, stint.ErrTaskExists) {
		err = refuse.ErrInserted
	}
	return m, err
}
