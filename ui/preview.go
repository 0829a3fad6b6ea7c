package ui

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/filters"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// servePreview says what a change would do, and changes nothing.
func servePreview(h *Handler, w http.ResponseWriter, r *request) error {
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
	if data.Rest != nil {
		data.Rest = append(data.Rest, field{"back", data.Back})
	}
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
	case "weigh":
		return h.previewWeight(r)
	case "answer":
		return h.previewAnswer(r.Context(), r)
	case "insert":
		return h.previewInsert(r)
	case "schedule":
		return h.previewSchedule(r)
	case "new-schedule":
		return h.previewNewSchedule(r)
	case "delete-schedule":
		return h.previewDeletion(r)
	case "trigger":
		return h.previewTrigger(r)
	case "pause", "resume":
		return h.previewPause(r, k)
	}
	return h.previewTasks(r, k)
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
		data = nothingTo(k, filter != nil, found)
		data.Rest = restOf(k, with.to, filter, found)
		return data, nil
	}
	change := k.change(with)
	affected, refused, err := h.asked.LeavingOut(r.Context(), found.Tasks,
		func(ctx context.Context, tasks []bulk.Task) (stint.Affected, error) {
			return h.asked.Change(ctx, inStates, tasks, true, change)
		})
	if err != nil {
		return data, err
	}
	number := display.Count(int64(len(affected.Tasks)+affected.Others), "task")
	data = previewData{
		Heading:  k.text + " these tasks?",
		Sentence: show.Say(k.will + " " + countOf(k, affected) + "."),
		Left:     leftOuts(k, found.Tasks, affected, refused),
		Tasks:    affected.Tasks[:min(len(affected.Tasks), namedMax)],
		More:     max(len(affected.Tasks)-namedMax, 0),
		Asks:     "Reason, for those who ask later", Button: k.text + " " + number,
		Command: h.commandTo(k, with.to, filter, inStates, found.Tasks),
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
			" of the filter "+plural(found.Skipped, "was", "were")+" aborted because of others, "+
			"and "+plural(found.Skipped, "is", "are")+" opened when these others are retried."))
	}
	if h.ofShards() {
		data.Details = append(data.Details, h.countedOn())
	}
	data.Fields = []field{
		{"task", bulk.Pack(found.Tasks...)},
		{"states", joinStates(inStates)},
		{"others", strconv.Itoa(affected.Others)},
	}
	data.Fields = append(data.Fields, fieldsOf(with.to)...)
	if found.More {
		more := h.moreAre(r.Context(), filter, inStates, len(found.Tasks), data.Command != "")
		data.Details = append(data.Details, more)
		data.Rest = restOf(k, with.to, filter, found)
		data.Fields = append(data.Fields, field{"filter", filter.Encode()})
	}
	return data, nil
}

// restOf are the fields of the form that asks what a change would do to the other tasks that pass a
// filter, besides where to go back to. It sets the filter to theirs. There are none if no others
// are left.
func restOf(k *kind, to stint.TaskChanges, filter url.Values, found bulk.Found) []field {
	if !found.More {
		return nil
	}
	filter.Del("after")
	if k.needs == Change || len(found.Tasks) == 0 { // what was changed may still pass the filter
		filter.Set("after", string(found.Next))
	}
	fields := []field{{"do", k.name}, {"of", "all"}, {"filter", filter.Encode()}}
	if k.name == "change" { // which says by fields what it changes, as others do by their names
		fields = append(fields, fieldsOf(to)...)
	}
	return fields
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
	if h.asked.ShardCounts != nil {
		return show.Say("Each shard changes its part for itself. " + others)
	}
	return show.Say(others)
}

// moreAre says how many tasks pass a filter besides those that were found.
func (h *Handler) moreAre(
	ctx context.Context, filter url.Values, inStates []stint.State, found int, hasCommand bool,
) show.Sentence {
	text := "These are the first " + display.Number(int64(found)) + " that pass the filter. "
	count, known := h.countOf(ctx, filter, inStates)
	if left := count - int64(found); known && left > 0 {
		text += "About " + display.Number(left) + " more are left"
	} else {
		text += "There may be more"
	}
	text += ", with which you can go on."
	if hasCommand {
		text += " The command takes all of them as one plan."
	}
	return show.Say(text)
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

func joinStates(states []stint.State) string {
	names := make([]string, len(states))
	for i := range states {
		names[i] = string(states[i])
	}
	return strings.Join(names, ",")
}

// commandTo is the command line that does the same to tasks, or to those in some states that pass a
// filter; empty where nobody can type it.
func (h *Handler) commandTo(
	k *kind, to stint.TaskChanges, filter url.Values, inStates []stint.State, tasks []bulk.Task,
) string {
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
		id, ok := show.Arguments(string(tasks[0].ID))
		if !ok {
			return ""
		}
		return does + flags + " " + id
	}
	if h.ofShards() { // the command takes no filter over shards
		return ""
	}
	f, asked := filters.New(filter)
	asked.NewestFirst = false
	if len(asked.States) > 0 || k.name == "run" { // the command takes what else may be changed
		asked.States = inStates
	}
	line := filters.Command(f, asked)
	if line == "" || !f.Present {
		return ""
	}
	return does + strings.TrimPrefix(line, "stint ls") + flags
}
