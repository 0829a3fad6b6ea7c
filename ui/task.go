package ui

import (
	"maps"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/graphs"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/ui/internal/why"
)

type taskData struct {
	Partly      bool // as in [request]
	Task        stint.TaskInfo
	Why         why.Reason
	Origins     []stint.TaskInfo // why, when one goes back through the network
	OriginsAre  string
	OriginsMore int
	Facts       []fact
	Timeline    []event
	// TriesMissing says that there were more tries than the store keeps.
	TriesMissing bool
	TriesCut     int  // how many that it keeps the timeline lacks
	ChangesCut   bool // it lacks changes, too
	// ShowTries and ShowChanges are commands that show all.
	ShowTries, ShowChanges string
	Steps                  []stint.StepInfo
	Progress               float64
	Before                 graphs.Neighbours
	After                  graphs.Neighbours
	Network                int  // how many tasks the network has
	NetworkCut             bool // there are more
	NetworkLink            string
	NetworkAway            bool // the store did not say
	MayReadBody            bool
	Bodies                 []show.Value // with the result
	Large                  bool         // some value was not read
	SaveBody               string
	SaveResult             string
	Commands               []string
	Offers                 []*offer // what can be done
	Now                    time.Time
}

// A fact is something that is known of a task: its name, and text, a link or a time.
type fact struct {
	Name string
	Said show.Sentence
}

// taskPage shows what is known of a task.
func taskPage(h *Handler, r *request) (view, error) {
	ctx, query := r.Context(), r.URL.Query()
	id := stint.TaskID(query.Get("id"))
	found, err := h.asked.Task(ctx, id)
	if err != nil {
		return view{}, err
	}
	e := found.Why
	e.Now = h.asked.Clock.Now(ctx) // the answer may be that to somebody who asked before
	data := taskData{
		Partly: r.partly,
		Task:   e.Task, Why: why.Of(&e), Facts: facts(&e), Steps: e.Steps, Now: e.Now,
		Progress: e.Task.Progress, MayReadBody: r.may(ReadBodies),
		NetworkLink: show.Link("network", "id", string(id)), Commands: commandsFor(&e.Task),
	}
	if shard, address := h.asked.OnShard(id); shard != "" {
		there := show.Part{Text: display.Text(shard), Link: address}
		data.Facts = append(data.Facts, fact{"Shard", show.Say(there)})
		if e.Limits != nil {
			data.Why.Add("Limits and pauses are those of its shard: ", there, ".")
		}
	}
	if h.all != nil {
		name := h.shard + "/" + string(id)
		data.Facts = append(data.Facts, fact{"Across shards", show.Say(show.Part{
			Text: display.Text(name), Link: h.up + show.Link("task", "id", name),
		})})
	}
	data.Offers = h.taskOffers(r, &e)
	data.Timeline, data.TriesMissing = timeline(&e, found)
	data.TriesCut, data.ChangesCut = found.TriesCut, found.ChangesCut
	if name, ok := show.Arguments(string(id)); ok {
		data.ShowTries, data.ShowChanges = "stint show "+name, "stint changes "+name
	}
	if graph, err := h.asked.Graphs.Get(ctx, id); err == nil {
		data.Before, data.After = graphs.Around(graph, id, data.MayReadBody)
		data.addOrigins(graph)
		h.offerOrigins(r, &data, graph)
		data.Network, data.NetworkCut = len(graph.Tasks), graph.Cut
	} else {
		data.NetworkAway = true
	}
	if data.MayReadBody {
		if err := h.addValues(r, &data); err != nil {
			return view{}, err
		}
	}
	return view{name: "task", title: show.Text(id), data: data}, nil
}

// taskOffers are what can be done with a task, and with what holds it up.
func (h *Handler) taskOffers(r *request, e *stint.Explanation) (offers []*offer) {
	task, back := &e.Task, field{"back", show.Link("task", "id", string(e.Task.ID))}
	add := func(o *offer) {
		if o != nil {
			offers = append(offers, o)
		}
	}
	var names []string
	if task.Action == stint.External && task.State == stint.StateReady {
		names = append(names, "answer")
	}
	again := h.insertAgain(r, e)
	for _, name := range []string{"run", "retry", "change", "abort", "delete"} {
		k, _ := kindNamed(name)
		if name == "retry" && again != nil { // it would be aborted again
			continue
		}
		if slices.Contains(k.states, task.State) ||
			name == "run" && task.State == stint.StateBlocked && task.NotBefore.After(e.Now) {
			names = append(names, name)
		}
	}
	add(h.offer(r, []field{{"task", bulk.Pack(bulk.NewTask(task))}, back}, names...))
	add(again)
	add(h.offer(r, []field{{"task", bulk.Pack(bulk.NewTask(task))}, back},
		"insert").called("Insert a copy"))
	if e.Limits == nil {
		return offers
	}
	of := func(key string) []field {
		return append(target{action: task.Action, key: key}.fields(), back)
	}
	if !e.Limits.PausedSince.IsZero() {
		add(h.offer(r, of(""), "resume").called("Resume the action"))
	}
	if !e.Limits.KeyPausedSince.IsZero() {
		add(h.offer(r, of(task.Key), "resume").called("Resume the key"))
	}
	if e.Limits.Limits != (stint.Limits{}) {
		add(h.offer(r, of(""), "limit").called("Set the limits"))
	}
	if held := e.Limits.KeyOwned; e.Limits.Limits.Ordered && len(held) == 1 {
		add(h.offer(r, []field{{"task", bulk.Pack(bulk.NewTask(&held[0]))}, back}, "abort").
			called("Abort " + show.Text(held[0].ID)))
	}
	return offers
}

// insertAgain offers to insert a task as it was that was aborted since its deadline passed: a retry
// would be aborted, too. It is nil of other tasks, and for those who may not read the body, or its
// conditions.
func (h *Handler) insertAgain(r *request, e *stint.Explanation) *offer {
	task := &e.Task
	if task.AbortCause != stint.CauseExpired || !r.may(ReadBodies) {
		return nil
	}
	form := insertForm{}
	form.copyOf(task)
	if h.copyConditions(r, &form, task.ID) != "" {
		return nil
	}
	fields := []field{
		{"task", bulk.Pack(bulk.NewTask(task))},
		{"back", show.Link("task", "id", string(task.ID))},
		{"at", microsOf(r.now)},
		{fieldNewID, ""},
		{fieldNewAction, form.Action},
		{fieldNewKey, form.Key},
		{fieldNewPriority, form.Priority},
		{fieldNewBody, ""},
		{fieldNewTries, form.MaxTries},
		{fieldNewCost, form.Cost},
		{fieldNewDeadline, ""},
		{fieldNewHeaders, form.Headers},
		{fieldNewAfter, ""},
		{fieldNewWhen, form.When},
		{fieldStart, ""},
		{fieldStartAt, ""},
		{fieldSameBody, "true"},
	}
	if form.AnyOf {
		fields = append(fields, field{fieldAnyOf, "true"})
	}
	return h.offer(r, fields, "insert").called("Insert it again, without the deadline")
}

// addValues adds the body and the result.
func (h *Handler) addValues(r *request, data *taskData) error {
	info, large, err := h.asked.Values.Of(r.Context(), &data.Task)
	if err != nil {
		return err
	}
	if info.Hidden { // the service may decide otherwise than the program
		data.MayReadBody = false
		return nil
	}
	query, id := r.URL.Query(), data.Task.ID
	data.Large = large
	data.SaveBody = show.Link("value", "id", string(id), "of", "body")
	data.SaveResult = show.Link("value", "id", string(id), "of", "result")
	for _, value := range []struct {
		name, title string
		bytes       []byte
	}{{"body", "Body", info.Body}, {"result", "Result", info.Result}} {
		if len(value.bytes) == 0 {
			continue
		}
		shown := value.bytes
		if h.options.Format != nil {
			shown = h.options.Format(data.Task, slices.Clone(shown))
		}
		v := show.NewValue(value.name, value.title, id, shown, query.Get(value.name))
		v.Bytes = len(value.bytes)
		data.Bodies = append(data.Bodies, v)
	}
	return nil
}

// facts are what else is known of a task.
func facts(e *stint.Explanation) []fact {
	task := &e.Task
	var all []fact
	add := func(name string, pieces ...any) { all = append(all, fact{name, show.Say(pieces...)}) }
	add("Action", show.Action(task.Action))
	if task.Key != "" {
		add("Key", show.Part{
			Text: display.Text(task.Key),
			Link: show.Link("tasks", "key", task.Key, "action", task.Action),
		})
	}
	for _, name := range slices.Sorted(maps.Keys(task.Headers)) {
		value := task.Headers[name]
		add("Header "+name, show.Part{
			Text: display.Text(value), Link: show.Link("tasks", "header", name+"="+value),
		})
	}
	if task.Actor != "" {
		name := "Owner"
		if task.State != stint.StateInProgress {
			name = "Last owner"
		}
		add(name, show.Actor(task.Actor))
	}
	if task.Action != stint.Spontaneous && task.Action != stint.External {
		add("Tries", display.Tries(task))
	}
	add("Inserted", show.NewMoment(task.InsertedAt, e.Now))
	if !task.Deadline.IsZero() {
		add("Deadline", show.NewMoment(task.Deadline, e.Now))
	}
	if task.Priority != 0 {
		add("Priority", display.Number(int64(task.Priority)))
	}
	if task.OnAbort == stint.RunAnyway {
		add("On abort", "runs even if a task that it waits for is aborted")
	}
	if task.PostResult {
		add("Result", "kept for those who wait for it")
	}
	return all
}

// originsMax is how many origins are named.
const originsMax = 10

// addOrigins adds the tasks at which it began that the task is blocked, or was aborted, unless they
// are those that the task itself waits for.
func (d *taskData) addOrigins(graph *stint.Graph) {
	switch {
	case d.Task.State == stint.StateBlocked:
		d.OriginsAre = "In the end it waits for"
	case d.Task.AbortCause == stint.CauseDependency:
		d.OriginsAre = "It began with"
	default:
		return
	}
	found := graphs.Origins(graph, d.Task.ID, func(task *stint.TaskInfo) (goOn, isOrigin bool) {
		if d.Task.State == stint.StateBlocked {
			blocked := task.State == stint.StateBlocked
			return blocked, !show.IsFinal(task.State) && !blocked
		}
		through := task.AbortCause == stint.CauseDependency
		return through, task.State == stint.StateAborted && !through
	})
	named := map[stint.TaskID]bool{}
	for i := range d.Why.Others {
		named[d.Why.Others[i].ID] = true
	}
	isNew := func(task stint.TaskInfo) bool { return !named[task.ID] }
	if len(found) == len(named) && !slices.ContainsFunc(found, isNew) {
		return // it says so already
	}
	d.OriginsMore = max(len(found)-originsMax, 0)
	d.Origins = found[:min(len(found), originsMax)]
}

// offerOrigins offers to retry the tasks because of which a task was aborted, in the place of the
// task itself, which is opened with them and not without.
func (h *Handler) offerOrigins(r *request, d *taskData, graph *stint.Graph) {
	if d.Task.AbortCause != stint.CauseDependency {
		return
	}
	found := graphs.Origins(graph, d.Task.ID, func(task *stint.TaskInfo) (goOn, isOrigin bool) {
		through := task.AbortCause == stint.CauseDependency
		return through, task.State == stint.StateAborted && !through
	})
	if len(found) == 0 || len(found) > tasksAtOnce {
		return
	}
	seen, ids := make([]bulk.Task, len(found)), make([]string, len(found))
	for i := range found {
		seen[i], ids[i] = bulk.NewTask(&found[i]), string(found[i].ID)
	}
	args, canType := show.Arguments(ids...)
	if canType && len(found) <= originsMax && len(d.Commands) > 0 {
		d.Commands = append(d.Commands, "stint retry "+args)
	}
	for _, o := range d.Offers {
		o.Buttons = slices.DeleteFunc(o.Buttons, func(b button) bool { return b.Do == "retry" })
	}
	d.Offers = slices.DeleteFunc(d.Offers, func(o *offer) bool { return len(o.Buttons) == 0 })
	o := h.offer(r, []field{
		{"task", bulk.Pack(seen...)}, {"back", show.Link("task", "id", string(d.Task.ID))},
	}, "retry").called("Retry where it began")
	if o != nil {
		d.Offers = append([]*offer{o}, d.Offers...)
	}
}

// commandsFor are command lines that do the same as the page, or what it cannot do. There are none
// where the ID is one that nobody can type.
func commandsFor(task *stint.TaskInfo) []string {
	id, ok := show.Arguments(string(task.ID))
	if !ok {
		return nil
	}
	lines := []string{"stint explain " + id, "stint show " + id}
	switch task.State {
	case stint.StateCompleted, stint.StateAborted, stint.StateSkipped:
		if task.AbortCause == stint.CauseDependency { // it would be refused: see offerOrigins
			return lines
		}
		return append(lines, "stint retry "+id)
	case stint.StateBlocked, stint.StateScheduled, stint.StateReady, stint.StateInProgress:
	}
	return append(lines, "stint abort "+id)
}
