package ui

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/filters"
	"github.com/stint-tasks/stint/ui/internal/kept"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// A previewData is what a page says before a change, with the form of somebody who agrees.
type previewData struct {
	Heading  string
	Sentence show.Sentence
	Details  []show.Sentence
	Left     []leftOut
	Tasks    []stint.TaskID // the first of those that are changed
	More     int            // how many there are besides
	Fields   []field
	Asks     string // what the reason is for; empty if none is asked for
	Reason   string
	Button   string // empty if there is nothing to do
	Rest     bool   // there may be more tasks, with which the script can go on by itself
	Removes  bool
	Back     string
	Command  string

	// Next is the page to which the form leads: that of the change, or another preview.
	Next string

	Limits  *limitForm
	Answer  *answerForm
	Waiting *waitingForm
}

// A leftOut is some tasks that are not changed, and why.
type leftOut struct {
	Tasks int
	word  string // for why, in addresses
	Why   string
	IDs   []stint.TaskID // the first of them
}

// More is how many tasks there are that are not named.
func (l leftOut) More() int { return l.Tasks - len(l.IDs) }

// namedMax is how many tasks a preview names.
const namedMax = 20

// preview says what a change would do, and changes nothing.
func preview(h *Handler, w http.ResponseWriter, r *request) error {
	k, err := h.readForm(w, r)
	if err != nil {
		return err
	}
	data, err := h.previewOf(r, &k)
	if err != nil {
		return refuse.ToChange(err)
	}
	data.Removes = k.removes
	if data.Next == "" {
		data.Next = "change"
	}
	data.Back = h.localLink(r.PostForm.Get("back"))
	data.Fields = h.agreed(r, &k, data.Fields...)
	return h.write(w, r, http.StatusOK, view{
		name: "preview", title: data.Heading, data: data, still: true,
	})
}

// previewOf is what a change would do.
func (h *Handler) previewOf(r *request, k *kind) (previewData, error) {
	done, err := await(r.Context(), h.previewing)
	if err != nil {
		return previewData{}, err
	}
	defer done()
	switch k.name {
	case "limit":
		return h.previewLimits(r)
	case "answer":
		return h.previewAnswer(r)
	case "trigger":
		return h.previewTrigger(r)
	case "pause", "resume":
		return h.previewPause(r, k)
	}
	return h.previewTasks(r, k)
}

// chosen returns the tasks of a form, and the states in which they may be changed: those that were
// selected, of which the verb tells which it takes, or those that pass the filter, if there is one.
func (h *Handler) chosen(
	r *request, k *kind,
) (found bulk.Found, inStates []stint.State, filter url.Values, err error) {
	form := r.PostForm
	if form.Get("of") != "all" {
		if found.Tasks, err = unpackTasks(form["task"]); err == nil {
			h.seeAgain(r.Context(), found.Tasks)
		}
		return found, show.States(), nil, err
	}
	filter, err = url.ParseQuery(form.Get("filter"))
	if err != nil || !filters.IsText(filter) {
		return found, nil, nil, refuse.ErrBadForm
	}
	found, inStates, err = h.findTasks(r.Context(), k, filter)
	return found, inStates, filter, err
}

// seeAgain sets the states of tasks to what they are now. The preview shows these, and whoever
// agrees to it agrees to them. Those that cannot be read are as the page before has shown them.
func (h *Handler) seeAgain(ctx context.Context, tasks []bulk.Task) {
	infos, err := h.asked.GetTasks(ctx, bulk.IDs(tasks))
	if err != nil && !errors.Is(err, stint.ErrTaskNotFound) {
		return
	}
	now := make(map[stint.TaskID]stint.State, len(infos))
	for i := range infos {
		now[infos[i].ID] = infos[i].State
	}
	for i := range tasks {
		tasks[i].State = cmp.Or(now[tasks[i].ID], tasks[i].State)
	}
}

// previewTasks says what would become of tasks that were selected, or that pass a filter.
func (h *Handler) previewTasks(r *request, k *kind) (data previewData, err error) {
	with, ask, err := h.wantedOf(r, k)
	switch {
	case err != nil:
		return data, err
	case ask != nil:
		return *ask, nil
	}
	found, inStates, filter, err := h.chosen(r, k)
	if err != nil {
		return data, err
	}
	if len(found.Tasks) == 0 {
		return nothingTo(k, filter != nil, found), nil
	}
	change := k.change(with)
	affected, refused, err := h.asked.LeavingOut(r.Context(), found.Tasks,
		func(ctx context.Context, tasks []bulk.Task) (stint.Affected, error) {
			return h.asked.Change(ctx, inStates, tasks, true, change)
		})
	if err != nil {
		return data, err
	}
	number := display.Count(int64(len(affected.Tasks)), "task")
	data = previewData{
		Heading:  k.text + " these tasks?",
		Sentence: show.Say(k.will + " " + countOf(k, affected) + "."),
		Left:     leftOuts(k, found.Tasks, affected, refused),
		Tasks:    affected.Tasks[:min(len(affected.Tasks), namedMax)],
		More:     max(len(affected.Tasks)-namedMax, 0),
		Asks:     "Reason, for those who ask later", Button: k.text + " " + number,
		Command: commandTo(k, with.to, filter, found.Tasks),
	}
	data.Details = detailsOf(k, with.to, r.now)
	if k.name == "abort" {
		data.Asks = "Reason, which the tasks keep"
	}
	if len(found.Tasks) == 1 {
		data.Heading = k.text + " " + show.Text(found.Tasks[0].ID) + "?"
	}
	if len(affected.Tasks) == 0 {
		data.Heading, data.Button = "Nothing to "+k.name, ""
		data.Sentence = show.Say("No task would be changed.")
	}
	data.Details = append(data.Details, followsOf(affected)...)
	if found.Skipped > 0 {
		data.Details = append(data.Details, show.Say(display.Count(int64(found.Skipped), "task")+
			" not counted here, aborted because of others: they are opened with these others."))
	}
	if h.ofShards() {
		data.Details = append(data.Details, h.countedOn())
	}
	data.Fields = []field{
		{"task", bulk.Pack(found.Tasks...)}, {"states", joinStates(inStates)},
	}
	data.Fields = append(data.Fields, fieldsOf(with.to)...)
	if found.More {
		more := h.moreAre(r.Context(), filter, inStates, len(found.Tasks))
		data.Details, data.Rest = append(data.Details, more), true
		filter.Del("after")
		if k.needs == Change { // what was changed may still pass the filter
			filter.Set("after", string(found.Next))
		}
		data.Fields = append(data.Fields, field{"filter", filter.Encode()})
	}
	return data, nil
}

// followsOf says what else becomes of tasks when a change has been made.
func followsOf(affected stint.Affected) (said []show.Sentence) {
	add := func(n int, one, many string) {
		if n > 0 {
			said = append(said, show.Say(display.Count(int64(n), "task")+" "+plural(n, one, many)))
		}
	}
	add(affected.Started, "then waits for no others any more, and begins, at once or at its time.",
		"then wait for no others any more, and begin, at once or at their time.")
	add(affected.Skipped, "is skipped then, since its conditions are not met.",
		"are skipped then, since their conditions are not met.")
	add(affected.Later, "more is aborted within about a second: only tasks that fail fast need "+
		"it, or its deadline has passed.", "more are aborted within about a second: only tasks "+
		"that fail fast need them, or their deadlines have passed.")
	return said
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// countedOn says on which shards a preview counts what a change would do.
func (h *Handler) countedOn() show.Sentence {
	const others = "Tasks on other shards that depend on these follow when that is reported " +
		"there, and are not counted."
	if h.asked.Shards != nil {
		return show.Say("Each shard changes its part for itself. " + others)
	}
	return show.Say(others)
}

// moreAre says how many tasks pass a filter besides those that were found.
func (h *Handler) moreAre(
	ctx context.Context, filter url.Values, inStates []stint.State, found int,
) show.Sentence {
	text := "These are the first " + display.Number(int64(found)) + " that pass the filter. "
	count, known := h.countOf(ctx, filter, inStates)
	if left := count - int64(found); known && left > 0 {
		text += "About " + display.Number(left) + " more are left"
	} else {
		text += "There may be more"
	}
	return show.Say(text + ", with which you can go on. The command takes all of them as one plan.")
}

// countOf is about how many tasks in some states pass a filter, if the counts of the store tell.
func (h *Handler) countOf(
	ctx context.Context, filter url.Values, inStates []stint.State,
) (count int64, known bool) {
	f, _ := filters.New(filter)
	if f.Prefix != "" || f.Key != "" || f.Header != "" || f.Actor != "" || f.Age != "" {
		return 0, false
	}
	stats, err := h.asked.Counts.Get(ctx)
	if err != nil {
		return 0, false
	}
	for _, row := range actionRows(stats, &h.asked.Rates) {
		if f.Action != "" && f.Action != row.Action {
			continue
		}
		for _, tally := range row.States {
			if slices.Contains(inStates, tally.State) {
				count += tally.Tasks
			}
		}
	}
	return count, true
}

// findTasks finds the tasks that pass a filter and can be changed, as many as are changed at once.
// It also returns the states that it looked at.
func (h *Handler) findTasks(
	ctx context.Context, k *kind, query url.Values,
) (found bulk.Found, states []stint.State, err error) {
	_, filter := filters.New(query)
	filter.NewestFirst = false
	states = k.states
	if k.name == "retry" {
		states = states[:1] // completed ones only if the filter says so
	}
	if len(filter.States) > 0 {
		states = slices.DeleteFunc(slices.Clone(filter.States), func(state stint.State) bool {
			return !slices.Contains(k.states, state)
		})
	}
	if len(states) == 0 {
		return found, states, nil
	}
	filter.States = states
	skip := func(task *stint.TaskInfo) bool {
		return k.name == "retry" && task.AbortCause == stint.CauseDependency
	}
	const looksMax = changeTimeout / 4
	begun := kept.Now()
	found, err = bulk.Find(ctx, h.asked, filter, tasksAtOnce, skip, func() bool {
		return kept.Now().Sub(begun) > looksMax
	})
	return found, states, err
}

// nothingTo is the preview where there are no tasks to change.
func nothingTo(k *kind, filtered bool, found bulk.Found) previewData {
	data := previewData{
		Heading: "Nothing to " + k.name, Sentence: show.Say("No task is selected."),
	}
	switch {
	case found.Skipped > 0:
		data.Sentence = show.Say("Only tasks pass the filter that were aborted because of " +
			"others: retry these others, and they are opened with them.")
	case filtered && k.name == "retry":
		data.Sentence = show.Say("No aborted task passes the filter. To retry completed tasks, " +
			"filter by that state.")
	case filtered:
		data.Sentence = show.Say("No task that can be " + strings.ToLower(k.done) +
			" passes the filter.")
	}
	return data
}

// countOf says how many tasks are changed.
func countOf(k *kind, affected stint.Affected) string {
	text := display.Count(int64(len(affected.Tasks)), "task")
	if affected.InProgress > 0 {
		text += ", " + display.Number(int64(affected.InProgress)) + " of them in progress,"
	}
	if affected.Others > 0 {
		if affected.InProgress == 0 {
			text += ","
		}
		others := k.others
		if len(affected.Tasks) == 1 {
			others = strings.Replace(others, "them", "it", 1)
		}
		text += " and " + display.Number(int64(affected.Others)) + " " + others
	}
	return strings.TrimSuffix(text, ",")
}

// leftOuts are the tasks that are not changed, by reasons.
func leftOuts(
	k *kind, tasks []bulk.Task, affected stint.Affected, refused []bulk.Refusal,
) (left []leftOut) {
	known := map[stint.TaskID]bool{}
	for _, id := range affected.Tasks {
		known[id] = true
	}
	add := func(word, why string, ids ...stint.TaskID) {
		for _, id := range ids {
			known[id] = true
		}
		i := slices.IndexFunc(left, func(l leftOut) bool { return l.Why == why })
		if i < 0 {
			i, left = len(left), append(left, leftOut{word: word, Why: why})
		}
		left[i].Tasks += len(ids)
		left[i].IDs = append(left[i].IDs, ids[:min(len(ids), namedMax-len(left[i].IDs))]...)
	}
	for _, r := range refused {
		word, why := refusedBecause(r.Err)
		add(word, why, r.Tasks...)
	}
	for _, task := range tasks {
		word := "changed"
		switch {
		case known[task.ID]:
			continue
		case k.name == "abort" && !task.Finished.IsZero():
			word = "ended"
		case k.name == "retry" && task.Finished.IsZero():
			word = "open"
		case k.needs == Change && task.Finished.IsZero():
			word = "same"
		}
		add(word, whyLeft(word), task.ID)
	}
	return left
}

// leftWords are the words for why tasks are left out.
func leftWords() []string {
	return []string{
		"ended", "open", "busy", "started", "same", "behind", "gone", "silent", "changed",
	}
}

// whyLeft says what such a word means.
func whyLeft(word string) string {
	switch word {
	case "ended":
		return "ended already"
	case "open":
		return "not ended yet"
	case "busy":
		return "in progress"
	case "started":
		return "in progress, or ended already"
	case "same":
		return "so already, or changed since they were seen"
	case "behind":
		return "behind a task that was aborted, too"
	case "gone": // services do not tell which of the two
		return "gone, or not yours to change"
	case "silent":
		return "on a shard that does not answer"
	}
	return "gone, or begun or changed since they were seen"
}

// refusedBecause says why tasks are left out of a change, with the word for that.
func refusedBecause(err error) (word, why string) {
	word = "changed"
	var named *stint.TaskError
	var silent *ask.SilentError
	switch {
	case errors.Is(err, stint.ErrRefused):
		word = "gone"
	case errors.As(err, &silent):
		word = "silent"
	case errors.Is(err, stint.ErrTaskInProgress):
		word = "busy"
	case errors.Is(err, stint.ErrTaskStarted):
		word = "started"
	case errors.Is(err, stint.ErrTaskNotFound):
		word = "gone"
	case errors.Is(err, stint.ErrPredecessorAborted) && errors.As(err, &named) &&
		len(named.IDs) > 0:
		why = whyLeft("behind") + ": " + show.Text(named.IDs[0])
		if len(named.IDs) > 1 {
			why += " and others"
		}
		return "behind", why
	}
	return word, whyLeft(word)
}

func joinStates(states []stint.State) string {
	names := make([]string, len(states))
	for i := range states {
		names[i] = string(states[i])
	}
	return strings.Join(names, ",")
}

// commandTo is the command line that does the same; empty where nobody can type it.
func commandTo(k *kind, to stint.TaskChanges, filter url.Values, tasks []bulk.Task) string {
	does, flags := "stint "+k.name, ""
	if k.needs == Change {
		var ok bool
		if flags, ok = flagsOf(to); !ok {
			return ""
		}
		does = "stint change"
	}
	if filter == nil {
		if len(tasks) != 1 {
			return ""
		}
		id, ok := show.Argument(string(tasks[0].ID))
		if !ok {
			return ""
		}
		return does + " " + id + flags
	}
	f, asked := filters.New(filter)
	asked.NewestFirst = false
	line := filters.Command(f, asked)
	if line == "" || !f.Present {
		return ""
	}
	return does + strings.TrimPrefix(line, "stint ls") + flags
}
