package ui

import (
	"net/url"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/ui/internal/why"
)

// A changedData is what a page tells of a change.
type changedData struct {
	Sentence  show.Sentence
	Details   []show.Sentence
	Left      []leftOut
	LeftNamed []stint.TaskID
	Became    show.Sentence  // what became of the task, if it was one
	Changed   int            // how many tasks were changed
	Tasks     []stint.TaskID // the first of them
	More      int
	GoOn      *offer
	Back      string
}

// changedPage tells of a change what its address says.
func changedPage(h *Handler, r *request) (view, error) {
	query := r.URL.Query()
	k, ok := kindNamed(query.Get("do"))
	// No link of another site tells people what they have not done.
	from := r.Header.Get("Sec-Fetch-Site")
	if !ok || from == "cross-site" || from == "same-site" {
		return view{}, refuse.ErrNoPage
	}
	if !k.isFor(r) {
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
			data.Became = why.Of(&now.Why).Headline
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
	case k.name == "insert":
		id := query.Get("id")
		data.Sentence = show.Say("Inserted ",
			show.Part{Text: display.Text(id), Link: show.Link("task", "id", id)}, ".")
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
